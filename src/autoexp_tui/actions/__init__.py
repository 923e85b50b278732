"""Actions of rules: their fields, when they run, and what they order. Pure."""
