"""Screens: they lay panes out, route keys to commands, and ask questions."""
