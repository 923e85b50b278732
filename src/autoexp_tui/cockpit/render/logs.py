"""Which files hold a job's log, and what stands at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from autoexp_tui.model.wording import clock_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.state import Attempt


class Source(NamedTuple):
    """A file that can be read: the log of an attempt, stdout and stderr in one."""

    label: str
    path: str
    trailer: str = ""
    """Said below its last line: that the attempt has ended, and how."""


NEVER_RAN = "nothing was started"


NO_JOB = "no job is shown"


NONE_BEGAN = "none of these jobs has begun"


def find_logs(
    jobs: Sequence[JobView], now: float
) -> tuple[tuple[Source, ...], str, str]:
    """The log of each attempt of the first job that has begun, the newest last; words
    for where there is none; the job's name.
    """
    job = next((job for job in jobs if job.attempt is not None), None)
    attempt = job.attempt if job is not None else None
    if job is None or attempt is None:
        return (), _why_none(len(jobs)), ""
    if attempt.began_at is None and attempt.ended_at is not None:
        return (), NEVER_RAN, job.name
    earlier = [one for one in job.record.attempts[:-1] if one.log_path]
    newest = attempt.log_path or job.record.spec.log_path_current
    sources = [_source(one, one.log_path, now) for one in earlier]
    return (*sources, _source(attempt, newest, now)), "", job.name


def _source(attempt: Attempt, path: str, now: float) -> Source:
    return Source(f"attempt {attempt.number}", path, _trailer(attempt, now))


def _why_none(number: int) -> str:
    """Why there is no log, where it is not that the one job has not begun."""
    if not number:
        return NO_JOB
    return NONE_BEGAN if number > 1 else ""


def _trailer(attempt: Attempt, now: float) -> str:
    if attempt.ended_at is None:
        return ""
    code = f", exit {attempt.exit_code}" if attempt.exit_code is not None else ""
    if attempt.signal is not None:
        code = f", signal {attempt.signal}"
    return f"end of log {clock_time(attempt.ended_at, now)}{code}"
