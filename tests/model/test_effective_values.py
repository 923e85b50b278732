"""Each attempt keeps the values that it ran with, and what came of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.events import events
from autoexp_tui.model.done import done_before, work_of
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import JobState, why
from tests.model.builders import ended, happen, job, plan, run, started

PLANNED = job("a", fingerprint="f1", parameters={"lr": 1e-4})
OTHER = replace(
    PLANNED,
    fingerprint="f2",
    parameters={"lr": 2e-4, "iters": 5},
    planned={"lr": 1e-4, "iters": 9},
)


def noted(attempt: int, loss: float) -> events.MetricsNoted:
    return events.MetricsNoted(
        job="a", attempt=attempt, run=0, step=7, total=9, values={"loss": loss}
    )


def replanned(spec: JobSpec = OTHER) -> SessionState:
    """A first attempt failed; a person changed values."""
    state = started(plan(PLANNED))
    run(state, "a")
    happen(state, noted(1, 3.0), ended("a"))
    happen(state, events.JobEnded(job="a", state=JobState.FAILED))
    reason = why("other_overrides", overrides="lr=2e-4")
    happen(state, events.JobReplanned(job="a", spec=spec, why=reason))
    happen(state, events.JobRevived(job="a", why=why("revived_by", by="person")))
    return state


def tried_twice() -> JobRecord:
    state = replanned()
    run(state, "a", 2)
    happen(state, noted(2, 2.0))
    return state.jobs["a"]


def test_each_attempt_has_the_values_it_ran_with_and_its_own_metrics() -> None:
    record = tried_twice()
    values = [record.values_of(attempt) for attempt in record.attempts]
    assert values == [{"lr": 1e-4, "iters": 9}, {"lr": 2e-4, "iters": 5}]
    assert record.list_changed_keys == ("lr", "iters")
    found = [record.find_noted(attempt) for attempt in record.attempts]
    assert [one.values["loss"] for one in found if one] == [3.0, 2.0]


def test_metrics_of_other_values_are_not_the_job_s() -> None:
    other = replanned().jobs["a"]
    assert (other.noted, other.is_doing_other_work) == (None, True)
    limit = replace(PLANNED.resources, time_limit_seconds=60.0)
    same = replanned(replace(PLANNED, resources=limit)).jobs["a"]
    assert same.noted is not None
    assert not same.is_doing_other_work


def test_back_at_the_plan_s_values_the_attempt_between_keeps_its_own() -> None:
    state = replanned()
    run(state, "a", 2)
    happen(state, ended("a", 2), events.JobEnded(job="a", state=JobState.FAILED))
    reason = why("other_overrides", overrides="lr=1e-4")
    happen(state, events.JobReplanned(job="a", spec=PLANNED, why=reason))
    record = state.jobs["a"]
    values = [record.values_of(attempt) for attempt in record.attempts]
    assert values == [{"lr": 1e-4}, {"lr": 2e-4, "iters": 5}]
    assert record.list_changed_keys == ("lr", "iters")


def test_what_is_done_has_the_fingerprint_of_the_attempt_that_did_it() -> None:
    state = replanned()
    run(state, "a", 2)
    happen(state, ended("a", 2, code=0))
    happen(state, events.JobEnded(job="a", state=JobState.COMPLETED))
    assert work_of(state, state.jobs["a"]).fingerprint == "f2"


FOLLOWER = job("b", 1, fingerprint="g", depends_on=("a",))


def completed(state: SessionState, name: str, number: int = 1) -> None:
    over = events.JobEnded(job=name, state=JobState.COMPLETED)
    happen(state, ended(name, number, code=0), over)


def failed(state: SessionState, name: str) -> None:
    happen(state, ended(name), events.JobEnded(job=name, state=JobState.FAILED))


def again(state: SessionState, spec: JobSpec, *, from_checkpoint: bool = True) -> None:
    reason = why("revived_by", by="person")
    revived = events.JobRevived(
        job=spec.name, why=reason, from_checkpoint=from_checkpoint
    )
    happen(
        state, events.JobReplanned(job=spec.name, spec=spec, why=reason), revived, t=300
    )


def upstream_then_follower() -> SessionState:
    """A job failed, and its follower runs from the checkpoint that it left."""
    state = started(plan(PLANNED, FOLLOWER))
    run(state, "a", t=200)
    failed(state, "a")
    run(state, "b", t=250)
    return state


def bring_back_with_other_values(state: SessionState) -> None:
    again(state, OTHER)
    run(state, "a", 2, t=310)
    completed(state, "a", 2)


def test_what_is_done_names_the_work_of_the_attempt_that_it_built_on() -> None:
    state = upstream_then_follower()
    bring_back_with_other_values(state)
    completed(state, "b")
    assert work_of(state, state.jobs["b"]).upstream_work == {"a": "f1"}


@pytest.mark.parametrize(
    ("continues", "built_on"), [(True, "f1"), (False, "f2")], ids=["continues", "anew"]
)
def test_an_attempt_that_continues_builds_on_what_the_first_read(
    *, continues: bool, built_on: str
) -> None:
    state = upstream_then_follower()
    failed(state, "b")
    bring_back_with_other_values(state)
    again(state, FOLLOWER, from_checkpoint=continues)
    run(state, "b", 2, t=320)
    completed(state, "b", 2)
    assert work_of(state, state.jobs["b"]).upstream_work == {"a": built_on}


def test_a_follower_of_other_values_is_not_done_for_a_plan_with_those_values() -> None:
    state = upstream_then_follower()
    completed(state, "b")
    follower = work_of(state, state.jobs["b"])
    bring_back_with_other_values(state)
    found = {"a": work_of(state, state.jobs["a"]), "b": follower}
    report = done_before(plan(replace(OTHER, planned=None), FOLLOWER), found)
    assert (set(report.done), report.upstream) == ({"a"}, ("b",))


def test_what_an_earlier_session_did_is_known_by_its_own_work() -> None:
    done = DoneWork(job="a", session="old", mark="old@1", fingerprint="f0", at=1.0)
    state = started(plan(PLANNED, FOLLOWER))
    happen(state, events.DoneFound(works=(done,)))
    run(state, "b")
    completed(state, "b")
    assert work_of(state, state.jobs["b"]).upstream_work == {"a": "f0"}
