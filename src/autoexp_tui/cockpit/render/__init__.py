"""Lines, tables and words of the cockpit, made from its state. Pure."""
