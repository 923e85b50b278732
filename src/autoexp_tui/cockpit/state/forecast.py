"""When jobs, stages and the session should end, and which their time limit will cut.

A stage of whose durations and step rates nothing was observed has no estimate, and
then neither has what comes after it.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.state.kill_cost import find_checkpoint
from autoexp_tui.cockpit.state.session import measure_run
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.states import ACTIVE, BEGUN, JobState, Outcome
from autoexp_tui.text.spelling import count

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView

_RIPE_SHARE: Final = 0.05
"""Of its time limit a job must have run before a warning: rates begin low."""
_SURE_MARGIN: Final = 0.10
"""A job that would be cut even if it were so much faster is warned about."""


class Outlook(NamedTuple):
    """When a running job should end, and whether its time limit lets it."""

    ends_at: float | None = None
    limit_at: float | None = None

    @property
    def cut_at(self) -> float | None:
        """The limit, where it comes first."""
        if self.ends_at is None or self.limit_at is None:
            return None
        return self.limit_at if self.ends_at > self.limit_at else None


def estimate_end(job: JobView, now: float) -> Outlook:
    """What observed step rates say; nothing without total, step and rate. Of a stalled
    job counted from its last step."""
    limit = job.record.spec.resources.time_limit_seconds
    began = job.attempt.began_at if job.attempt else None
    limit_at = began + limit if began is not None and limit else None
    if job.step is None or not job.total or not job.rate or job.rate <= 0:
        return Outlook(limit_at=limit_at)
    stood = measure_stall(job, now) if job.look is Look.STALLED else 0.0
    ends_at = now - stood + max(0, job.total - job.step) / job.rate
    return Outlook(max(now, ends_at), limit_at)


def measure_stall(job: JobView, now: float) -> float:
    """How long the step counter has stood still; 0: not known."""
    moved = job.live.last_step_at if job.live else None
    return now - moved if moved is not None else 0.0


class Ends(NamedTuple):
    """UTC at which everything, and each stage, should have ended."""

    session: float | None = None
    stages: Mapping[str, float] = MappingProxyType({})


def estimate_ends(session: SessionView) -> Ends:
    """Estimated ends, from a simulated run of what is left on the engine's slots."""
    if not session.active:
        return Ends()
    never = (Look.HELD, Look.DOOMED, Look.ASKS)
    left = [
        job for job in session.jobs if not job.record.ended and job.look not in never
    ]
    known = _simulate(session, left)
    ends: dict[str, list[float | None]] = {}
    for job in left:
        ends.setdefault(job.stage, []).append(known.get(job.name))
    stages = {stage: found for stage, found in ends.items() if None not in found}
    return Ends(
        session=max(known.values(), default=None) if len(known) == len(left) else None,
        stages={stage: max(filter(None, found)) for stage, found in stages.items()},
    )


def _simulate(session: SessionView, left: Sequence[JobView]) -> Mapping[str, float]:
    """When each job that is left should end, where that is known: those to be sent are
    put on the engine's slots one after the other."""
    from autoexp_tui.planning.dag import sort_topologically  # a first paint needs none

    now, number = session.now, session.snapshot.engine.slots or 0
    attempts = [job.attempt for job in session.jobs if job.attempt is not None]
    waits = [
        max(0.0, one.began_at - one.submitted_at)
        for one in attempts
        if one.began_at is not None and one.submitted_at is not None
    ]
    # What the executor's queue takes, from taken to begun.
    wait = statistics.median(waits) if waits else 0.0
    usual = _measure_durations(session)
    sent = [job for job in left if job.record.state in ACTIVE]
    ends: dict[str, float] = {}
    for job in sent:
        end = _estimate_sent(job, usual.get(job.stage), wait, now)
        if end is not None:
            ends[job.name] = end
    busy = [ends.get(job.name, now) for job in sent]
    # Beyond the slots some have to end first. A heap of when each is free again.
    slots = sorted(heapq.nlargest(number, [*busy, *[now] * max(0, number - len(busy))]))
    places = {job.name: place for place, job in enumerate(left)}
    before = session.links.upstream
    edges = [
        (places[name], at)
        for job, at in zip(left, places.values(), strict=True)
        for name in before.get(job.name, ())
        if name in places
    ]
    for at in sort_topologically(len(left), edges):
        job = left[at]
        names = [name for name in before.get(job.name, ()) if name in places]
        known = job.stage in usual and all(name in ends for name in names)
        if job.record.state in ACTIVE or not known:
            continue
        start = max([now, *(ends[name] for name in names)])
        if (retry := job.record.retry) is not None:
            start = max(start, session.snapshot.convert_to_t(retry.lived))
        if slots:
            start = max(start, heapq.heappop(slots))
        ends[job.name] = start + wait + usual[job.stage]
        if number:
            heapq.heappush(slots, ends[job.name])
    return ends


def _estimate_sent(
    job: JobView, usual: float | None, wait: float, now: float
) -> float | None:
    """The end of what the executor has; it begins as that says, else as usual."""
    if job.record.state in BEGUN:
        ends_at = estimate_end(job, now).ends_at
        if ends_at is not None or usual is None:
            return ends_at
        return now + max(0.0, usual - (job.measure_run(now) or 0.0))
    if usual is None:
        return None
    queue, attempt = job.live.queue if job.live is not None else None, job.attempt
    begin = queue.expected_at if queue is not None else None
    if begin is None:
        sent = attempt.submitted_at if attempt is not None else None
        begin = (now if sent is None else sent) + wait
    return max(now, begin) + usual


