"""Calls of the research agent and of the fixer, and what the research loop asks of the
disk, of git and of planning."""
