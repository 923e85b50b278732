"""Which jobs their time limit will cut short, at the rate that is known for them.

A running job's own rate counts; of one that has not begun the usual rate of its stage:
of runs that go on, of those that completed here, and of those that earlier sessions
completed. Where no rate is known nothing is said.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.render.numbers import pace
from autoexp_tui.cockpit.render.reasons import outlook
from autoexp_tui.cockpit.render.spans import Line, Span, outside
from autoexp_tui.cockpit.render.status_style import Look
from autoexp_tui.cockpit.state.kill_cost import checkpoint_step
from autoexp_tui.model.states import JobState, Outcome
from autoexp_tui.model.wording import count, duration, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.rules import StateEvent

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


def rates(session: SessionView) -> Rates:
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


def cut_of(job: JobView, now: float, known: Rates) -> Cut | None:
    """Where its time limit will cut a job; None: it will not, or nobody knows."""
    limit = job.record.spec.resources.time_limit_seconds
    if not limit or not job.total or job.record.ended or job.record.done:
        return None
    if job.record.state is JobState.RUNNING:
        return _running(job, now)
    usual = known.get(job.stage)
    if usual is None:
        return None
    start = checkpoint_step(job) if job.record.resume else None
    step = int((start or 0) + usual.rate * limit)
    if step >= job.total:
        return None
    return Cut(step, job.total, usual.rate, usual.runs)


def _running(job: JobView, now: float) -> Cut | None:
    ahead = outlook(job, now)
    rate = job.live.rate if job.live is not None else None
    if not ahead.too_late or ahead.limit_at is None or not rate or job.step is None:
        return None
    step = int(job.step + max(0.0, ahead.limit_at - now) * rate)
    return Cut(min(step, job.total or step), job.total or step, rate)


# --------------------------------------------------------------------------- warnings
Cuts: TypeAlias = Mapping[str, Cut]
"""By job."""
NO_CUTS: Final[Cuts] = MappingProxyType({})


def sure_cuts(session: SessionView, before: Cuts = NO_CUTS) -> Cuts:
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
def cut_words(cut: Cut) -> str:
    """`will be cut by its time limit at step ~41.2k of 60k`."""
    return (
        f"will be cut by its time limit at step ~{count(cut.step)} of "
        f"{count(cut.total)}"
    )


def cut_line(job: JobView, now: float, known: Rates) -> Iterable[Line]:
    """The same for a job that has not begun, with what the rate is of."""
    cut = cut_of(job, now, known)
    if cut is None or not cut.runs:
        return
    limit = duration(job.record.spec.resources.time_limit_seconds or 0.0)
    of = f"{pace(cut.rate)}, as {plural(cut.runs, 'run')} of its stage"
    yield (Span(f"   ! {cut_words(cut)} ({limit}; {of}).", "warning"),)


def cuts_told(
    jobs: Sequence[JobView], session: SessionView, known: Rates
) -> Iterable[Line]:
    """Of jobs that are about to be submitted: a line a stage whose limit is short."""
    stages: dict[str, list[Cut]] = {}
    for job in jobs if known else ():
        cut = cut_of(job, session.now, known)
        if cut is not None:
            stages.setdefault(job.stage, []).append(cut)
    for stage, cuts in stages.items():
        first = min(cuts, key=lambda one: one.step / one.total)
        verb = "reaches" if len(cuts) == 1 else "reach"
        yield (
            Span(f"! {plural(len(cuts), 'job')} of {outside(stage) or 'the plan'} "),
            Span(f"{verb} only step ~{count(first.step)} of {count(first.total)} "),
            Span(f"before the time limit, at {pace(first.rate)}."),
        )
