"""Code of somebody else's that raises stops neither the engine nor what is ours."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.kinds import Composite, Not
from autoexp_tui.events.events import ActionDropped, EngineFaulted, WarningRaised
from autoexp_tui.model import kinds
from autoexp_tui.model.condition import EvalContext, evaluate, find_wake, needs
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.policy import find_policy
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.extending.conftest import ENTRY_POINTS
from tests.extending.failing import FailingAction, FailingCondition, FailingEffect
from tests.extending.tally import SetGoal
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

HERE = "tests.extending.failing"
FAILING = (
    ("condition.failing", f"{HERE}:FailingCondition"),
    ("action.failing", f"{HERE}:FailingAction"),
    ("effect.failing", f"{HERE}:FailingEffect"),
    ("policy.failing", f"{HERE}:FailingPolicy"),
)
PROBLEM = "ZeroDivisionError: their bug"


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What raises is installed too."""
    monkeypatch.setattr(kinds, "list_installed", lambda: (*ENTRY_POINTS, *FAILING))


def bench(of: Plan) -> Bench:
    return Bench(of, {spec.name: [[RunScript(seconds=1.0)]] for spec in of.jobs})


def list_warnings(one: Bench) -> list[tuple[str, object]]:
    """Code and problem of each warning that was raised."""
    raised = one.happened(WarningRaised)
    reasons = [event.why for event in raised if isinstance(event, WarningRaised)]
    return [(reason.code, reason.arg("problem")) for reason in reasons]


def rule(action: FailingAction) -> Plan:
    event = StateEvent(name="r", state="success", actions=(action,))
    return plan(job("a"), job("b", 1), monitoring=Monitoring(state_events=(event,)))


def test_a_condition_that_raises_cannot_say() -> None:
    spec, now = FailingCondition(), Moment(t=1.0, utc=1.0, lived=1.0)
    either = Composite(mode="any", conditions=(spec,))
    for one in (spec, either, Composite(conditions=(spec,)), Not(condition=spec)):
        assert needs(one, "a") == frozenset()
        verdict = evaluate(one, {}, now, EvalContext(job="a"))
        assert verdict.why.code == "own_failed"
        assert verdict.why.arg("problem") == PROBLEM
        assert find_wake(one, {}, now, EvalContext(job="a")) is None


def test_an_engine_goes_on_beside_a_condition_that_raises() -> None:
    of = plan(job("a", start_conditions=(FailingCondition(),)), job("b", 1))
    one = bench(of)
    one.until(one.is_("b", JobState.COMPLETED))
    assert one.job("a").state is JobState.WAITING
    assert ("own_failed", PROBLEM) in list_warnings(one)
    assert not one.happened(EngineFaulted)


def test_an_action_that_raises_is_dropped() -> None:
    one = bench(rule(FailingAction()))
    one.until(one.is_("b", JobState.COMPLETED))
    one.run(2)
    assert one.job("a").state is JobState.COMPLETED
    assert len(one.happened(ActionDropped)) == 2
    assert list_warnings(one) == [("action_failed", PROBLEM)] * 2
    assert not one.happened(EngineFaulted)


def test_an_effect_that_cannot_be_sent_has_failed() -> None:
    one = bench(rule(FailingAction(orders=True)))
    one.until(one.is_("b", JobState.COMPLETED))
    one.run(2)
    faults = one.happened(EngineFaulted)
    problems = {(getattr(f, "where", ""), getattr(f, "problem", "")) for f in faults}
    assert problems == {("failing", PROBLEM)}


def test_an_effect_for_a_pool_that_is_not_there_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FailingEffect, "send", lambda *_: list)
    monkeypatch.setattr(FailingEffect, "pool", "commands")
    one = bench(rule(FailingAction(orders=True)))
    one.until(one.is_("b", JobState.COMPLETED))
    one.run(2)
    problems = {getattr(f, "problem", "") for f in one.happened(EngineFaulted)}
    assert problems == {"AssertionError: there is no pool `commands`"}


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
