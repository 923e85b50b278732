"""When a stage, or the session, should end, from what was observed.

An estimate stands only on observed durations and step rates: a stage of which nothing
is known has none, and then neither has what comes after it.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoexp_tui.core.states import TERMINAL, JobState
from autoexp_tui.ui.view.columns import run_seconds
from autoexp_tui.ui.view.looks import Look
from autoexp_tui.ui.view.reasons import outlook

if TYPE_CHECKING:
    from autoexp_tui.core.state import Attempt
    from autoexp_tui.ui.view.session import JobView, SessionView


@dataclass(frozen=True, slots=True)
class Ends:
    """UTC at which everything, and each stage, should have ended."""

    session: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)


def ends(session: SessionView) -> Ends:
    """Estimated ends, from a simulated run of what is left on the engine's slots."""
    if not session.active:
        return Ends()
    left = [job for job in session.jobs if _will_run(job)]
    forecast = _Forecast(session, {job.name for job in left})
    for job in left:
        forecast.add(job)
    return Ends(
        session=forecast.last if len(forecast.known) == len(left) else None,
        stages=_by_stage(left, forecast.known),
    )


def _will_run(job: JobView) -> bool:
    ended = job.record.state in TERMINAL
    return not ended and job.look not in (Look.HELD, Look.DOOMED, Look.ASKS)


class _Forecast:
    """The jobs that are left, put on the engine's slots one after the other."""

    def __init__(self, session: SessionView, left: set[str]) -> None:
        self.session = session
        self.left = left
        self.usual = _stage_durations(session)
        self.known: dict[str, float] = {}
        self.slots = _slots(session)

    @property
    def last(self) -> float | None:
        return max(self.known.values(), default=None)

    def add(self, job: JobView) -> None:
        if job.record.state is JobState.RUNNING:
            end = self._running(job)
        else:
            end = self._to_come(job)
        if end is not None:
            self.known[job.name] = end

    def _running(self, job: JobView) -> float | None:
        now = self.session.now
        usual = self.usual.get(job.stage)
        ahead = outlook(job, now).ends_at
        if ahead is not None or usual is None:
            return ahead
        return now + max(0.0, usual - (run_seconds(job, now) or 0.0))

    def _to_come(self, job: JobView) -> float | None:
        usual = self.usual.get(job.stage)
        before = [
            name
            for name in self.session.upstream.get(job.name, ())
            if name in self.left
        ]
        if usual is None or any(name not in self.known for name in before):
            return None
        ready = max([self.session.now, *(self.known[name] for name in before)])
        if not self.slots:
            return ready + usual
        end = max(ready, heapq.heappop(self.slots)) + usual
        heapq.heappush(self.slots, end)
        return end


def _slots(session: SessionView) -> list[float]:
    """When each slot is free again: a heap; empty where there is no limit."""
    number = session.snapshot.engine.slots
    busy = [
        outlook(job, session.now).ends_at or session.now
        for job in session.jobs
        if job.record.state is JobState.RUNNING
    ]
    slots = [*busy, *[session.now] * max(0, number - len(busy))] if number else []
    heapq.heapify(slots)
    return slots


def _stage_durations(session: SessionView) -> Mapping[str, float]:
    """Median seconds of a run by stage: ended ones, and running ones to their end."""
    seen: dict[str, list[float]] = {}
    for job in session.jobs:
        seconds = _whole_run(job, job.attempt, session.now)
        if seconds is not None:
            seen.setdefault(job.stage, []).append(seconds)
    return {stage: statistics.median(values) for stage, values in seen.items()}


def _whole_run(job: JobView, attempt: Attempt | None, now: float) -> float | None:
    if attempt is None or attempt.began_at is None:
        return None
    if job.record.state is JobState.COMPLETED and attempt.ended_at is not None:
        return attempt.ended_at - attempt.began_at
    if job.record.state is JobState.RUNNING:
        end = outlook(job, now).ends_at
        return end - attempt.began_at if end is not None else None
    return None


def _by_stage(
    left: Sequence[JobView], known: Mapping[str, float]
) -> Mapping[str, float]:
    latest: dict[str, float] = {}
    blind: set[str] = set()
    for job in left:
        end = known.get(job.name)
        if end is None:
            blind.add(job.stage)
        else:
            latest[job.stage] = max(end, latest.get(job.stage, 0.0))
    return {stage: end for stage, end in latest.items() if stage not in blind}


def gpu_hours(session: SessionView) -> float:
    """GPU hours that all attempts so far have used, retried ones included."""
    return (
        sum(
            job.record.spec.resources.gpus * _attempt_seconds(attempt, session.now)
            for job in session.jobs
            if job.record.spec.resources.gpus
            for attempt in job.record.attempts
        )
        / 3600
    )


def _attempt_seconds(attempt: Attempt, now: float) -> float:
    if attempt.began_at is None:
        return 0.0
    end = attempt.ended_at if attempt.ended_at is not None else now
    return max(0.0, end - attempt.began_at)


def gpu_bound(jobs: Sequence[JobView]) -> float | None:
    """The most GPU hours that one attempt of each may use; None without limits."""
    total = 0.0
    for job in jobs:
        needs = job.record.spec.resources
        if needs.gpus and needs.time_limit_seconds is None:
            return None
        total += needs.gpus * (needs.time_limit_seconds or 0.0) / 3600
    return total