def _measure_durations(session: SessionView) -> Mapping[str, float]:
    """Median seconds of a run by stage: ended ones, and running ones to their end."""
    seen: dict[str, list[float]] = {}
    for job in session.jobs:
        began, end = job.attempt.began_at if job.attempt else None, None
        if job.attempt is not None and job.record.state is JobState.COMPLETED:
            end = job.attempt.ended_at
        elif job.record.state in BEGUN:
            end = estimate_end(job, session.now).ends_at
        if began is not None and end is not None:
            seen.setdefault(job.stage, []).append(end - began)
    return {stage: statistics.median(values) for stage, values in seen.items()}


def count_gpu_hours(session: SessionView) -> float:
    """GPU hours that all attempts so far have used, retried ones included."""
    now = session.now
    seconds = (
        job.record.spec.resources.gpus * (measure_run(attempt, now) or 0.0)
        for job in session.jobs
        if job.record.spec.resources.gpus
        for attempt in job.record.attempts
    )
    return sum(seconds) / 3600


class StageRate(NamedTuple):
    """Steps a second of a stage: the median, and of how many runs."""

    rate: float
    runs: int


Rates: TypeAlias = Mapping[str, StageRate]
"""By stage; a stage of which nothing is known is left out."""
NO_RATES: Final[Rates] = MappingProxyType({})
"""Nothing is known."""


def measure_rates(session: SessionView) -> Rates:
    """The usual rate of each stage, of runs that go on, that completed here, or in
    earlier sessions."""
    seen: dict[str, list[float]] = {}
    for job in session.jobs:
        rate = _measure_rate(job)
        if rate is not None:
            seen.setdefault(job.stage, []).append(rate)
    return {
        stage: StageRate(statistics.median(found), len(found))
        for stage, found in seen.items()
    }


def _measure_rate(job: JobView) -> float | None:
    """What a job tells of its stage; a run from a checkpoint did not do all steps."""
    record, attempt = job.record, job.attempt
    steps, seconds = job.step, None
    if record.state is JobState.RUNNING:
        return job.rate if job.rate and job.rate > 0 else None
    if record.done is not None:
        steps, seconds = record.done.step, record.done.seconds
    elif record.state is JobState.COMPLETED and len(record.attempts) == 1 and attempt:
        ended = attempt.ended_at
        seconds = None if ended is None else measure_run(attempt, ended)
    return steps / seconds if steps and seconds and seconds > 0 else None


class Cut(NamedTuple):
    """Where a time limit ends a job before its last step."""

    step: int
    total: int
    rate: float
    runs: int = 0
    """How many runs of the stage the rate is of; 0: it is the job's own."""


Cuts: TypeAlias = Mapping[str, Cut]
"""By job."""
NO_CUTS: Final[Cuts] = MappingProxyType({})


def find_cut(job: JobView, now: float, known: Rates) -> Cut | None:
    """Where its time limit will cut a job, by its own rate while it runs, else by its
    stage's; None: it will not, or nobody knows."""
    limit, total = job.record.spec.resources.time_limit_seconds, job.total
    if not limit or not total or job.record.ended or job.record.done:
        return None
    if job.record.state is JobState.RUNNING:
        ahead, step, rate = estimate_end(job, now), job.step, job.rate
        if ahead.cut_at is None or not rate or step is None:
            return None
        last = int(step + max(0.0, ahead.cut_at - now) * rate)
        return Cut(min(last, total), total, rate)
    usual = known.get(job.stage)
    if usual is None:
        return None
    start = find_checkpoint(job) if job.record.resume else None
    last = int((start or 0) + usual.rate * limit)
    return Cut(last, total, usual.rate, usual.runs) if last < total else None


def find_sure_cuts(session: SessionView, before: Cuts = NO_CUTS) -> Cuts:
    """The running jobs that their limit will cut for certain; linear in the jobs.

    Certain is what holds at the faster of two rates, the newest and that of the whole
    run, with a margin: a slow checkpoint or a slow beginning warns of nothing. What is
    in `before` clears at half the margin, so that noise does not ring. A job that a
    rule starts again after its time limit is meant to be cut; of one that a person
    acknowledged nothing more is said until its next attempt.
    """
    found = {}
    for job in session.jobs:
        if job.look is not Look.RUNNING:
            continue
        limit, attempt = job.record.spec.resources.time_limit_seconds, job.attempt
        rate, step, total = job.rate, job.step, job.total
        ran = job.measure_run(session.now)
        if not limit or attempt is None or attempt.limit_seen or ran is None:
            continue
        if not rate or step is None or not total or ran < limit * _RIPE_SHARE:
            continue
        rate = max(rate, step / ran)  # a resumed run's earlier steps speak for it
        margin = _SURE_MARGIN / 2 if job.name in before else _SURE_MARGIN
        left = max(0.0, limit - ran) * rate
        if step + left * (1 + margin) < total and not _is_restarted(job, session):
            found[job.name] = Cut(int(step + left), total, rate)
    return found


def _is_restarted(job: JobView, session: SessionView) -> bool:
    """Whether a rule starts the job again when its time limit has ended it."""
    plan, failed = session.snapshot.plan, Outcome.FAILED.value
    for rule in plan.rules_of(job.record.spec).state_events if plan is not None else ():
        own = not rule.stages or job.stage in rule.stages
        ends = rule.transition is not None and rule.transition[1] == failed
        restarts = any(action.kind == "restart" for action in rule.actions)
        if own and restarts and (rule.state == "timeout" or ends):
            return True
    return False


def format_cut(cut: Cut) -> str:
    """`will be cut by its time limit at step ~41.2k of 60k`."""
    step, total = count(cut.step), count(cut.total)
    return f"will be cut by its time limit at step ~{step} of {total}"
