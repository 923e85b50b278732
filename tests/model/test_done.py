"""Which jobs of a plan need not run, by what earlier sessions left; and what an attempt
leaves: each keeps the values that it ran with, and what came of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.events import events
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.resubmission import done_before, is_of_attempt, work_of
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState, why
from tests.model.builders import ended, happen, job, plan, run, started


def made(name: str, *after: str, **fields: Any) -> JobSpec:
    given: dict[str, Any] = {"fingerprint": f"f-{name}", "depends_on": after}
    return job(name, **{**given, **fields})


def left(spec: JobSpec, mark: str = "s1@1", **fields: Any) -> DoneWork:
    """What `spec` left when a session ran it with all that it depends on."""
    given: dict[str, Any] = {
        "job": spec.name,
        "session": mark.partition("@")[0],
        "mark": mark,
        "fingerprint": spec.fingerprint,
        "at": 5.0,
        "upstream": dict.fromkeys(spec.depends_on, mark),
    }
    return DoneWork(**{**given, **fields})


A, B, C = made("a"), made("b", "a"), made("c", "b")
ALL = {spec.name: left(spec) for spec in (A, B, C)}
OTHER_A, X, BARE = made("a", fingerprint="other"), made("x"), made("a", fingerprint="")
DONE = ("abc", "", "")


@pytest.mark.parametrize(
    ("jobs", "found", "done", "changed", "upstream"),
    [
        ((A, B, C), ALL, *DONE),
        ((A, B, C), {}, "", "", ""),
        ((OTHER_A, B, C), ALL, "", "a", "bc"),
        ((OTHER_A, B, X), {**ALL, "x": left(X)}, "x", "a", "b"),
        # results of another session than was built on, of the same id, too
        ((A, B, C), {**ALL, "a": left(A, "s2@2")}, "a", "", "bc"),
        ((A, B), {**ALL, "a": left(A, "s1@999")}, "a", "", "b"),
        ((A, B, C), {**ALL, "c": left(C, "s2@2", upstream={"b": "s1@1"})}, *DONE),
        # an upstream that the job did not have then
        ((A, B), {**ALL, "b": left(B, upstream={})}, "a", "", "b"),
        # results of other values in the same session, and of the same
        ((A, B, C), {**ALL, "b": left(B, upstream_work={"a": "other"})}, "a", "", "bc"),
        ((A, B), {**ALL, "b": left(B, upstream_work={"a": "f-a"})}, "ab", "", ""),
        ((A,), {"a": left(A, job="b")}, "", "a", ""),  # another job's word
        ((BARE,), {"a": left(BARE)}, "", "a", ""),
        ((B, C), ALL, "", "", ""),  # of a plan that has not what it builds on
    ],
)
def test_a_job_is_done_when_its_work_and_all_that_it_builds_on_stand(
    jobs: tuple[JobSpec, ...],
    found: dict[str, DoneWork],
    done: str,
    changed: str,
    upstream: str,
) -> None:
    report = done_before(plan(*jobs), found)
    assert sorted(report.done) == list(done)
    assert (report.changed, report.upstream) == (tuple(changed), tuple(upstream))


def test_a_word_outlives_a_late_submission_of_its_own_attempt() -> None:
    word = left(made("a"), attempts=2)
    told = [is_of_attempt(word, word.session, attempt=number) for number in (1, 2, 3)]
    assert told == [True, True, False]
    assert not is_of_attempt(word, "another", attempt=1)


PLANNED = job("a", fingerprint="f1", parameters={"lr": 1e-4})
OTHER = replace(
    PLANNED,
    fingerprint="f2",
    parameters={"lr": 2e-4, "iters": 5},
    planned={"lr": 1e-4, "iters": 9},
)
FOLLOWER = job("b", 1, fingerprint="g", depends_on=("a",))


def note(state: SessionState, attempt: int, loss: float) -> None:
    noted = events.MetricsNoted(
        job="a", attempt=attempt, run=0, step=7, total=9, values={"loss": loss}
    )
    happen(state, noted)


def end(state: SessionState, name: str, number: int = 1, code: int = 1) -> None:
    over = JobState.FAILED if code else JobState.COMPLETED
    job_ended = events.JobEnded(job=name, state=over)
    happen(state, ended(name, number, code), job_ended)


def bring_back(state: SessionState, spec: JobSpec, *, continues: bool = True) -> None:
    reason = why("revived_by", by="person")
    happen(
        state,
        events.JobReplanned(job=spec.name, spec=spec, why=reason),
        events.JobRevived(job=spec.name, why=reason, from_checkpoint=continues),
        t=300,
    )


def test_each_attempt_has_the_values_it_ran_with_and_its_own_metrics() -> None:
    state = started(plan(PLANNED, FOLLOWER))
    run(state, "a")
    note(state, 1, 3.0)
    end(state, "a")
    bring_back(state, OTHER)
    run(state, "a", 2)
    note(state, 2, 2.0)
    record = state.jobs["a"]
    values = [record.values_of(attempt) for attempt in record.attempts]
    assert values == [{"lr": 1e-4, "iters": 9}, {"lr": 2e-4, "iters": 5}]
    assert record.list_changed_keys == ("lr", "iters")
    found = [record.find_noted(attempt) for attempt in record.attempts]
    assert [one.values["loss"] for one in found if one] == [3.0, 2.0]
    end(state, "a", 2)
    bring_back(state, PLANNED)  # the attempt between keeps its own
    record = state.jobs["a"]
    values = [record.values_of(attempt) for attempt in record.attempts]
    assert values == [{"lr": 1e-4}, {"lr": 2e-4, "iters": 5}]
    assert record.list_changed_keys == ("lr", "iters")


@pytest.mark.parametrize(("continues", "built_on"), [(True, "f1"), (False, "f2")])
def test_an_attempt_that_continues_builds_on_what_the_first_read(
    *, continues: bool, built_on: str
) -> None:
    state = started(plan(PLANNED, FOLLOWER))
    run(state, "a", t=200)
    end(state, "a")
    run(state, "b", t=250)
    end(state, "b")
    bring_back(state, OTHER)
    run(state, "a", 2, t=310)
    end(state, "a", 2, code=0)
    bring_back(state, FOLLOWER, continues=continues)
    run(state, "b", 2, t=320)
    end(state, "b", 2, code=0)
    assert work_of(state, state.jobs["b"]).upstream_work == {"a": built_on}
