"""Whose a file is: what an earlier attempt left does not count for who waits.

An attempt continues the one before it when it does the same work and was not told to
begin anew; else it begins anew. Before such an attempt is submitted the engine looks at
what its followers wait for, and what lies there is set aside: it counts again once it
is another file. Identities are compared, never clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.model.states import JobState, Outcome

if TYPE_CHECKING:
    from autoexp_tui.model.state import Attempt, JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """A file as stat tells it from every other, and from itself once it is written."""

    path: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A file that lay there before an attempt began anew."""

    file: FileIdentity
    attempt: int = 0
    """The newest attempt that may have written it; 0: none of this session."""
    values: str = ""
    """What that attempt ran with, where it is not what the next one runs with."""


_NOT_SENT = frozenset(
    {JobState.PLANNED, JobState.HELD, JobState.WAITING, JobState.RETRYING}
)


def begins_anew(job: JobRecord) -> bool:
    """Whether the next attempt of a job does not continue what lies there."""
    if job.state not in _NOT_SENT or job.use_files:
        return False
    before = _newest_that_ran(job)
    if before is None:
        return job.foreign_files
    goes_on = job.retry.from_checkpoint if job.retry else job.resume
    return not goes_on or before.fingerprint not in ("", job.spec.fingerprint)


def _newest_that_ran(job: JobRecord) -> Attempt | None:
    """What was never seen to begin wrote nothing, unless nobody could see it."""
    for attempt in reversed(job.attempts):
        if attempt.run >= 0 or attempt.outcome is Outcome.LOST:
            return attempt
    return None


def awaits_look(job: JobRecord) -> bool:
    """Whether the files of its followers have to be looked at before it starts."""
    return begins_anew(job) and job.looked_before != len(job.attempts) + 1


def files_aside(job: JobRecord) -> Mapping[str, SetAside] | None:
    """Path -> what does not count of a job's files; None: nothing counts yet."""
    if not begins_anew(job):
        return job.aside
    return None if awaits_look(job) else job.found


def logs_are_old(job: JobRecord) -> bool:
    """Whether its log is still that of an attempt which the next does not continue."""
    newest = job.attempt
    return begins_anew(job) or (newest is not None and newest.anew and newest.run < 0)
