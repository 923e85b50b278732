"""The research loop: what is tried next, by facts and by an agent."""
