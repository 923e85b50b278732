"""Approvals are asked for before a job starts, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.actions.kinds import Action, NewJob, Restart
from autoexp_tui.conditions.kinds import Approval, Composite, MaxAttempts, Not
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan

ASKS = Approval(prompt="go on?")
NESTED = Composite(conditions=(MaxAttempts(max_attempts=3), Not(condition=ASKS)))
SPENT = MaxAttempts(max_attempts=3)


def places(conditions: Monitoring | None = None, **of_job: Any) -> list[str]:
    """Where errors are, in a plan of one job under rules."""
    made = plan(job("a", **of_job), monitoring=conditions or Monitoring())
    found = validate_execution_plan(made).errors
    assert all("nobody is asked here" in problem.message for problem in found)
    return [problem.where for problem in found]


def under(action: Action) -> Monitoring:
    return Monitoring(
        log_events=(LogEvent(name="l", pattern="x", actions=(action,)),),
        state_events=(StateEvent(name="s", state="crash", actions=(action,)),),
    )


@pytest.mark.parametrize("approval", [ASKS, NESTED])
def test_an_approval_of_a_restart_is_refused(approval: Approval | Composite) -> None:
    rules = under(Restart(conditions=(SPENT, approval)))
    assert places(rules) == [
        "monitoring.log_events.0.actions.0.conditions",
        "monitoring.state_events.0.actions.0.conditions",
    ]


@pytest.mark.parametrize("approval", [ASKS, NESTED])
def test_an_approval_of_a_cancel_is_refused(approval: Approval | Composite) -> None:
    assert places(cancel_conditions=(approval,)) == ["cancel_conditions"]


def test_a_job_that_joins_may_ask_before_it_starts_and_not_to_be_ended() -> None:
    starts = NewJob(command=("true",), start_conditions=(ASKS,))
    ends = NewJob(command=("true",), cancel_conditions=(ASKS,))
    assert places(under(starts)) == []
    assert len(places(under(ends))) == 2


def test_an_approval_before_a_start_is_what_it_is_for() -> None:
    assert places(start_conditions=(ASKS, NESTED)) == []


@pytest.mark.parametrize(
    ("approval", "warned"),
    [
        (Approval(timeout_seconds=60), "does nothing without on_timeout"),
        (Approval(on_timeout="reject"), "does not say when"),
        (Approval(timeout_seconds=60, on_timeout="reject"), ""),
        (Approval(), ""),
    ],
)
def test_a_time_out_of_an_approval_is_said_whole(
    approval: Approval, warned: str
) -> None:
    made = plan(job("a", start_conditions=(approval,)))
    found = [problem.message for problem in validate_execution_plan(made).warnings]
    assert [warned in message for message in found] == ([True] if warned else [])
