"""What a user of the trainer can put right.

Everything else (a bug, a broken machine) is left to end in a traceback.
"""

from __future__ import annotations


class DemoError(Exception):
    """A wrong argument or a missing or unusable file; its text is one line."""
