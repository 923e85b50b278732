"""When jobs, stages and the session should end, and which their time limit will cut.

A stage of whose durations and step rates nothing was observed is guessed by the step
rate of the others where its steps are known; else it has no estimate, and then neither
has what comes after it. And what an end would cost: without a checkpoint
(kept in the metadata, or found by `checkpoints.glob`) all that the attempt has done.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from math import inf, isfinite
from statistics import fmean, median
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.state.session import (
    JobView,
    Look,
    SessionView,
    measure_run,
    sort_jobs,
)
from autoexp_tui.model.states import ACTIVE, BEGUN, TERMINAL, Cause, JobState, Outcome
from autoexp_tui.text.spelling import (
    DAY,
    HOUR,
    count,
    duration,
    format_estimate,
    wall_time,
)

if TYPE_CHECKING:
    from autoexp_tui.model.outputs import CheckpointPlace, SeenCheckpoint

NOTHING_TO_END: Final = TERMINAL | {JobState.PLANNED, JobState.HELD}
"""States in which there is nothing to kill."""
_INTEGER: Final = re.compile(r"\d+")
_NOT_SET: Final = "set monitoring.checkpoints.glob"
NOT_YET: Final = "looking for them"
"""Why no checkpoint is known while a look for it is under way."""

Looks: TypeAlias = "Mapping[str, SeenCheckpoint | str]"
"""Job -> the newest checkpoint that `checkpoints.glob` finds, or why none is known."""
NO_LOOKS: Final[Looks] = {}


class Loss(NamedTuple):
    """What ending one job now loses."""

    job: JobView
    steps: int | None
    """Since its last checkpoint, else since the first step that its attempt reported;
    None when no step is known."""
    seconds: float
    """Of running, since its last checkpoint as far as that is known."""
    checkpoint: int | None
    """The step of the newest checkpoint; None when none is known, or its name holds
    no number."""
    unknown: str = ""
    """Why no checkpoint is known; empty where one is."""

    @property
    def gpu_hours(self) -> float:
        """What the GPUs did for nothing."""
        return self.seconds / 3600 * self.job.record.spec.resources.gpus


def format_lost_hours(hours: float) -> str:
    """`0.9 GPU h`; empty when it is next to nothing."""
    return f"{hours:.1f} GPU h" if hours >= 0.05 else ""


def find_checkpoint(job: JobView) -> int | None:
    """The step of the newest checkpoint known without a look: the job's log told of
    it, or the engine found it at an attempt's end, for other work not to go on from."""
    found = [
        int(numbers[-1])
        for key, value in job.record.metadata.items()
        if key.startswith("checkpoint") and (numbers := _INTEGER.findall(str(value)))
    ]
    saved, attempt = job.record.saved, job.attempt
    others = attempt is not None and attempt.anew and attempt.ended_at is None
    if saved is not None and saved.checkpoint.step is not None and not others:
        found.append(saved.checkpoint.step)
    return max(found, default=None)


def has_nan(job: JobView) -> bool:
    """Whether the newest checkpoint was saved when the loss was no number already."""
    if job.record.cause is not Cause.NAN:
        return False
    reasons = (job.record.why, *(entry.why for entry in job.warned))
    steps = (why.arg("step") for why in reasons if why is not None)
    ill = next((step for step in steps if isinstance(step, int)), None)
    saved = find_checkpoint(job)
    return ill is not None and saved is not None and saved >= ill


def estimate_loss(job: JobView, now: float, looks: Looks = NO_LOOKS) -> Loss:
    """What ending `job` at `now` loses."""
    seen, step = looks.get(job.name, _NOT_SET), job.step
    seconds = job.measure_run(now) or 0.0
    if not isinstance(seen, str):
        more = step - seen.step if step is not None and seen.step is not None else -1
        steps = more if more >= 0 else None  # its log counts otherwise, or is behind
        return Loss(job, steps, min(seconds, seen.age), seen.step)
    saved = find_checkpoint(job)
    begun = saved if saved is not None else max(0, (job.live.first_step or 1) - 1)
    steps = None if step is None else max(0, step - begun)
    if steps is not None and saved and step:
        # The part of the run's time that came after the checkpoint.
        whole = job.rate * seconds if job.rate and seconds > 0 else step
        seconds *= min(1.0, steps / whole)
    return Loss(job, steps, seconds, saved, seen if saved is None else "")


