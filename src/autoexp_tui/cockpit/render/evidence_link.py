"""Where the evidence of an event lies: a place in a log, a directory, or its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.logs import Source
from autoexp_tui.events import events

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.event_log import Entry
    from autoexp_tui.cockpit.state.session import SessionView


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


def proof_of(entry: Entry, session: SessionView) -> LogSpot | Folder | None:
    """Where to look; None where the entry's own words are all there is."""
    match entry.event:
        case events.LogMatched(job=job, attempt=number, offset=offset):
            return _spot(session, job, number, offset)
        case events.AttemptEnded(job=job, attempt=number, evidence=words):
            return _spot(session, job, number, None, words)
        case events.EvidenceCaptured(job=job, directory=path) if path:
            return Folder(job, path)
        case events.RunBegan(job=job, attempt=number):
            return _spot(session, job, number, 0)
        case events.JobEnded(job=job) | events.RetryOrdered(job=job):
            return _spot(session, job, 0, None)
        case events.WarningRaised(job=job, evidence=words) if job:
            return _spot(session, job, 0, None, words)
    return None


def _spot(
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
