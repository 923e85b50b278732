"""When jobs, stages and the session should end, and which their time limit will cut."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.state.kill_cost import find_checkpoint
from autoexp_tui.cockpit.state.session import measure_run
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.states import ACTIVE, BEGUN, TERMINAL, JobState, Outcome
from autoexp_tui.model.wording import (
    count,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.rules import StateEvent
    from autoexp_tui.model.state import Attempt


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a running job should end, and whether its time limit lets it."""

    ends_at: float | None = None
    limit_at: float | None = None

    @property
    def too_late(self) -> bool:
        """Whether the limit comes first."""
        both = self.ends_at is not None and self.limit_at is not None
        return both and (self.ends_at or 0) > (self.limit_at or 0)


def estimate_end(job: JobView, now: float) -> Outlook:
    """What observed step rates say; nothing without total, step and rate.

    Of a stalled job counted from its last step: it stands still as the counter does.
    """
    attempt = job.attempt
    limit = job.record.spec.resources.time_limit_seconds
    began = attempt.began_at if attempt else None
    limit_at = began + limit if began is not None and limit else None
    rate = job.live.rate if job.live else None
    if job.step is None or not job.total or not rate or rate <= 0:
        return Outlook(limit_at=limit_at)
    stood = _stood(job, now) if job.look is Look.STALLED else 0.0
    ends_at = now - stood + max(0, job.total - job.step) / rate
    return Outlook(max(now, ends_at), limit_at)


def _stood(job: JobView, now: float) -> float:
    """How long the step counter has stood still; 0: not known."""
    moved = job.live.last_step_at if job.live else None
    return now - moved if moved is not None else 0.0


@dataclass(frozen=True, slots=True)
class Ends:
    """UTC at which everything, and each stage, should have ended."""

    session: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)


def estimate_ends(session: SessionView) -> Ends:
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
        ahead = estimate_end(job, now).ends_at
        if ahead is not None or usual is None:
            return ahead
        return now + max(0.0, usual - (measure_run(job, now) or 0.0))

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
    saved, total = find_checkpoint(job), job.total
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
        end = estimate_end(job, now).ends_at
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


def count_gpu_hours(session: SessionView) -> float:
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


RIPE_SHARE: Final = 0.05
"""Of its time limit a job must have run before a warning: rates begin low."""


SURE_MARGIN: Final = 0.10
"""A job that would be cut even if it were so much faster is warned about."""


@dataclass(frozen=True, slots=True)
class StageRate:
    """Steps a second of a stage: the median, and of how many runs."""

    rate: float
    runs: int


Rates: TypeAlias = Mapping[str, StageRate]
"""By stage; a stage of which nothing is known is left out."""


NO_RATES: Final[Rates] = MappingProxyType({})
"""Nothing is known."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a time limit ends a job before its last step."""

    step: int
    total: int
    rate: float
    runs: int = 0
    """How many runs of the stage the rate is of; 0: it is the job's own."""


def measure_rates(session: SessionView) -> Rates:
    """The usual rate of each stage; linear in the jobs."""
    seen: dict[str, list[float]] = {}
    for job in session.jobs:
        rate = _rate_of(job)
        if rate is not None:
            seen.setdefault(job.stage, []).append(rate)
    return {
        stage: StageRate(statistics.median(found), len(found))
        for stage, found in seen.items()
    }


def _rate_of(job: JobView) -> float | None:
    """What a job tells of its stage; a run from a checkpoint did not do all steps."""
    record = job.record
    if record.state is JobState.RUNNING:
        live = job.live.rate if job.live is not None else None
        return live if live and live > 0 else None
    if record.done is not None:
        return _over(record.done.step, record.done.seconds)
    attempt = job.attempt
    whole = record.state is JobState.COMPLETED and len(record.attempts) == 1
    if not whole or attempt is None or attempt.began_at is None:
        return None
    ended = attempt.ended_at
    return _over(job.step, None if ended is None else ended - attempt.began_at)


