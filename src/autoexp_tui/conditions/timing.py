"""Conditions on time: a moment, and the time since an action last fired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    read_fact,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import Fact, FactKey, Facts, FiredKey, Moment
from autoexp_tui.model.states import Verdict
from autoexp_tui.model.wording import clock_time, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReached(Condition):
    """Seconds since WAITING was entered have passed, or a moment is reached."""

    kind: Literal["time"] = "time"
    after_seconds: float | None = None
    at: float | None = None
    """UTC, seconds since the epoch."""

    def name_object(self) -> str:
        return "a time"

    def name_subject(self, name_jobs: NameJobs) -> str:
        if self.at is not None:
            return clock_time(self.at)
        return f"{duration(self.after_seconds or 0.0)} of waiting"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        if self.after_seconds is not None and ctx.waiting_lived is None:
            return say_wait("time_unset", seconds=self.after_seconds)
        at = self.find_end(now, ctx)
        if at is None or now.lived >= at:
            return say_pass(
                "time_reached", at=None if at is None else now.convert_to_t(at)
            )
        return say_wait("time_until", at=now.convert_to_t(at))

    def find_end(self, now: Moment, ctx: EvalContext) -> float | None:
        """When (lived) both of the moments that it names are reached."""
        moments = [] if self.at is None else [now.convert_to_lived(self.at)]
        if self.after_seconds is not None and ctx.waiting_lived is not None:
            moments.append(ctx.waiting_lived + self.after_seconds)
        return max(moments, default=None)

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        at = self.find_end(now, ctx)
        if at is not None:
            yield at

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown(Condition):
    """So many seconds have passed since this action last fired for this job."""

    kind: Literal["cooldown"] = "cooldown"
    cooldown_seconds: float

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield FiredKey(job, action)

    def name_object(self) -> str:
        return "a cooldown"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        fact = facts.get(FiredKey(ctx.job, ctx.action))
        if fact is None or fact.error:
            unknown = read_fact(fact, float, f"the last time of {ctx.action}")
            return unknown if isinstance(unknown, Verdict) else say_pass("cooled_down")
        until = self._ends_at(fact)
        if until is None or now.lived >= until:
            return say_pass("cooled_down")
        return say_wait("cooling_down", until=now.convert_to_t(until))

    def _ends_at(self, fact: Fact | None) -> float | None:
        """When (lived) it is over; None when the action never fired."""
        fired = fact.value if fact is not None else None
        return (
            fired + self.cooldown_seconds if isinstance(fired, (int, float)) else None
        )

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        at = self._ends_at(facts.get(FiredKey(ctx.job, ctx.action)))
        if at is not None:
            yield at
