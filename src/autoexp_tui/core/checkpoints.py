"""A checkpoint as the engine knows it: a path, and the step that its name tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One that a job's program may go on from."""

    path: str
    """Absolute."""
    step: int | None = None
    """None: its name holds no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """The newest at one look, and what moving it aside would mean."""

    newest: Checkpoint
    target: str
    """A free name beside it."""
    before: Checkpoint | None = None
    """The newest of the others; None: it is the only one."""
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """What the next attempt would go on from."""

    checkpoint: Checkpoint
    strikes: int = 0
    """Attempts in a row that went on from it and failed before they came further."""
