"""Orders to the outside, as the journal holds them. Pure."""
