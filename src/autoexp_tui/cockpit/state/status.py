"""How a job looks: its state as a person wants it told, never by colour alone.

A look adds to the engine's states what a person cares about: a waiting job that asks
them, one that can never start, a running one that stands still.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import Role, Span
from autoexp_tui.model.resubmission import asks, is_doomed
from autoexp_tui.model.states import JobState

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.model.states import Why


class Look(StrEnum):
    """What a job looks like, in the order in which counts are told."""

    glyph: str
    twin: str
    """The glyph in ASCII, one cell wide."""
    role: Role

    def __new__(cls, word: str, glyph: str, twin: str, role: Role) -> Look:
        """A look by its word, glyph, ASCII twin and role."""
        made = str.__new__(cls, word)
        made._value_ = word
        made.glyph, made.twin, made.role = glyph, twin, role
        return made

    DONE = "done", "✓", "+", "done"
    RUNNING = "running", "▸", "o", "running"
    STALLED = "stalled", "‖", "|", "stalled"
    SUSPENDED = "suspended", "□", "=", "queued"
    ENDING = "ending", "◂", "<", "running"
    SENDING = "sending", "↑", "^", "queued"
    IN_DOUBT = "in doubt", "≈", "~", "asks"
    QUEUED = "queued", "⧗", ":", "queued"
    RETRYING = "retrying", "↻", "@", "queued"
    WAITING = "waiting", "◌", ".", "waiting"
    ASKS = "asks", "?", "?", "asks"
    DOOMED = "cannot start", "⊘", "&", "doomed"
    HELD = "held", "‗", "_", "skipped"
    PLANNED = "planned", "·", ",", "waiting"
    FAILED = "failed", "✗", "x", "failed"
    LOST = "lost", "∅", "%", "failed"
    CANCELLED = "cancelled", "×", "/", "skipped"
    SKIPPED = "skipped", "–", "-", "skipped"


NEEDS: Final = (Look.FAILED, Look.LOST, Look.STALLED, Look.DOOMED, Look.ASKS)
"""Looks that need a person, most urgent first."""
ENDED_BADLY: Final = frozenset({Look.FAILED, Look.LOST})
BEGUN_LOOKS: Final = frozenset(
    {Look.RUNNING, Look.STALLED, Look.SUSPENDED, Look.ENDING}
)
"""Looks of jobs that have begun and not ended."""

_OTHER_NAMES: Final = {
    JobState.SUBMITTING: Look.SENDING,
    JobState.SUBMIT_UNKNOWN: Look.IN_DOUBT,
    JobState.COMPLETED: Look.DONE,
}
STATE_LOOKS: Final[Mapping[JobState, Look]] = MappingProxyType(
    {state: _OTHER_NAMES.get(state) or Look[state.name] for state in JobState}
)


def find_look(record: JobRecord, *, stalled: bool, leaving: bool = False) -> Look:
    """The job's look; `leaving`: its run is over, and how it ended is not known yet."""
    if record.state is JobState.RUNNING and (leaving or stalled):
        return Look.ENDING if leaving else Look.STALLED
    if asks(record):
        return Look.ASKS
    return Look.DOOMED if is_doomed(record) else STATE_LOOKS[record.state]


def render_badge(look: Look) -> Span:
    """Glyph and word: `✗ failed`."""
    return Span(f"{look.glyph} {look.value}", look.role)


def render_tally(look: Look, number: int, *, apart: bool = False) -> Span:
    """Glyph and count: `✗9`; `apart` where the glyph could be read as a digit's."""
    return Span(f"{look.glyph}{' ' if apart else ''}{number}", look.role)


def render_tallies(counts: Mapping[Look, int], *, apart: bool = False) -> list[Span]:
    """`✓28 ▸4 ‖2 ✗4`: every look that is there."""
    return [
        render_tally(one, counts[one], apart=apart) for one in Look if one in counts
    ]


def render_counts(counts: Mapping[Look, int], *, apart: bool = False) -> list[Span]:
    """`✓28 done`, `▸4 running`: every look that is there, with its word."""
    return [
        Span(f"{render_tally(one, counts[one], apart=apart).text} {one}", one.role)
        for one in Look
        if one in counts
    ]


def find_missing_file(why: Why | None) -> str:
    """The end of a file's path when its writer completed without it; else empty."""
    if why is None or why.code != "doomed_file" or why.arg("state") != "COMPLETED":
        return ""
    return "/".join(str(why.arg("path") or "").rsplit("/", 2)[-2:])
