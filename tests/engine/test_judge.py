"""What counts as the end of a run, and why it ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine import report_reducer as judge
from autoexp_tui.engine.executor_port import (
    BeginRecord,
    ExitRecord,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.events import events
from autoexp_tui.model.event import Event
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Outcome, why
from tests.model.builders import ended, happen, job, plan, run, started, submit_event

BEGUN = BeginRecord(run=0, began_at=1.0)


def running(*happened: Event, cancel: Cause | None = None) -> JobRecord:
    """A job `a` that runs, and what happens then."""
    state = started(plan(job("a")))
    run(state, "a")
    effect = CancelTasks(tasks=(("a", 1),))
    given: dict[str, Any] = {"effect_id": "e9", "effect": effect, "cause": cancel}
    if cancel:
        happened = (events.EffectOrdered(why=why(cancel.value), **given),)
    happen(state, *happened)
    return state.jobs["a"]


def report(phase: TaskPhase = TaskPhase.RUNNING, **fields: Any) -> TaskReport:
    return TaskReport(job="a", attempt=1, phase=phase, **fields)


def exited(code: int | None = 0, signal: int | None = None, **more: Any) -> ExitRecord:
    return ExitRecord(run=0, ended_at=9.0, exit_code=code, signal=signal, **more)


def end(
    record: ExitRecord | None, ordered: Cause | None = None, tail: str = "", **said: Any
) -> events.AttemptEnded:
    told = report(exited=record, **said)
    return judge.decide_end(running(cancel=ordered), told, 10.0, tail=tail)


# Their own kill for a stall: a run that ended well before it has completed.
WELL: Final = exited(0, asked=False)
STALL = Cause.STALL


@pytest.mark.parametrize(
    ("record", "ordered", "said", "outcome", "cause"),
    [
        (exited(0), None, None, "COMPLETED", None),
        (exited(127, note="no cmd"), None, None, "FAILED", "exit_code"),
        (exited(None, 9, note="no cmd"), None, None, "FAILED", "signal"),
        (exited(0), Cause.USER, None, "CANCELLED", "user"),
        (exited(0), Cause.CANCEL_CONDITION, None, "CANCELLED", "cancel_condition"),
        (exited(0), Cause.NAN, None, "FAILED", "nan"),
        (exited(0), STALL, None, "FAILED", "stall"),
        (WELL, Cause.USER, None, "CANCELLED", "user"),
        (WELL, Cause.CANCEL_CONDITION, None, "CANCELLED", "cancel_condition"),
        (WELL, Cause.NAN, None, "FAILED", "nan"),
        (WELL, Cause.KILL_CRITERION, None, "FAILED", "kill_criterion"),
        (WELL, STALL, None, "COMPLETED", None),
        (WELL, STALL, Cause.USER, "COMPLETED", None),
        (replace(WELL, asked=True), STALL, None, "FAILED", "stall"),
        (replace(WELL, asked=None), STALL, None, "FAILED", "stall"),
        (replace(WELL, exit_code=1), STALL, None, "FAILED", "stall"),
        (replace(WELL, exit_code=None, signal=9), STALL, None, "FAILED", "stall"),
    ],
)
def test_the_exit_record_and_our_own_orders_give_the_end(
    record: ExitRecord,
    ordered: Cause | None,
    said: Cause | None,
    outcome: str,
    cause: str | None,
) -> None:
    told = end(record, ordered, cause=said)
    assert (told.outcome, told.cause) == (outcome, cause)
    if record.note:
        assert told.why is not None
        assert (told.why.code, told.why.arg("note")) == (cause, "no cmd")
    if record is WELL and ordered is STALL:
        assert told.why is not None
        assert told.why.code == "well_before_the_kill"


@pytest.mark.parametrize(
    "cause", [Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.NODE_FAIL, Cause.PREEMPTED]
)
def test_what_the_executor_says_sets_the_cause_even_over_exit_0(cause: Cause) -> None:
    told = end(exited(0), cause=cause, rerun=True)
    assert (told.outcome, told.cause) == (Outcome.FAILED, cause)
    assert told.rerun is (cause is Cause.NODE_FAIL)
    assert end(WELL, STALL, cause=cause).outcome is Outcome.FAILED
    assert not end(WELL, Cause.NAN, cause=cause, rerun=True).rerun


KILLED = exited(None, 9, asked=False)
OF_SLURM = "step 3\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch\n"


@pytest.mark.parametrize(
    ("record", "tail"),
    [
        (KILLED, OF_SLURM),
        (KILLED, "slurmstepd: error: StepId=7.0 exceeded memory limit (9 > 8), killed"),
        (KILLED, "slurmstepd: error: Exceeded job memory limit"),
        (KILLED, "[1.2] Out of memory: Killed process 4711 (python) total-vm:1kB"),
        (
            replace(KILLED, exit_code=137, signal=None),
            "Some of them may have been killed by the cgroup out-of-memory handler.",
        ),
        (replace(KILLED, oom_kills=1), ""),
    ],
)
def test_a_kill_for_memory_is_told_by_its_text_or_the_kernels_count(
    record: ExitRecord, tail: str
) -> None:
    told = end(record, tail=tail)
    assert (told.outcome, told.cause) == (Outcome.FAILED, Cause.OUT_OF_MEMORY)
    others: list[dict[str, Any]] = [  # any other end is no kill for memory
        {"asked": True},
        {"exit_code": 1, "signal": None},
        {"signal": 11, "oom_kills": 1},
        {"exit_code": 0, "signal": None, "oom_kills": 1},
    ]
    for other in others:
        found = end(replace(KILLED, **other), tail=OF_SLURM)
        assert found.cause is not Cause.OUT_OF_MEMORY
    assert end(KILLED, tail="CUDA out of memory was caught\n").cause is Cause.SIGNAL


FORGED = "exit.0.json was not written by its supervisor"
REMOVED = "the records of its run were removed"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"began": BEGUN}, why("lost", seconds=9.0)),
        ({}, why("lost_records", what=REMOVED)),
        ({"began": BEGUN, "tampering": FORGED}, why("lost_records", what=FORGED)),
    ],
)
def test_a_lost_run_says_what_became_of_its_records(
    fields: dict[str, Any], reason: object
) -> None:
    told = end(None, phase=TaskPhase.ENDED, gone_for=9.0, **fields)
    assert (told.outcome, told.why) == (Outcome.LOST, reason)


@pytest.mark.parametrize(
    ("phase", "gone_for", "lost"),
    [
        (TaskPhase.ENDED, 4.0, False),
        (TaskPhase.ENDED, 5.0, True),
        (TaskPhase.UNKNOWN, 1e9, False),  # words that we do not know
        (TaskPhase.QUEUED, 1e9, False),
    ],
)
def test_a_task_without_trace_is_lost_only_after_the_grace(
    phase: TaskPhase, gone_for: float, lost: bool
) -> None:
    gone = report(phase, gone_for=gone_for)
    assert judge.has_ended(running(), gone, lost_after_seconds=5.0) is lost


def test_a_task_that_is_sent_again_is_not_lost_to_a_look_from_before() -> None:
    state = started(plan(job("a")))
    first = submit_event("a", 1)
    taken = events.SubmissionAccepted(
        token="token-a-1", executor_ids=("x1",), submitted_at=1.0
    )
    happen(state, events.JobsReleased(jobs=("a",)), first, taken)
    happen(state, replace(first, effect_id="e9"))
    gone = report(TaskPhase.ENDED, gone_for=400.0, unclaimed=True)
    assert not judge.has_ended(state.jobs["a"], gone, lost_after_seconds=300.0)


GONE = events.AttemptEnded(job="a", attempt=1, outcome=Outcome.LOST, cause=Cause.LOST)
FAILED = events.JobEnded(job="a", state=JobState.FAILED)


@pytest.mark.parametrize(
    ("happened", "record", "counts"),
    [
        ([events.RunBegan(job="a", attempt=1, run=1, began_at=5.0)], exited(1), False),
        ([GONE, events.JobEnded(job="a", state=JobState.LOST)], exited(0), True),
        ([ended("a"), FAILED], exited(), False),
    ],
    ids=["of an earlier run", "late, of a lost attempt", "of one that ended"],
)
def test_an_exit_record_ends_its_own_run_once_and_a_run_begins_once(
    happened: list[Event], record: ExitRecord, counts: bool
) -> None:
    a = running(*happened)
    assert judge.has_ended(a, report(exited=record), 5.0) is counts
    assert judge.find_begin(a, report(began=BEGUN)) is None
