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
class CheckpointPlace:
    """Where a job that runs keeps what its next attempt would go on from."""

    job: str
    output_dir: str
    glob: str
    """Relative to `output_dir`."""
    since: float | None = None
    """UTC: what is older is of other work; None: all of it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCheckpoint:
    """The newest checkpoint of a job that runs, at one look."""

    step: int | None
    """None: its name holds no number."""
    age: float
    """Seconds since it was written, by the file system's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """What the next attempt would go on from."""

    checkpoint: Checkpoint
    strikes: int = 0
    """Attempts in a row that went on from it and failed before they came further."""
