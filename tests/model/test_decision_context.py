"""What decisions may read of a session."""

from __future__ import annotations

import pytest

from autoexp_tui.events.events import JobEnded, MetricsNoted
from autoexp_tui.model.decision_context import (
    DecisionContext,
    Draft,
    Roster,
    SchedulingPolicy,
)
from autoexp_tui.model.facts import MetricFact, MetricKey
from autoexp_tui.model.indexes import Timers, Watch
from autoexp_tui.model.specs import ExecutorSpec
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.scheduling.submission_queue import release
from tests.model.builders import at, ended, happen, job, plan, run, started

KEY = MetricKey("a", "loss")


def context(
    state: SessionState, policy: SchedulingPolicy | None = None
) -> DecisionContext:
    return DecisionContext(
        draft=Draft(state, at(300.0), epoch=1),
        watch=Watch(),
        timers=Timers(),
        roster=Roster(),
        outside={},
        metrics={},
        policy=policy or SchedulingPolicy(),
    )


def noted() -> SessionState:
    """A job that runs, with a recorded metric that this engine has not read."""
    state = started(plan(job("a")))
    run(state, "a")
    event = MetricsNoted(
        job="a", attempt=1, run=0, step=7, total=None, values={"loss": 2.5}
    )
    happen(state, event)
    return state


def test_a_metric_of_a_job_that_ended_is_known_from_the_record() -> None:
    state = noted()
    end = JobEnded(job="a", state=JobState.FAILED, cause=Cause.USER, why=why("user"))
    happen(state, ended("a"), end)
    fact = context(state).get(KEY)
    assert fact is not None
    assert fact.value == MetricFact(2.5, 7)


def test_a_recorded_metric_of_a_job_that_runs_may_be_an_earlier_runs() -> None:
    assert context(noted()).get(KEY) is None


@pytest.mark.parametrize(
    ("max_parallel", "place", "limit"),
    [
        (1, "local", "max_parallel"),
        (0, "local", "this machine"),
        (2, "local", "this machine"),
        (0, "slurm", "the executor slurm"),
    ],
)
def test_a_job_that_is_held_names_the_limit_that_binds(
    max_parallel: int, place: str, limit: str
) -> None:
    executor = ExecutorSpec(max_parallel=max_parallel)
    state = started(plan(job("a"), job("b", 1), executor=executor))
    made = context(state, SchedulingPolicy(slots=1, place=place))
    made.roster.active.add("a")
    made.roster.ready["b"] = 1
    release(made)
    reason = made.job("b").why
    assert reason is not None
    assert dict(reason.args) == {"slots": 1, "limit": limit}
