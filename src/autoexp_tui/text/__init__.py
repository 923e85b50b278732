"""Spelling, cleaning and searching text. Imports nothing of ours."""
