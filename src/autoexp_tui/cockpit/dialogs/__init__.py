"""Dialogs and overlays."""
