"""Whether one job of a plan may start, judged without a session.

What other jobs did is known from the word that completed ones leave in their output
directories; what lies outside is looked at once. What only a session could know (an
approval, how long a job has waited, a metric) holds the job back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from autoexp_tui.conditions.base import EvalContext, describe, evaluate, needs
from autoexp_tui.conditions.bindings import RefusedValue, bind
from autoexp_tui.conditions.kinds import (
    Condition,
    FileContent,
    FileExists,
    LogPattern,
    Not,
)
from autoexp_tui.model.done import DoneWork
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    Fact,
    FactKey,
    FactValue,
    JobFact,
    JobKey,
    MetadataKey,
    MetricFact,
    MetricKey,
    OutsideKey,
)
from autoexp_tui.model.moment import Moment
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState
from autoexp_tui.model.verdicts import Result, Verdict
from autoexp_tui.model.wording import sentence
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.storage.done_file import find_done

_OUTSIDE = get_args(OutsideKey)
_ASKS = frozenset({"asks_you", "asks_later"})
"""Codes of an approval that nobody has given."""


@dataclass(slots=True)
class WorldOfFiles:
    """`model.facts.Facts` from files alone, each looked at once."""

    plan: Plan
    now: Moment
    """All of it UTC: nothing lived, and nothing was away."""
    source: OutsideFacts = field(default_factory=lambda: OutsideFacts(SystemClock()))
    _done: Mapping[str, DoneWork] | None = None
    _known: dict[FactKey, Fact] = field(default_factory=dict)

    @property
    def done(self) -> Mapping[str, DoneWork]:
        """Jobs of the plan that completed, doing the work that they would do now."""
        if self._done is None:
            prints = {job.name: job.fingerprint for job in self.plan.jobs}
            self._done = {
                name: work
                for name, work in find_done(self.plan.jobs, self.plan.share).items()
                if work.fingerprint == prints[name]
            }
        return self._done

    def get(self, key: FactKey) -> Fact | None:
        """The fact for `key`; None: nobody but a session knows."""
        if key not in self._known:
            if isinstance(key, _OUTSIDE):
                seen = self.source.observe(key)
                self._known[key] = replace(seen, observed_at=self.now.lived)
            else:
                self._known[key] = Fact(self._inside(key), self.now.lived)
        return self._known[key]

    def _inside(self, key: FactKey) -> FactValue:
        match key:
            case JobKey():
                work = self.done.get(key.job)
                if work is None:
                    # Held jobs and `S` are a session's; here it only has not ended.
                    return JobFact(JobState.WAITING)
                return JobFact(JobState.COMPLETED, ended_lived=work.at, step=work.step)
            case MetadataKey():
                return self.metadata(key.job, key.key)
            case MetricKey():
                return self._metric(key)
            case ApprovalKey():
                return ApprovalFact(approved=None)
        return None

    def metadata(self, job: str, key: str) -> str | None:
        """What a completed job's log told."""
        work = self.done.get(job)
        return work.metadata.get(key) if work is not None else None

    def _metric(self, key: MetricKey) -> MetricFact | None:
        work = self.done.get(key.job)
        value = work.values.get(key.name) if work is not None else None
        if work is None or not isinstance(value, float | int):
            return None
        return MetricFact(float(value), work.step or 0)


def unmet(job: JobSpec, plan: Plan, now: float) -> Iterator[str]:
    """Why a job may not start now, in words; nothing: it may."""
    world = WorldOfFiles(plan, Moment(t=now, utc=now, lived=now))
    for condition in job.start_conditions:
        if condition.blocking and (reason := _held_by(condition, job, world)):
            head = "" if _is_told(condition, reason) else f"{describe(condition)}: "
            yield f"{head}{reason}"
    for condition in job.cancel_conditions:
        if _holds(condition, job, world):
            yield f"its cancel condition holds: {describe(condition)}"


def _is_told(condition: Condition, reason: str) -> bool:
    """Whether the reason itself names all that the condition looks for."""
    if condition.description:
        return False
    match condition:
        case FileExists() | FileContent():
            return condition.path in reason
        case LogPattern():
            return condition.log_path in reason and f'"{condition.pattern}"' in reason
        case Not():
            return _is_told(condition.condition, reason)
    return False


def _held_by(condition: Condition, job: JobSpec, world: WorldOfFiles) -> str:
    """Why a condition does not pass; empty when it does."""
    bound, missing = bind(condition, world.metadata, _names(world))
    if bound is None:
        refused = next((one for one in missing if isinstance(one, RefusedValue)), None)
        if refused is not None:
            return f"{refused.key} of {refused.job}: {refused.problem}"
        told = ", ".join(f"{one.key} of {one.job}" for one in missing)
        return f"{told} is not known"
    verdict = _judge(bound, job, world)
    if verdict.result is Result.PASS:
        return ""
    words = sentence(verdict.why, world.now.t, keys=False)
    asks = verdict.why.code in _ASKS
    return (
        f"{words} (a session asks; --force goes on as if approved)" if asks else words
    )


def _holds(condition: Condition, job: JobSpec, world: WorldOfFiles) -> bool:
    bound, _ = bind(condition, world.metadata, _names(world))
    if bound is None or any(isinstance(k, ApprovalKey) for k in needs(bound, job.name)):
        return False
    return _judge(bound, job, world).result is Result.PASS


def _names(world: WorldOfFiles) -> frozenset[str]:
    return frozenset(job.name for job in world.plan.jobs)


def _judge(condition: Condition, job: JobSpec, world: WorldOfFiles) -> Verdict:
    context = EvalContext(job=job.name, waiting_lived=world.now.lived)
    return evaluate(condition, world, world.now, context)
