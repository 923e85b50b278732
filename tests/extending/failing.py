"""Kinds and a policy of one's own whose code raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

from autoexp_tui.extend import (
    Action,
    Answer,
    Condition,
    DecisionContext,
    EvalContext,
    FactKey,
    Facts,
    Firing,
    Moment,
    Outside,
    OutsideEffect,
    Policy,
    SessionState,
    Verdict,
)


def fail() -> NoReturn:
    """Raise what nobody expects."""
    raise ZeroDivisionError("their bug")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingCondition(Condition):
    """Raises whatever it is asked."""

    kind: Literal["failing"] = "failing"

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        fail()

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        fail()

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        fail()

    def list_parts(self) -> tuple[Condition, ...]:
        fail()

    def name_object(self) -> str:
        fail()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingEffect(OutsideEffect):
    """Cannot be sent."""

    kind: Literal["failing"] = "failing"
    job: str

    def describe(self) -> str:
        return self.job

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        fail()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingAction(Action):
    """Raises, or orders what cannot be sent."""

    kind: Literal["failing"] = "failing"
    orders: bool = False

    def execute(self, firing: Firing) -> bool:
        if not self.orders:
            fail()
        firing.order(FailingEffect(job=firing.job.name))
        return True


class FailingPolicy(Policy):
    """Cannot decide."""

    def decide(self, context: DecisionContext) -> float | None:
        fail()
