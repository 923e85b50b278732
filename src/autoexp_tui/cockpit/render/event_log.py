"""Events as lines: one each in the list, all of one below it, and its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.logs import Source
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    shorten_middle,
    wrap,
)
from autoexp_tui.cockpit.state.event_history import (
    Entry,
    describe_entry,
    find_headline,
)
from autoexp_tui.events import events
from autoexp_tui.text.spelling import clock_time, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import SessionView

_MARKS: Final[Mapping[str, tuple[str, Role]]] = {
    "ok": ("✓", "done"),
    "failed": ("✗", "failed"),
    "uncertain": ("≈", "asks"),
    "pending": ("⧗", "queued"),
}


def render_entry(entry: Entry, now: float, cells: int) -> Line:
    """`04:12:04  a_job  job ended  out of memory`, at most `cells` wide."""
    mark, role = _find_mark(entry)
    names, t = entry.jobs, entry.record.t
    job_cells = max(12, min(36, cells // 3))
    several = plural(len(names), "job") if names else ""
    job = outside(names[0] if len(names) == 1 else several) or "-"
    clock = clock_time(t, now)
    when = clock[5:] if " " in clock else f"   {clock}:{int(t) % 60:02}"
    what, about = find_headline(entry, now)
    content = line(
        Span(f"{mark} ", role),
        Span(f"{when}  ", "muted"),
        Span(f"{fit(shorten_middle(job, job_cells), job_cells)}  "),
        Span(f"{fit(outside(what), 18)} ", "text" if role == "muted" else role),
        Span(fit(outside(about), max(1, cells - job_cells - 36)), "muted"),
    )
    return cut(content, cells)


def _find_mark(entry: Entry) -> tuple[str, Role]:
    match entry.event:
        case events.EffectOrdered():
            return _MARKS[entry.settled.outcome if entry.settled else "pending"]
        case events.EffectSettled(outcome=outcome):
            return _MARKS[outcome]
        case events.EngineFaulted() | events.CommandRefused():
            return "✗", "failed"
        case events.WarningRaised():
            return "!", "warning"
    return " ", "muted"


def render_detail(entry: Entry | None, now: float, cells: int) -> tuple[Line, ...]:
    """All of an entry: as it was ordered, why, and its exact words."""
    if entry is None:
        return ((Span(" Nothing has happened yet.", "muted"),),)
    return tuple(
        row
        for label, text in describe_entry(entry, now)
        for row in wrap((Span(f" {label:<11} ", "muted"), Span(text)), cells, " " * 13)
    )


@dataclass(frozen=True, slots=True)
class LogSpot:
    """A place in the log of an attempt."""

    job: str
    source: Source
    offset: int | None = None
    """Byte offset of the line; None: the end."""
    words: str = ""
    """With the end: what to look for, upwards."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory that was filled with what could be seen."""

    job: str
    path: str


def find_evidence(entry: Entry, session: SessionView) -> LogSpot | Folder | None:
    """Where to look; None where the entry's own words are all there is."""
    match entry.event:
        case events.LogMatched(job=job, attempt=number, offset=offset):
            return _find_spot(session, job, number, offset)
        case events.AttemptEnded(job=job, attempt=number, evidence=words):
            return _find_spot(session, job, number, None, words)
        case events.EvidenceCaptured(job=job, directory=path) if path:
            return Folder(job, path)
        case events.RunBegan(job=job, attempt=number):
            return _find_spot(session, job, number, 0)
        case events.JobEnded(job=job) | events.RetryOrdered(job=job):
            return _find_spot(session, job, 0, None)
        case events.WarningRaised(job=job, evidence=words) if job:
            return _find_spot(session, job, 0, None, words)
    return None


def _find_spot(
    session: SessionView, name: str, number: int, offset: int | None, words: str = ""
) -> LogSpot | None:
    """A place in the log of attempt `number`, 0 for the newest; None without one."""
    job = session.job(name)
    attempts = job.record.attempts if job is not None else ()
    found = [one for one in attempts if number in (0, one.number)]
    if job is None or not found or found[-1].began_at is None:
        return None
    path = found[-1].log_path or job.record.spec.log_path_current
    return LogSpot(name, Source("out", path), offset, words)
