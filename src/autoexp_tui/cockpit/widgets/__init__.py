"""Panes: they draw lines that the views made, and tell where the cursor is."""
