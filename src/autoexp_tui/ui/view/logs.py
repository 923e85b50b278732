"""Which files hold a job's log, and what stands at its end."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from autoexp_tui.core.wording import clock_time

if TYPE_CHECKING:
    from autoexp_tui.ui.view.session import JobView


class Source(NamedTuple):
    """A file that can be read."""

    label: str
    path: str


NEVER_RAN = "nothing was started"
NO_JOB = "no job is shown"
NONE_BEGAN = "none of these jobs has begun"


def log_of(jobs: Sequence[JobView], now: float) -> tuple[tuple[Source, ...], str, str]:
    """The log files of the first job that has begun, their end's words, its name.

    Where nothing was started there is no file, and the words say so.
    """
    job = next((job for job in jobs if job.attempt is not None), None)
    attempt = job.attempt if job is not None else None
    if job is None or attempt is None:
        return (), _why_none(len(jobs)), ""
    if attempt.began_at is None and attempt.ended_at is not None:
        return (), NEVER_RAN, job.name
    path = attempt.log_path or job.record.spec.log_path_current
    sources = [Source("out", path)]
    stem, dot = posixpath.splitext(path)
    if dot == ".out":
        sources.append(Source("err", f"{stem}.err"))
    return tuple(sources), _trailer(job, now), job.name


def _why_none(number: int) -> str:
    """Why there is no log, where it is not that the one job has not begun."""
    if not number:
        return NO_JOB
    return NONE_BEGAN if number > 1 else ""


def _trailer(job: JobView, now: float) -> str:
    attempt = job.attempt
    if attempt is None or attempt.ended_at is None:
        return ""
    code = f", exit {attempt.exit_code}" if attempt.exit_code is not None else ""
    if attempt.signal is not None:
        code = f", signal {attempt.signal}"
    return f"end of log {clock_time(attempt.ended_at, now)}{code}"
