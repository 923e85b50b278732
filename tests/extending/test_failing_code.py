"""Code of somebody else's that raises stops neither the engine nor what is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import Watching, finish, is_over
from autoexp_tui.events.events import ActionDropped, EngineFaulted, WarningRaised
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
from autoexp_tui.model import kinds
from autoexp_tui.model.commands import Acknowledge
from autoexp_tui.model.policy import find_policy
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.extending.conftest import ENTRY_POINTS, bench
from tests.extending.tally import SetGoal, TallyPolicy
from tests.model.builders import job, plan

PROBLEM = "ZeroDivisionError: their bug"


def fail() -> NoReturn:
    raise ZeroDivisionError("their bug")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingCondition(Condition):
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
    def decide(self, context: DecisionContext) -> float | None:
        fail()


HERE = "tests.extending.test_failing_code"
FAILING = tuple(
    (f"{sort.lower()}.failing", f"{HERE}:Failing{sort}")
    for sort in ("Condition", "Action", "Effect", "Policy")
)


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "list_installed", lambda: (*ENTRY_POINTS, *FAILING))


def list_warnings(one: Bench) -> list[tuple[str, object]]:
    raised = one.happened(WarningRaised)
    reasons = [event.why for event in raised if isinstance(event, WarningRaised)]
    return [(reason.code, reason.arg("problem")) for reason in reasons]


def run_with(action: FailingAction) -> Bench:
    """Two jobs have run, with a rule that does that after each."""
    rule = StateEvent(name="r", state="success", actions=(action,))
    of = plan(job("a"), job("b", 1), monitoring=Monitoring(state_events=(rule,)))
    one = bench(of)
    one.until(one.is_("b", JobState.COMPLETED))
    one.run(2)
    return one


def test_an_engine_goes_on_beside_a_condition_that_raises() -> None:
    one = bench(plan(job("a", start_conditions=(FailingCondition(),)), job("b", 1)))
    one.until(one.is_("b", JobState.COMPLETED))
    assert one.job("a").state is JobState.WAITING
    assert ("own_failed", PROBLEM) in list_warnings(one)
    assert not one.happened(EngineFaulted)


def test_an_action_that_raises_is_dropped() -> None:
    one = run_with(FailingAction())
    assert one.job("a").state is JobState.COMPLETED
    assert len(one.happened(ActionDropped)) == 2
    assert list_warnings(one) == [("action_failed", PROBLEM)] * 2
    assert not one.happened(EngineFaulted)


def test_an_effect_that_cannot_be_sent_has_failed_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def list_faults() -> list[tuple[str, str]]:
        one = run_with(FailingAction(orders=True))
        one.run(20)
        faults = one.happened(EngineFaulted)
        return [(getattr(f, "where", ""), getattr(f, "problem", "")) for f in faults]

    assert list_faults() == [("failing", PROBLEM)] * 2
    monkeypatch.setattr(FailingEffect, "send", lambda *_: list)
    monkeypatch.setattr(FailingEffect, "pool", "commands")
    fault, _ = list_faults()
    assert fault[1] == "AssertionError: there is no pool `commands`"


@pytest.mark.parametrize(
    ("part", "problem"),
    [("failing", PROBLEM), ("gone", "it is not installed, or not usable")],
)
def test_a_policy_that_fails_or_is_gone_is_left_out(part: str, problem: str) -> None:
    one = bench(plan(job("a"), job("b", 1)))
    one.engine.state.parts[part] = ()
    one.order(SetGoal(goal=1))
    one.until(one.is_("b", JobState.COMPLETED))
    one.run(2)
    assert list_warnings(one) == [("policy_failed", problem)]
    assert len(one.engine.state.parts["tally"].counted) == 1
    assert one.snapshots[-1].jobs
    assert (find_policy(part) is None) == (part == "gone")
    shown = replace(one.snapshots[-1], open_ends=("more",))
    assert is_over(shown, Watching())  # nobody would go on with it
    assert finish(shown, as_json=True) == ExitCode.JOBS_NOT_COMPLETED


@pytest.mark.parametrize("method", ["is_open", "find_exit"])
def test_a_policy_that_cannot_say_where_it_stands_is_told(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(TallyPolicy, method, lambda *_: fail())
    one = bench(plan(job("a")))
    one.order(SetGoal(goal=1))
    one.run(5)
    assert list_warnings(one) == [("policy_failed", PROBLEM)]


def test_a_policy_is_asked_again_once_it_was_seen_and_once_it_was_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = bench(plan(job("a")))
    monkeypatch.setattr(TallyPolicy, "decide", FailingPolicy.decide)
    one.order(SetGoal(goal=1))
    one.run(5)
    one.order(Acknowledge(warnings=tuple(one.engine.state.warnings)))
    one.run(5)
    assert len(one.happened(WarningRaised)) == 2
    monkeypatch.undo()
    monkeypatch.setattr(kinds, "list_installed", lambda: ENTRY_POINTS)
    one.die(gone_for=5)
    one.run(5)
    assert one.warned() == []
    assert one.engine.state.parts["tally"].counted == ("a",)
