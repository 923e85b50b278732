"""Conditions: their fields, what they read, and what they say. Pure."""
