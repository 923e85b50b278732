"""How a job looks: its state as a person wants it told, with a glyph and a word.

The engine's states say what is recorded; a look adds what a person cares about: a
waiting job that asks them, one that can never start, a running one that stands still.
State is never told by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import Role, Span
from autoexp_tui.conditions.unmet import asks, is_doomed
from autoexp_tui.model.states import JobState, Why

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord


class Look(StrEnum):
    """What a job looks like, in the order in which counts are told."""

    DONE = "done"
    RUNNING = "running"
    STALLED = "stalled"
    SUSPENDED = "suspended"
    ENDING = "ending"
    SENDING = "sending"
    IN_DOUBT = "in doubt"
    QUEUED = "queued"
    RETRYING = "retrying"
    WAITING = "waiting"
    ASKS = "asks"
    DOOMED = "doomed"
    HELD = "held"
    PLANNED = "planned"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Face:
    """Glyph, one-cell ASCII twin and role of a look."""

    glyph: str
    twin: str
    role: Role


FACES: Final[Mapping[Look, Face]] = MappingProxyType(
    {
        Look.DONE: Face("✓", "+", "done"),
        Look.RUNNING: Face("▸", "o", "running"),
        Look.STALLED: Face("‖", "|", "stalled"),
        Look.SUSPENDED: Face("□", "=", "queued"),
        Look.ENDING: Face("◂", "<", "running"),
        Look.SENDING: Face("↑", "^", "queued"),
        Look.IN_DOUBT: Face("≈", "~", "asks"),
        Look.QUEUED: Face("⧗", ":", "queued"),
        Look.RETRYING: Face("↻", "@", "queued"),
        Look.WAITING: Face("◌", ".", "waiting"),
        Look.ASKS: Face("?", "?", "asks"),
        Look.DOOMED: Face("⊘", "&", "doomed"),
        Look.HELD: Face("‗", "_", "skipped"),
        Look.PLANNED: Face("·", ",", "waiting"),
        Look.FAILED: Face("✗", "x", "failed"),
        Look.LOST: Face("∅", "%", "failed"),
        Look.CANCELLED: Face("×", "/", "skipped"),
        Look.SKIPPED: Face("–", "-", "skipped"),
    }
)

NEEDS: Final = (Look.FAILED, Look.LOST, Look.STALLED, Look.DOOMED, Look.ASKS)
"""Looks that need a person, most urgent first."""

ENDED_BADLY: Final = frozenset({Look.FAILED, Look.LOST})

_PLAIN: Final[Mapping[JobState, Look]] = MappingProxyType(
    {
        JobState.PLANNED: Look.PLANNED,
        JobState.HELD: Look.HELD,
        JobState.WAITING: Look.WAITING,
        JobState.SUBMITTING: Look.SENDING,
        JobState.SUBMIT_UNKNOWN: Look.IN_DOUBT,
        JobState.QUEUED: Look.QUEUED,
        JobState.RUNNING: Look.RUNNING,
        JobState.SUSPENDED: Look.SUSPENDED,
        JobState.RETRYING: Look.RETRYING,
        JobState.COMPLETED: Look.DONE,
        JobState.FAILED: Look.FAILED,
        JobState.CANCELLED: Look.CANCELLED,
        JobState.SKIPPED: Look.SKIPPED,
        JobState.LOST: Look.LOST,
    }
)


def glyph(look: Look) -> Span:
    """The look's glyph in its role."""
    face = FACES[look]
    return Span(face.glyph, face.role)


def badge(look: Look) -> Span:
    """Glyph and word: `✗ failed`."""
    face = FACES[look]
    return Span(f"{face.glyph} {look.value}", face.role)


def tally(look: Look, number: int, *, apart: bool = False) -> Span:
    """Glyph and count: `✗9`; `apart` where the glyph could be read as a digit's."""
    face = FACES[look]
    return Span(f"{face.glyph}{' ' if apart else ''}{number}", face.role)


def never_came(why: Why | None) -> str:
    """The end of a file's path when its writer completed without it; else empty."""
    if why is None or why.code != "doomed_file" or why.arg("state") != "COMPLETED":
        return ""
    return "/".join(str(why.arg("path") or "").rsplit("/", 2)[-2:])


def unexplained(record: JobRecord) -> bool:
    """Whether the job was skipped for a file, and no failure of another tells why."""
    return record.state is JobState.SKIPPED and bool(never_came(record.why))


def look_of(record: JobRecord, *, stalled: bool, leaving: bool = False) -> Look:
    """The job's look.

    Args:
        record: the job.
        stalled: whether its counter stands still.
        leaving: whether its run is over, and how it ended is not known yet.
    """
    if record.state is JobState.RUNNING and leaving:
        return Look.ENDING
    if record.state is JobState.RUNNING and stalled:
        return Look.STALLED
    if asks(record):
        return Look.ASKS
    if is_doomed(record):
        return Look.DOOMED
    return _PLAIN[record.state]
