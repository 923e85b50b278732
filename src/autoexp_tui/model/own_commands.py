"""Commands that a person puts on keys of the cockpit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """An entry of `ui.commands`, or of the settings' `[[commands]]`."""

    key: str
    label: str
    """What it is called, in a word or two."""
    command: tuple[str, ...]
    """A program and its words; no shell sees them."""
    where: tuple[str, ...] = ()
    """The panes that have it; empty: all whose rows are jobs."""
    confirm: bool = False
    """Whether it asks first."""
    terminal: bool = False
    """Whether it is given the terminal; else its output is shown when it ends."""
