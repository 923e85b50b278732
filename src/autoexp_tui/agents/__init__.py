"""Calls of agents: one program, one prompt, one answer, under limits."""
