"""Whether one job of a plan may start, judged without a session.

What other jobs did is known from the word that completed ones leave in their output
directories; what lies outside is looked at once. What only a session could know (an
approval, how long a job has waited, a metric) holds the job back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import get_args

from autoexp_tui.conditions.bindings import Lacking, RefusedValue, bind
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    describe,
    evaluate,
    needs,
)
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
    Moment,
    OutsideKey,
)
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState, Result, Verdict
from autoexp_tui.model.wording import sentence
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.storage.done_file import find_done

_OUTSIDE = get_args(OutsideKey)
_ASKS = frozenset({"asks_you", "asks_later"})
"""Codes of an approval that nobody has given."""


@dataclass
class FileFacts:
    """`model.facts.Facts` from files alone, each looked at once."""

    plan: Plan
    now: Moment
    """All of it UTC: nothing lived, and nothing was away."""
    source: OutsideFacts = field(default_factory=lambda: OutsideFacts(SystemClock()))
    _known: dict[FactKey, Fact] = field(default_factory=dict)

    @cached_property
    def done(self) -> Mapping[str, DoneWork]:
        """Jobs of the plan that completed, doing the work that they would do now."""
        found = find_done(self.plan.jobs, self.plan.share)
        same = {(job.name, job.fingerprint) for job in self.plan.jobs}
        return {n: work for n, work in found.items() if (n, work.fingerprint) in same}

    def get(self, key: FactKey) -> Fact | None:
        """The fact for `key`; None: nobody but a session knows."""
        if key not in self._known:
            if isinstance(key, _OUTSIDE):
                seen = self.source.observe(key)
                self._known[key] = replace(seen, observed_at=self.now.lived)
            else:
                self._known[key] = Fact(self._find_value(key), self.now.lived)
        return self._known[key]

    def _find_value(self, key: FactKey) -> FactValue:
        match key:
            case JobKey():
                work = self.done.get(key.job)
                if work is None:
                    # Held jobs and `S` are a session's; here it only has not ended.
                    return JobFact(JobState.WAITING)
                return JobFact(JobState.COMPLETED, ended_lived=work.at, step=work.step)
            case MetadataKey():
                return self.read_metadata(key.job, key.key)
            case MetricKey():
                work = self.done.get(key.job)
                value = work.values.get(key.name) if work else None
                if work is not None and isinstance(value, float | int):
                    return MetricFact(float(value), work.step or 0)
            case ApprovalKey():
                return ApprovalFact(approved=None)
        return None

    def read_metadata(self, job: str, key: str) -> str | None:
        """What a completed job's log told."""
        work = self.done.get(job)
        return work.metadata.get(key) if work is not None else None


def list_unmet(job: JobSpec, plan: Plan, now: float) -> Iterator[str]:
    """Why a job may not start now, in words; nothing: it may."""
    facts = FileFacts(plan, Moment(t=now, utc=now, lived=now))
    for condition in job.start_conditions:
        if condition.blocking and (reason := _explain_wait(condition, job, facts)):
            what = describe(condition)
            yield reason if what in reason else f"{what}: {reason}"
    for condition in job.cancel_conditions:
        bound, _ = _bind(condition, facts)
        asks = bound and any(isinstance(k, ApprovalKey) for k in needs(bound, job.name))
        if bound and not asks and _evaluate(bound, job, facts).result is Result.PASS:
            yield f"its cancel condition holds: {describe(condition)}"


def _explain_wait(condition: Condition, job: JobSpec, facts: FileFacts) -> str:
    """Why a condition does not pass; empty when it does."""
    bound, missing = _bind(condition, facts)
    if bound is None:
        for one in missing:
            if isinstance(one, RefusedValue):
                return f"{one.key} of {one.job}: {one.problem}"
        unknown = ", ".join(f"{one.key} of {one.job}" for one in missing)
        return f"{unknown} is not known"
    verdict = _evaluate(bound, job, facts)
    if verdict.result is Result.PASS:
        return ""
    text = sentence(verdict.why, facts.now.t, keys=False)
    asks = verdict.why.code in _ASKS
    return f"{text} (a session asks; --force goes on as if approved)" if asks else text


def _bind(
    condition: Condition, facts: FileFacts
) -> tuple[Condition | None, tuple[Lacking, ...]]:
    """The condition with the values that logs told, and what is not known."""
    names = frozenset(job.name for job in facts.plan.jobs)
    return bind(condition, facts.read_metadata, names)


def _evaluate(condition: Condition, job: JobSpec, facts: FileFacts) -> Verdict:
    context = EvalContext(job=job.name, waiting_lived=facts.now.lived)
    return evaluate(condition, facts, facts.now, context)
