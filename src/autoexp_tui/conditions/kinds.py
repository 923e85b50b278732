"""Every condition that a config can ask for: the one table of them, and their joints.

`kind` tells members of the union apart in the journal and the manifest. A new condition
is a class in a module of its own, and a line of `Condition.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from autoexp_tui.conditions.custom_conditions import OwnCondition
from autoexp_tui.conditions.files import FileContent, FileExists, LogPattern
from autoexp_tui.conditions.simple import (
    Approval,
    CommandPasses,
    Cooldown,
    JobStateIs,
    MaxAttempts,
    TimeReached,
)
from autoexp_tui.conditions.values import MetadataIs, MetricIs, Op
from autoexp_tui.model.condition import (
    UNKNOWN,
    Condition,
    EvalContext,
    NameJobs,
    all_moments,
    all_of,
    describe,
    describe_subject,
    evaluate,
    first,
    needs,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import FactKey, Facts, Moment
from autoexp_tui.model.states import Result, Verdict

__all__ = [
    "Approval",
    "CommandPasses",
    "Composite",
    "Condition",
    "Cooldown",
    "FileContent",
    "FileExists",
    "JobStateIs",
    "LogPattern",
    "MaxAttempts",
    "MetadataIs",
    "MetricIs",
    "Not",
    "Op",
    "OwnCondition",
    "TimeReached",
    "has_attempt_limit",
]

_NAMED: Final = 4
"""Parts that a line names before it counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite(Condition):
    """All, or any, of several conditions."""

    kind: Literal["composite"] = "composite"
    mode: Literal["all", "any"] = "all"
    conditions: tuple[Condition, ...]

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        for part in self.conditions:
            yield from needs(part, job, action)

    def name_subject(self, name_jobs: NameJobs) -> str:
        joint = " and " if self.mode == "all" else " or "
        return joint.join(describe_subject(part, name_jobs) for part in self.conditions)

    def list_sources(self) -> Iterator[str]:
        for part in self.conditions:
            yield from part.list_sources()

    def list_awaited_jobs(self) -> Iterator[str]:
        for part in self.conditions:
            yield from part.list_awaited_jobs()

    def with_writers(self, owner: Callable[[str], str]) -> Self:
        parts = tuple(part.with_writers(owner) for part in self.conditions)
        return replace(self, conditions=parts)

    def list_awaited_files(self) -> Iterator[Condition]:
        for part in self.conditions:
            yield from part.list_awaited_files()

    def name_object(self) -> str:
        joint = " and " if self.mode == "all" else " or "
        return joint.join(describe(part) for part in self.conditions)

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        for part in self.conditions:
            yield from all_moments(part, facts, now, ctx)

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        verdicts = [
            evaluate(part, facts, now, ctx) for part in self._list_deciding_parts()
        ]
        if self.mode == "all":
            what = _list_parts(self._list_deciding_parts())
            holds = say_pass("all_hold", count=len(verdicts), what=what)
            return all_of(verdicts, holds)
        return first(verdicts, Result.PASS) or _evaluate_none_passed(verdicts)

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        for_good = [
            part.is_final(facts, now, ctx)
            for part in self._list_deciding_parts()
            if evaluate(part, facts, now, ctx).result is Result.PASS
        ]
        return (all if self.mode == "all" else any)(for_good)

    def _list_deciding_parts(self) -> Sequence[Condition]:
        """Parts that do not block do not count, unless none does."""
        blocking = [part for part in self.conditions if part.blocking]
        return blocking or self.conditions


def _list_parts(parts: Sequence[Condition]) -> str | None:
    """What holds, as far as a line has room for it."""
    named = [describe(part) for part in parts[:_NAMED]]
    more = len(parts) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])]) or None


def _evaluate_none_passed(verdicts: list[Verdict]) -> Verdict:
    """None passes: an unknown one may yet, then one that waits, else all failed."""
    waiting = [verdict for verdict in verdicts if verdict.result is Result.WAIT]
    unknown = [verdict for verdict in waiting if verdict.why.code in UNKNOWN]
    none = say_fail("none_holds", count=len(verdicts))
    return next(iter(unknown + waiting + verdicts), none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(Condition):
    """PASS and FAIL exchanged; WAIT passes (the thing is not so, as yet)."""

    kind: Literal["not"] = "not"
    condition: Condition

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield from needs(self.condition, job, action)

    def name_subject(self, name_jobs: NameJobs) -> str:
        return f"not {describe_subject(self.condition, name_jobs)}"

    def list_sources(self) -> Iterator[str]:
        yield from self.condition.list_sources()

    def list_awaited_jobs(self) -> Iterator[str]:
        yield from self.condition.list_awaited_jobs()

    def with_writers(self, owner: Callable[[str], str]) -> Self:
        return replace(self, condition=self.condition.with_writers(owner))

    def list_awaited_files(self) -> Iterator[Condition]:
        yield from self.condition.list_awaited_files()

    def name_object(self) -> str:
        return f"not {describe(self.condition)}"

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        yield from all_moments(self.condition, facts, now, ctx)

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        inner = evaluate(self.condition, facts, now, ctx)
        if inner.result is Result.WAIT and inner.why.code in UNKNOWN:
            return inner
        what = describe(self.condition)
        if inner.result is Result.PASS:
            for_good = self.condition.is_final(facts, now, ctx)
            return (say_fail if for_good else say_wait)("is_so", what=what)
        return say_pass("not_so", what=what)

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return evaluate(self.condition, facts, now, ctx).result is Result.FAIL


def has_attempt_limit(conditions: Iterable[Condition]) -> bool:
    """Whether one of the conditions, all of which must pass, counts attempts."""
    return any(
        isinstance(one, MaxAttempts)
        or (
            isinstance(one, Composite)
            and one.mode == "all"
            and has_attempt_limit(one.conditions)
        )
        for one in conditions
    )
