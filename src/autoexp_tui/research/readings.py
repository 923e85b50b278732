"""What the jobs of a run told: of those that are watched what their logs say now, of
the others what was noted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import JobState
from autoexp_tui.research.state import list_jobs

if TYPE_CHECKING:
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import Run


class Reading(NamedTuple):
    """What one job of a run told by now."""

    job: JobRecord
    live: Live
    """Of a job that is not watched: what was noted of it, without curves."""


def read_jobs(run: Run, view: View, live: Mapping[str, Live]) -> list[Reading]:
    """The jobs of a run that have joined, in its order."""
    return [
        Reading(job, told if told and told.step is not None else recall(job))
        for job in list_jobs(run, view.jobs)
        for told in [live.get(job.name)]
    ]


def recall(job: JobRecord) -> Live:
    """What was noted of a job's newest attempt."""
    noted = job.find_noted(job.attempt) if job.attempt else job.noted
    if noted is None:
        return Live(total=job.spec.progress_total)
    return Live(
        step=noted.step,
        total=noted.total or job.spec.progress_total,
        metrics={name: float(value) for name, value in noted.values.items()},
        lows=noted.lows,
        highs=noted.highs,
    )


def choose_main(readings: Sequence[Reading]) -> Reading | None:
    """The job that speaks for a run: the last that runs, else the last that told of a
    step."""

    def rank(one: Reading) -> tuple[bool, bool]:
        return one.job.state is JobState.RUNNING, one.live.step is not None

    return max(reversed(readings), key=rank, default=None)


def find_log(job: JobRecord) -> str:
    """Of its newest attempt, where it has begun one."""
    return (job.attempt and job.attempt.log_path) or job.spec.log_path_current


def measure_seconds(run: Run, view: View) -> float:
    """For how long the jobs of a run have run, from their first start to the end of the
    last one, or until now; 0: none has begun."""
    attempts = [one for job in list_jobs(run, view.jobs) for one in job.attempts]
    begun = [one.began_at for one in attempts if one.began_at is not None]
    end = run.ended.at if run.ended else view.t
    return max(0.0, end - min(begun)) if begun else 0.0
