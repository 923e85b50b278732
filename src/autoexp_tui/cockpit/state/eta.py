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

from autoexp_tui.cockpit.render.columns import run_seconds
from autoexp_tui.cockpit.render.reasons import outlook
from autoexp_tui.cockpit.render.status_style import Look
from autoexp_tui.cockpit.state.kill_cost import checkpoint_step
from autoexp_tui.model.states import ACTIVE, BEGUN, TERMINAL, JobState

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.state import Attempt


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
    forecast = _Forecast(session, left)
    for job in _upstream_first(left, session):
        forecast.add(job)
    return Ends(
        session=forecast.last if len(forecast.known) == len(left) else None,
        stages=_by_stage(left, forecast.known),
    )


def _will_run(job: JobView) -> bool:
    ended = job.record.state in TERMINAL
    return not ended and job.look not in (Look.HELD, Look.DOOMED, Look.ASKS)


def _upstream_first(left: Sequence[JobView], session: SessionView) -> Sequence[JobView]:
    """The jobs, each after those that it waits for; else in plan order.

    What is in a circle of waits never comes.
    """
    places = {job.name: job.index for job in left}
    missing = {
        job.name: sum(name in places for name in session.upstream.get(job.name, ()))
        for job in left
    }
    ready = [job.index for job in left if not missing[job.name]]
    heapq.heapify(ready)
    found: list[JobView] = []
    while ready:
        job = session.jobs[heapq.heappop(ready)]
        found.append(job)
        for name in session.behind.get(job.name, ()):
            if name in places:
                missing[name] -= 1
                if not missing[name]:
                    heapq.heappush(ready, places[name])
    return found


class _Forecast:
    """The jobs that are left, put on the engine's slots one after the other."""

    def __init__(self, session: SessionView, left: Sequence[JobView]) -> None:
        self.session = session
        self.now = session.now
        self.left = {job.name for job in left}
        self.usual = _stage_durations(session)
        self.wait = _usual_wait(session)
        self.known: dict[str, float] = {}
        away = [job for job in left if job.record.state in ACTIVE]
        for job in away:
            self._note(job, self._away(job))
        self.slots = self._slots(away)

    @property
    def last(self) -> float | None:
        return max(self.known.values(), default=None)

    def _note(self, job: JobView, end: float | None) -> None:
        if end is not None:
            self.known[job.name] = end

    def add(self, job: JobView) -> None:
        if job.record.state not in ACTIVE:
            self._note(job, self._to_come(job))

    def _away(self, job: JobView) -> float | None:
        """The end of what the executor has: it has its slot."""
        if job.record.state in BEGUN:
            return self._running(job)
        usual = self.usual.get(job.stage)
        if usual is None:
            return None
        return self._start_of_sent(job) + usual * _share_left(job)

    def _slots(self, away: Sequence[JobView]) -> list[float]:
        """When each slot is free again: a heap; empty where there is no limit."""
        number = self.session.snapshot.engine.slots
        if not number:
            return []
        now = self.now
        busy = [self.known.get(job.name, now) for job in away]
        slots = [*busy, *[now] * max(0, number - len(busy))]
        slots = heapq.nlargest(number, slots)  # beyond them some have to end first
        heapq.heapify(slots)
        return slots

    def _running(self, job: JobView) -> float | None:
        now = self.now
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
        needed = usual * _share_left(job)
        ready = max([self.now, *(self.known[name] for name in before)])
        retry = job.record.retry
        if retry is not None:
            ready = max(ready, self.session.snapshot.t_of(retry.lived))
        if not self.slots:
            return ready + self.wait + needed
        end = max(ready, heapq.heappop(self.slots)) + self.wait + needed
        heapq.heappush(self.slots, end)
        return end

    def _start_of_sent(self, job: JobView) -> float:
        """When what the executor has should begin: as it says, else as usual."""
        now, attempt = self.now, job.attempt
        queue = job.live.queue if job.live is not None else None
        if queue is not None and queue.expected_at is not None:
            return max(now, queue.expected_at)
        sent = attempt.submitted_at if attempt is not None else None
        return max(now, (now if sent is None else sent) + self.wait)


def _share_left(job: JobView) -> float:
    """The part of its steps that a run from the checkpoint still has to do."""
    record = job.record
    resumes = record.retry.from_checkpoint if record.retry else record.resume
    saved, total = checkpoint_step(job), job.total
    if not resumes or not saved or not total:
        return 1.0
    return max(0.0, 1.0 - saved / total)


def _usual_wait(session: SessionView) -> float:
    """Median seconds from taken to begun: what the executor's queue takes."""
    waits = [
        max(0.0, attempt.began_at - attempt.submitted_at)
        for job in session.jobs
        if (attempt := job.attempt) is not None
        and attempt.began_at is not None
        and attempt.submitted_at is not None
    ]
    return statistics.median(waits) if waits else 0.0


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
    if job.record.state in BEGUN:
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