def _over(steps: int | None, seconds: float | None) -> float | None:
    """Steps by seconds; None where that would be no rate."""
    return steps / seconds if steps and seconds and seconds > 0 else None


def find_cut(job: JobView, now: float, known: Rates) -> Cut | None:
    """Where its time limit will cut a job; None: it will not, or nobody knows."""
    limit = job.record.spec.resources.time_limit_seconds
    if not limit or not job.total or job.record.ended or job.record.done:
        return None
    if job.record.state is JobState.RUNNING:
        return _running(job, now)
    usual = known.get(job.stage)
    if usual is None:
        return None
    start = find_checkpoint(job) if job.record.resume else None
    step = int((start or 0) + usual.rate * limit)
    if step >= job.total:
        return None
    return Cut(step, job.total, usual.rate, usual.runs)


def _running(job: JobView, now: float) -> Cut | None:
    ahead = estimate_end(job, now)
    rate = job.live.rate if job.live is not None else None
    if not ahead.too_late or ahead.limit_at is None or not rate or job.step is None:
        return None
    step = int(job.step + max(0.0, ahead.limit_at - now) * rate)
    return Cut(min(step, job.total or step), job.total or step, rate)


# --------------------------------------------------------------------------- warnings
Cuts: TypeAlias = Mapping[str, Cut]
"""By job."""


NO_CUTS: Final[Cuts] = MappingProxyType({})


def find_sure_cuts(session: SessionView, before: Cuts = NO_CUTS) -> Cuts:
    """The running jobs that their limit will cut for certain; linear in the jobs.

    Certain is what holds at the faster of two rates, the newest and that of the whole
    run, with a margin: a slow checkpoint or a slow beginning warns of nothing. What is
    in `before` clears at half the margin, so that noise does not ring. A job that a
    rule starts again after its time limit is meant to be cut; of one that a person
    acknowledged nothing more is said until its next attempt.
    """
    return {
        job.name: cut
        for job in session.jobs
        if job.look is Look.RUNNING
        and (cut := _sure(job, session, known=job.name in before)) is not None
    }


def _sure(job: JobView, session: SessionView, *, known: bool) -> Cut | None:
    now, limit = session.now, job.record.spec.resources.time_limit_seconds
    began = job.attempt.began_at if job.attempt else None
    newest = job.live.rate if job.live is not None else None
    if not limit or began is None or not newest or job.step is None or not job.total:
        return None
    ran = now - began
    known_of = job.attempt is not None and job.attempt.limit_seen
    if known_of or ran < limit * RIPE_SHARE or _goes_on(job, session):
        return None
    rate = max(newest, job.step / ran)  # a resumed run's earlier steps speak for it
    margin = SURE_MARGIN / 2 if known else SURE_MARGIN
    left = max(0.0, limit - ran)
    if job.step + left * rate * (1 + margin) >= job.total:
        return None
    return Cut(int(job.step + left * rate), job.total, rate)


def _goes_on(job: JobView, session: SessionView) -> bool:
    """Whether a rule starts the job again when its time limit has ended it."""
    plan = session.snapshot.plan
    if plan is None:
        return False
    return any(
        action.kind == "restart"
        for rule in plan.rules_of(job.record.spec).state_events
        if _is_of_limit(rule, job.stage)
        for action in rule.actions
    )


def _is_of_limit(rule: StateEvent, stage: str) -> bool:
    ends = rule.transition is not None and rule.transition[1] == Outcome.FAILED.value
    own = not rule.stages or stage in rule.stages
    return own and (rule.state == "timeout" or ends)


# --------------------------------------------------------------------------- in words
def format_cut(cut: Cut) -> str:
    """`will be cut by its time limit at step ~41.2k of 60k`."""
    return (
        f"will be cut by its time limit at step ~{count(cut.step)} of "
        f"{count(cut.total)}"
    )