def list_checkpoint_places(
    jobs: Iterable[JobView], session: SessionView
) -> Sequence[CheckpointPlace]:
    """Where to look for the checkpoints of those of `jobs` that run."""
    from autoexp_tui.model.outputs import CheckpointPlace

    plan, found = session.snapshot.plan, []
    for job in filter(is_outside, jobs):
        spec, attempt = job.record.spec, job.attempt
        glob = plan.rules_of(spec).checkpoints.glob if plan is not None else ""
        anew = attempt.began_at if attempt is not None and attempt.anew else None
        since = None if anew is None else wall_time(anew, session.now)
        place = CheckpointPlace(
            job=job.name, output_dir=spec.output_dir, glob=glob, since=since
        )
        found += [place] if glob else []
    return found


def select_killable(jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    """Those that wait, queue or run; what nobody asked for yet has nothing to end."""
    return tuple(job for job in jobs if job.record.state not in NOTHING_TO_END)


def is_outside(job: JobView) -> bool:
    """Whether an attempt of it lives, or may live."""
    return job.record.state in ACTIVE


def find_waiting(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    """Jobs that have not started and wait, however far down, for one of `jobs`."""
    found = find_linked(jobs, session, session.links.behind)
    return tuple(job for job in found if not job.record.started)


def find_linked(
    jobs: Sequence[JobView], session: SessionView, links: Mapping[str, Iterable[str]]
) -> tuple[JobView, ...]:
    """All that links lead to from `jobs`, without these, in plan order."""
    seen = {job.name for job in jobs}
    queue = list(seen)
    while queue:
        fresh = set(links.get(queue.pop(), ())) - seen
        seen |= fresh
        queue += fresh
    return sort_jobs(session.list_jobs(seen - {job.name for job in jobs}))


_RIPE_SHARE: Final = 0.05
"""Of its time limit a job must have run before a warning: rates begin low."""
_SURE_MARGIN: Final = 0.10
"""A job that would be cut even if it were so much faster is warned about."""


def estimate_end(job: JobView, now: float) -> float | None:
    """When a running job should end by its step rate, whatever its time limit; None
    without total, step and rate. Of a stalled job counted from its last step."""
    if job.step is None or not job.total or not job.rate:
        return None
    stood = measure_stall(job, now) if job.look is Look.STALLED else 0.0
    return max(now, now - stood + max(0, job.total - job.step) / job.rate)


def find_limit(job: JobView) -> float | None:
    """When its time limit ends a job that has begun; None: it has no limit."""
    limit = job.record.spec.resources.time_limit_seconds
    began = job.attempt.began_at if job.attempt else None
    return began + limit if began is not None and limit else None


def measure_stall(job: JobView, now: float) -> float:
    """How long the step counter has stood still; 0: not known."""
    moved = job.live.last_step_at
    return now - moved if moved is not None else 0.0


class End(NamedTuple):
    """When something should have ended."""

    at: float
    """UTC."""
    guessed: bool = False
    """Whether a stage counts for it that has not shown yet how fast it is."""
    least: bool = False
    """Whether it ends later, nobody knows when."""


class Ends(NamedTuple):
    """When everything, and each stage, should have ended."""

    session: End | None = None
    stages: Mapping[str, End] = MappingProxyType({})


def format_end(end: End, now: float) -> str:
    """`~19:40`; a guess, which is no time of day, `in ~5 h, guessed`; `after ~19:40`
    where something that nobody can estimate comes last."""
    if not end.guessed:
        told = format_estimate(end.at, now)
        return f"after {told.removeprefix('in ')}" if end.least else told
    left = max(0.0, end.at - now)
    unit = next((one for one in (DAY, HOUR, 600) if left >= 1.5 * one), 60)
    told = f"~{duration(max(1, round(left / unit)) * unit)}"
    return f"{'after' if end.least else 'in'} {told}, guessed"


def estimate_ends(session: SessionView) -> Ends:
    """Estimated ends, from a simulated run of what is left on the engine's slots."""
    never = (Look.HELD, Look.DOOMED, Look.ASKS)
    left = [
        one for one in session.jobs if not one.record.ended and one.look not in never
    ]
    if not session.active or not left:
        return Ends()
    ends = _simulate(session, left)
    stages: dict[str, list[End]] = {}
    for job in left:
        stages.setdefault(job.stage, []).append(ends[job.name])
    last = {stage: _find_last(found) for stage, found in stages.items()}
    known = {stage: end for stage, end in last.items() if end and not end.least}
    whole = _find_last(ends.values())
    if whole and session.snapshot.open_ends:  # jobs may join that nobody knows yet
        whole = whole._replace(least=True)
    return Ends(whole, known)


def _find_last(ends: Iterable[End]) -> End | None:
    """The end of the last of several; None: of none is one known."""
    found = list(ends)
    known = [end for end in found if isfinite(end.at)]
    if not known:
        return None
    guessed, least = any(end.guessed for end in known), len(known) < len(found)
    return End(max(end.at for end in known), guessed, least)


def _simulate(session: SessionView, left: Sequence[JobView]) -> Mapping[str, End]:
    """When each job that is left should end, `inf` where nobody knows: those to be sent
    are put on the engine's slots one after the other."""
    now, usual, wait = session.now, _measure_durations(session), _measure_wait(session)
    rates = measure_rates(session).values()
    rate = median(rates) if rates else 0.0
    jobs = {job.name: job for job in left}
    slots = [End(now)] * (session.snapshot.engine.slots or len(left))
    """A heap of when each is free again."""
    ends: dict[str, End] = {}
    runs = {job.name: _estimate_run(job, usual, rate) for job in left}
    for job in left:
        if job.record.state in ACTIVE:
            at = _estimate_sent(job, runs[job.name], wait, now)
            end = ends[job.name] = End(at, job.stage not in usual)
            heapq.heappushpop(slots, end if isfinite(at) else End(now))
    upstream = session.links.upstream
    waits = {name: jobs.keys() & upstream.get(name, ()) for name in jobs}
    for name in TopologicalSorter(waits).static_order():
        job = jobs[name]
        if name in ends:
            continue
        before = [slots[0], *(ends[other] for other in waits[name])]
        start = max(end.at for end in before)
        if job.record.retry is not None:
            lived = job.record.retry.lived
            start = max(start, session.snapshot.convert_to_t(lived))
        guessed = job.stage not in usual or any(end.guessed for end in before)
        end = ends[name] = End(start + wait + runs[name], guessed)
        if isfinite(end.at):
            heapq.heapreplace(slots, end)
    return ends


def _estimate_run(job: JobView, usual: Mapping[str, _Usual], rate: float) -> float:
    """Seconds that a run takes: as usual in its stage, else at the rate of others."""
    known = usual.get(job.stage)
    if known is None:
        return job.total / rate if job.total and rate else inf
    return job.total * known.per_step if job.total and known.per_step else known.run


def _estimate_sent(job: JobView, usual: float, wait: float, now: float) -> float:
    """The end of what the executor has; it begins as that says, else as usual."""
    if job.record.state in BEGUN:
        rest = max(0.0, usual - (job.measure_run(now) or 0.0))
        return estimate_end(job, now) or now + rest
    begin = job.live.queue.expected_at if job.live.queue else None
    if begin is None:
        sent = job.attempt.submitted_at if job.attempt else None
        begin = (now if sent is None else sent) + wait
    return max(now, begin) + usual


def _measure_wait(session: SessionView) -> float:
    """What the executor's queue usually takes, from taken to begun; in seconds."""
    waits = [
        max(0.0, one.began_at - one.submitted_at)
        for job in session.jobs
        if (one := job.attempt) and one.began_at and one.submitted_at
    ]
    return median(waits) if waits else 0.0


class _Usual(NamedTuple):
    """Mean seconds in a stage. The mean, for what ends first is short, and many runs
    take their sum."""

    run: float
    per_step: float
    """Of the runs that say how many steps they have; 0: none does."""


def _measure_durations(session: SessionView) -> Mapping[str, _Usual]:
    """What is usual, by stage, of ended runs, and of running ones to their end."""
    seen: dict[str, list[tuple[float, int]]] = {}
    for job in session.jobs:
        began, end = job.attempt.began_at if job.attempt else None, None
        if job.attempt is not None and job.record.state is JobState.COMPLETED:
            end = job.attempt.ended_at
        elif job.record.state in BEGUN:
            end = estimate_end(job, session.now)
        if began is not None and end is not None:
            steps = job.total or 0 if len(job.record.attempts) == 1 else 0
            seen.setdefault(job.stage, []).append((end - began, steps))
    return {stage: _average(runs) for stage, runs in seen.items()}


def _average(runs: Sequence[tuple[float, int]]) -> _Usual:
    """Of (seconds, steps; 0: not known)."""
    told = [one for one in runs if one[1]]
    steps = sum(one[1] for one in told)
    per_step = sum(one[0] for one in told) / steps if steps else 0.0
    return _Usual(fmean(one[0] for one in runs), per_step)


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


Rates: TypeAlias = Mapping[str, float]
"""Usual steps a second, by stage; one of which nothing is known is left out."""
NO_RATES: Final[Rates] = {}


def measure_rates(session: SessionView) -> Rates:
    """The median rate of each stage, of runs that go on, that completed here, or in
    earlier sessions."""
    seen: dict[str, list[float]] = {}
    for job in session.jobs:
        if rate := _measure_rate(job):
            seen.setdefault(job.stage, []).append(rate)
    return {stage: median(found) for stage, found in seen.items()}


def _measure_rate(job: JobView) -> float | None:
    """What a job tells of its stage; a run from a checkpoint did not do all steps."""
    record = job.record
    if record.state is JobState.RUNNING:
        return job.rate
    steps, seconds = job.step, None
    if record.done is not None:
        steps, seconds = record.done.step, record.done.seconds
    elif record.state is JobState.COMPLETED and len(record.attempts) == 1:
        seconds = job.measure_run(0.0)
    return steps / seconds if steps and seconds else None


class Cut(NamedTuple):
    """Where a time limit ends a job before its last step."""

    step: int
    total: int
    rate: float


Cuts: TypeAlias = Mapping[str, Cut]
"""By job."""
NO_CUTS: Final[Cuts] = {}


def find_cut(job: JobView, now: float, known: Rates) -> Cut | None:
    """Where its time limit will cut a job, by its own rate while it runs, else by its
    stage's; None: it will not, or nobody knows."""
    if job.record.ended or job.record.done:
        return None
    if job.record.state is JobState.RUNNING:
        return _reach(job, job.rate, job.step, job.measure_run(now))
    start = find_checkpoint(job) if job.record.resume else None
    return _reach(job, known.get(job.stage), start or 0, 0.0)


def _reach(
    job: JobView,
    rate: float | None,
    step: int | None,
    ran: float | None,
    margin: float = 0.0,
) -> Cut | None:
    """How far a job at `step` comes in what is left of its time limit; None: to its
    end, even if it were not faster than by `margin`."""
    limit, total = job.record.spec.resources.time_limit_seconds, job.total
    if not limit or not total or not rate or step is None or ran is None:
        return None
    more = max(0.0, limit - ran) * rate
    short = step + more * (1 + margin) < total
    return Cut(int(step + more), total, rate) if short else None


def find_sure_cuts(session: SessionView, before: Cuts = NO_CUTS) -> Cuts:
    """The running jobs that their limit will cut for certain; linear in the jobs.

    Certain is what holds at the faster of two rates, the newest and that of the whole
    run, with a margin: a slow checkpoint or a slow beginning warns of nothing. What is
    in `before` clears at half the margin, so that noise does not ring. A job that a
    rule starts again after its time limit is meant to be cut; of one that a person
    acknowledged nothing more is said until its next attempt.
    """
    found, now = {}, session.now
    for job in session.jobs:
        if job.look is not Look.RUNNING:
            continue
        ran, step, attempt = job.measure_run(now), job.step, job.attempt
        if not (ran and job.rate and step and attempt):
            continue
        limit = job.record.spec.resources.time_limit_seconds or 0.0
        if attempt.limit_seen or ran < limit * _RIPE_SHARE:
            continue
        rate = max(job.rate, step / ran)  # a resumed run's earlier steps speak for it
        margin = _SURE_MARGIN / 2 if job.name in before else _SURE_MARGIN
        cut = _reach(job, rate, step, ran, margin)
        if cut is not None and not _is_restarted(job, session):
            found[job.name] = cut
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
