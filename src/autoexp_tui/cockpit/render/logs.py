"""Which files hold a job's log, what stands at its end, and where an event leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.text.spelling import clock_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.event import Event

NEVER_RAN: Final = "nothing was started"
NO_JOB: Final = "no job is shown"
NONE_BEGAN: Final = "none of these jobs has begun"


class Source(NamedTuple):
    """A file that can be read: the log of an attempt, stdout and stderr in one."""

    label: str
    path: str
    trailer: str = ""
    """Said below its last line: that the attempt has ended, and how."""


def find_logs(
    jobs: Sequence[JobView], now: float
) -> tuple[tuple[Source, ...], str, str]:
    """The log of each attempt of the first job that has begun, the newest last; words
    for where there is none, but of one job that has not begun; the job's name."""
    job = next((job for job in jobs if job.attempt is not None), None)
    attempt = job.attempt if job is not None else None
    if job is None or attempt is None:
        return (), NO_JOB if not jobs else NONE_BEGAN if len(jobs) > 1 else "", ""
    if attempt.began_at is None and attempt.ended_at is not None:
        return (), NEVER_RAN, job.name
    newest = attempt.log_path or job.record.spec.log_path_current
    logs = [(one, one.log_path) for one in job.record.attempts[:-1] if one.log_path]
    sources = []
    for one, path in (*logs, (attempt, newest)):
        code = f", exit {one.exit_code}" if one.exit_code is not None else ""
        if one.signal is not None:
            code = f", signal {one.signal}"
        ended = one.ended_at
        trailer = "" if ended is None else f"end of log {clock_time(ended, now)}{code}"
        sources.append(Source(f"attempt {one.number}", path, trailer))
    return tuple(sources), "", job.name


class LogSpot(NamedTuple):
    """A place in the log of an attempt."""

    job: str
    source: Source
    offset: int | None = None
    """Byte offset of the line; None: the end."""
    words: str = ""
    """With the end: what to look for, upwards."""


def find_evidence(event: Event, session: SessionView) -> LogSpot | None:
    """Where to look; None where the event's own words are all there is."""
    from autoexp_tui.events import events  # a first paint needs none

    match event:
        case events.LogMatched(job=job, attempt=number, offset=offset):
            return _find_spot(session, job, number, offset)
        case events.AttemptEnded(job=job, attempt=number, evidence=words):
            return _find_spot(session, job, number, None, words)
        case events.EvidenceCaptured(job=job, directory=path) if path:
            return LogSpot(job, Source("evidence", f"{path}/summary.txt"))
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
