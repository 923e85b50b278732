"""Every condition that a config can ask for, and their joints; the table of them is
`Condition.kinds`."""
# ruff: noqa: F403

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from autoexp_tui.conditions.custom_conditions import OwnCondition as OwnCondition
from autoexp_tui.conditions.files import *
from autoexp_tui.conditions.jobs import *
from autoexp_tui.conditions.jobs import MaxAttempts
from autoexp_tui.model.condition import (
    UNKNOWN,
    EvalContext,
    NameJobs,
    all_of,
    describe,
    describe_subject,
    evaluate,
    first,
    is_final,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.condition import Condition as Condition
from autoexp_tui.model.facts import Facts, Moment
from autoexp_tui.model.states import Result, Verdict

_NAMED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite(Condition, kind="composite"):
    mode: Literal["all", "any"] = "all"
    conditions: tuple[Condition, ...]

    def list_parts(self) -> tuple[Condition, ...]:
        return self.conditions

    def replace_parts(self, parts: tuple[Condition, ...]) -> Self:
        return replace(self, conditions=parts)

    def name_object(self) -> str:
        return self._join_names(map(describe, self.conditions))

    def name_subject(self, name_jobs: NameJobs) -> str:
        parts = (describe_subject(part, name_jobs) for part in self.conditions)
        return self._join_names(parts)

    def _join_names(self, names: Iterable[str]) -> str:
        return (" and " if self.mode == "all" else " or ").join(names)

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        parts = self._list_deciding_parts()
        verdicts = [evaluate(part, facts, now, ctx) for part in parts]
        if self.mode == "all":
            named = [describe(part) for part in parts[:_NAMED]]
            more = [f"{len(parts) - _NAMED} more"] if len(parts) > _NAMED else []
            what = ", ".join(named + more)
            return all_of(verdicts, say_pass("all_hold", count=len(parts), what=what))
        if passing := first(verdicts, Result.PASS):
            return passing
        # An unknown one may yet pass, then one that waits, else all failed.
        waiting = [verdict for verdict in verdicts if verdict.result is Result.WAIT]
        unknown = [verdict for verdict in waiting if verdict.why.code in UNKNOWN]
        none = say_fail("none_holds", count=len(verdicts))
        return next(iter(unknown + waiting + verdicts), none)

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        for_good = [
            is_final(part, facts, now, ctx)
            for part in self._list_deciding_parts()
            if evaluate(part, facts, now, ctx).result is Result.PASS
        ]
        return (all if self.mode == "all" else any)(for_good)

    def _list_deciding_parts(self) -> Sequence[Condition]:
        """Parts that do not block do not count, unless none does."""
        blocking = [part for part in self.conditions if part.blocking]
        return blocking or self.conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(Condition, kind="not"):
    """PASS and FAIL exchanged; WAIT passes (the thing is not so, as yet)."""

    condition: Condition

    def list_parts(self) -> tuple[Condition, ...]:
        return (self.condition,)

    def replace_parts(self, parts: tuple[Condition, ...]) -> Self:
        return replace(self, condition=parts[0])

    def name_object(self) -> str:
        return f"not {describe(self.condition)}"

    def name_subject(self, name_jobs: NameJobs) -> str:
        return f"not {describe_subject(self.condition, name_jobs)}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        inner = evaluate(self.condition, facts, now, ctx)
        if inner.result is Result.WAIT and inner.why.code in UNKNOWN:
            return inner
        what = describe(self.condition)
        if inner.result is Result.PASS:
            for_good = is_final(self.condition, facts, now, ctx)
            return (say_fail if for_good else say_wait)("is_so", what=what)
        return say_pass("not_so", what=what)

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return evaluate(self.condition, facts, now, ctx).result is Result.FAIL


def has_attempt_limit(conditions: Iterable[Condition]) -> bool:
    """Whether one of the conditions, all of which must pass, counts attempts."""
    for one in conditions:
        parts = one.list_parts() if getattr(one, "mode", "") == "all" else ()
        if isinstance(one, MaxAttempts) or has_attempt_limit(parts):
            return True
    return False
