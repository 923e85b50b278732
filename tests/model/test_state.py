"""A session's records are copied cheaply, and what decisions may read of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.events.events import JobEnded, MetricsNoted
from autoexp_tui.executors.supervisors import HeldTimes
from autoexp_tui.model.decision_context import (
    DecisionContext,
    Draft,
    Roster,
    SchedulingPolicy,
    Timers,
    Watch,
)
from autoexp_tui.model.facts import MetricFact, MetricKey
from autoexp_tui.model.specs import ExecutorSpec
from autoexp_tui.model.state import SessionState, changed
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.scheduling.submission_queue import release
from tests.model.builders import at, ended, happen, job, plan, run, started


def test_a_record_of_ones_own_is_changed_in_place() -> None:
    session = started(plan(job("a")))
    run(session, "a")
    record, before = session.jobs["a"], session.jobs["a"].since
    assert changed(record, since=9.0) == replace(record, since=9.0)
    assert record.since == before
    assert changed(record, in_place=True, since=9.0) is record
    assert record.since == 9.0
    with pytest.raises(AttributeError):
        changed(record, in_place=True, sinse=1.0)


def context(
    state: SessionState, policy: SchedulingPolicy | None = None
) -> DecisionContext:
    return DecisionContext(
        draft=Draft(state, at(300.0), epoch=1),
        now=at(300.0),
        watch=Watch(),
        timers=Timers(),
        roster=Roster(),
        outside={},
        metrics={},
        policy=policy or SchedulingPolicy(),
    )


def test_a_recorded_metric_is_known_once_its_job_ended() -> None:
    state, key = started(plan(job("a"))), MetricKey("a", "loss")
    run(state, "a")
    values = {"loss": 2.5}
    noted = MetricsNoted(job="a", attempt=1, run=0, step=7, total=None, values=values)
    happen(state, noted)
    assert context(state).get(key) is None  # of a job that runs: an earlier run's
    end = JobEnded(job="a", state=JobState.FAILED, cause=Cause.USER, why=why("user"))
    happen(state, ended("a"), end)
    fact = context(state).get(key)
    assert fact is not None
    assert fact.value == MetricFact(2.5, 7)


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


def test_what_is_looked_at_has_held_since_and_of_long_times_little_counts() -> None:
    held = HeldTimes(most_between=10.0)
    looks = [held.note("a", holds=True, now=now) for now in (0.0, 5.0, 9.0, 3_600.0)]
    assert looks == [0, 5, 9, 19]
    assert held.note("a", holds=False, now=3_605.0) == 0.0  # and anew after that
    assert "a" not in held
    assert held.note("a", holds=True, now=3_609.0) == 0.0
