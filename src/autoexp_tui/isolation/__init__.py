"""Runs foreign code so that it reaches no more than a profile names."""
