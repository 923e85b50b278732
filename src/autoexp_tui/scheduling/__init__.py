"""Which jobs start next, and when submission pauses. Pure."""
