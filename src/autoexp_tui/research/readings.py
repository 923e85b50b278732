"""What runs told, for the agent and for the state file: of jobs that are watched by
what their logs say now, of the others by what was noted of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.model.facts import MetricFact
from autoexp_tui.model.snapshot import Curve, GpuLoad, Live
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import JobState
from autoexp_tui.research.criteria import RunFacts
from autoexp_tui.research.state import list_jobs

if TYPE_CHECKING:
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import Run


@dataclass(frozen=True, slots=True)
class Reading:
    """What one job of a run told by now."""

    job: JobRecord
    live: Live
    """Of a job that is not watched: what was noted of it, without curves."""

    def find_value(self, metric: str) -> MetricFact | None:
        value, curve = self.live.metrics.get(metric), self.find_curve(metric)
        if value is None:
            return None
        step = self.live.step or 0
        if curve is not None and curve.steps and math.isfinite(value):
            step = curve.steps[-1]
        return MetricFact(value, step)

    def find_curve(self, metric: str) -> Curve | None:
        return self.live.curves.get(metric)

    def read_facts(self, view: View) -> RunFacts:
        """What criteria ask of it."""
        research = view.research
        is_running = self.job.state is JobState.RUNNING
        return RunFacts(
            step=self.live.step,
            first_step=self.live.first_step,
            seconds=view.lived - self.job.since_lived if is_running else 0.0,
            find_value=self.find_value,
            find_curve=self.find_curve,
            default_metric=research.metric,
            default_mode=research.mode,
        )

    @property
    def gpus(self) -> Sequence[GpuLoad]:
        return self.live.gpu.gpus if self.live.gpu else ()


def read_jobs(run: Run, view: View, live: Mapping[str, Live]) -> list[Reading]:
    """The jobs of a run that have joined, in its order."""
    return [
        Reading(job, told if told and told.step is not None else _recall(job))
        for job in list_jobs(run, view.jobs)
        for told in [live.get(job.name)]
    ]


def _recall(job: JobRecord) -> Live:
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


def find_log(job: JobRecord) -> str:
    """Of its newest attempt, where it has begun one."""
    return (job.attempt and job.attempt.log_path) or job.spec.log_path_current


def choose_main(readings: list[Reading]) -> Reading | None:
    """The job that speaks for a run: the newest that runs, else that came furthest."""
    running = [one for one in readings if one.job.state is JobState.RUNNING]
    told = running or [one for one in readings if one.live.step is not None]
    return next(reversed(told or readings), None)


def measure_seconds(run: Run, view: View) -> float:
    """For how long the jobs of a run have run, from their first start to the end of the
    last one, or until now; 0: none has begun."""
    attempts = [one for job in list_jobs(run, view.jobs) for one in job.attempts]
    begun = [one.began_at for one in attempts if one.began_at is not None]
    end = run.ended.at if run.ended else view.t
    return max(0.0, end - min(begun)) if begun else 0.0


def measure_busy(gpus: Sequence[GpuLoad]) -> float | None:
    """Of the time, in per cent: the mean of GPUs; None: none told it."""
    known = [one.busy_percent for one in gpus if one.busy_percent is not None]
    return math.fsum(known) / len(known) if known else None


def list_points(one: Reading, metric: str, most: int) -> Iterator[tuple[int, float]]:
    """At most `most` points (2 or more) of a metric, evenly thinned, the first and the
    last among them; where it was no finite number, nan. Without a curve: its extremes
    and the newest."""
    curve, live = one.find_curve(metric), one.live
    if curve is None:
        ends = filter(None, (live.lows.get(metric), live.highs.get(metric)))
        known = {step: value for value, step in ends}
        if newest := one.find_value(metric):
            known[newest.step] = newest.value
    else:
        known = dict.fromkeys(curve.gaps, math.nan)
        known |= zip(curve.steps, curve.values, strict=True)
    points, last = sorted(known.items()), len(known) - 1
    if last < most:
        yield from points
    else:
        yield from (points[round(at * last / (most - 1))] for at in range(most))
