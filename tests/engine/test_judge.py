from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Outcome, why
from tests.model.builders import ended, happen, job, plan, run, started, submit_event


def running(cancel: Cause | None = None) -> JobRecord:
    state = started(plan(job("a")))
    run(state, "a")
    if cancel:
        order = events.EffectOrdered(
            effect_id="e9",
            effect=CancelTasks(tasks=(("a", 1),)),
            why=why(cancel.value),
            cause=cancel,
        )
        happen(state, order)
    return state.jobs["a"]


def report(**fields: Any) -> TaskReport:
    given: dict[str, Any] = {
        "job": "a",
        "attempt": 1,
        "phase": TaskPhase.RUNNING,
        **fields,
    }
    return TaskReport(**given)


def exited(code: int | None = 0, signal: int | None = None, run: int = 0) -> ExitRecord:
    return ExitRecord(run=run, ended_at=9.0, exit_code=code, signal=signal)


@pytest.mark.parametrize(
    ("record", "outcome", "cause"),
    [
        (exited(0), Outcome.COMPLETED, None),
        (exited(3), Outcome.FAILED, Cause.EXIT_CODE),
        (exited(None, 9), Outcome.FAILED, Cause.SIGNAL),
    ],
)
def test_the_exit_record_gives_code_and_end(
    record: ExitRecord, outcome: Outcome, cause: Cause | None
) -> None:
    end = judge.decide_end(running(), report(exited=record), 10.0)
    assert (end.outcome, end.cause) == (outcome, cause)


@pytest.mark.parametrize(
    "cause", [Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.NODE_FAIL, Cause.PREEMPTED]
)
def test_what_the_executor_says_sets_the_cause_even_over_exit_0(cause: Cause) -> None:
    end = judge.decide_end(running(), report(exited=exited(0), cause=cause), 10.0)
    assert (end.outcome, end.cause) == (Outcome.FAILED, cause)


@pytest.mark.parametrize(
    ("ordered", "outcome"),
    [
        (Cause.USER, Outcome.CANCELLED),
        (Cause.CANCEL_CONDITION, Outcome.CANCELLED),
        (Cause.NAN, Outcome.FAILED),
        (Cause.STALL, Outcome.FAILED),
    ],
)
def test_our_own_cancels_are_our_own_record(ordered: Cause, outcome: Outcome) -> None:
    end = judge.decide_end(running(ordered), report(exited=exited(0)), 10.0)
    assert (end.outcome, end.cause) == (outcome, ordered)


# ------------------------------------------------------------------------------- memory
KILLED = ExitRecord(run=0, ended_at=9.0, exit_code=None, signal=9, asked=False)
OF_SLURM = "step 3\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch\n"


@pytest.mark.parametrize(
    "tail",
    [
        OF_SLURM,
        "slurmstepd: error: StepId=7.0 exceeded memory limit (12 > 10), being killed",
        "slurmstepd: error: Exceeded job memory limit",
        "[1.2] Out of memory: Killed process 4711 (python) total-vm:1kB",
        "Some of them may have been killed by the cgroup out-of-memory handler.",
    ],
)
def test_a_kill_for_memory_is_told_by_its_text(tail: str) -> None:
    for record in (KILLED, replace(KILLED, exit_code=137, signal=None)):
        end = judge.decide_end(running(), report(exited=record), 10.0, tail=tail)
        assert (end.outcome, end.cause) == (Outcome.FAILED, Cause.OUT_OF_MEMORY)


def test_a_kill_for_memory_is_told_by_the_kernels_count() -> None:
    record = replace(KILLED, oom_kills=1)
    end = judge.decide_end(running(), report(exited=record), 10.0)
    assert end.cause is Cause.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("record", "tail"),
    [
        (KILLED, "CUDA out of memory was caught, going on\n"),
        (replace(KILLED, asked=True), OF_SLURM),
        (replace(KILLED, exit_code=1, signal=None), OF_SLURM),
        (replace(KILLED, signal=11, oom_kills=1), OF_SLURM),
        (replace(KILLED, exit_code=0, signal=None, oom_kills=1), OF_SLURM),
    ],
    ids=["no such text", "asked to end", "another code", "another signal", "exit 0"],
)
def test_any_other_end_is_no_kill_for_memory(record: ExitRecord, tail: str) -> None:
    end = judge.decide_end(running(), report(exited=record), 10.0, tail=tail)
    assert end.cause is not Cause.OUT_OF_MEMORY


# --------------------------------------------------------------- records of other hands
def lost(**fields: Any) -> events.AttemptEnded:
    gone = report(phase=TaskPhase.ENDED, gone_for=9.0, **fields)
    return judge.decide_end(running(), gone, 10.0)


BEGUN = BeginRecord(run=0, began_at=1.0)


def test_a_run_without_a_trace_is_lost() -> None:
    end = lost(began=BEGUN)
    assert end.why == why("lost", seconds=9.0)


def test_a_lost_run_whose_records_were_removed_says_so() -> None:
    end = lost()
    assert end.outcome is Outcome.LOST
    assert end.why == why("lost_records", what="the records of its run were removed")


def test_a_lost_run_whose_records_were_forged_says_so() -> None:
    end = lost(began=BEGUN, tampering="exit.0.json was not written by its supervisor")
    assert end.why is not None
    assert end.why.code == "lost_records"


UNASKED = ExitRecord(run=0, ended_at=9.0, exit_code=0, asked=False)


@pytest.mark.parametrize("cause", [None, Cause.USER])
def test_a_run_that_ended_well_before_its_kill_for_a_stall_has_completed(
    cause: Cause | None,
) -> None:
    told = report(exited=UNASKED, cause=cause)
    end = judge.decide_end(running(Cause.STALL), told, 10.0)
    assert (end.outcome, end.cause) == (Outcome.COMPLETED, None)
    assert end.why is not None
    assert end.why.code == "well_before_the_kill"


@pytest.mark.parametrize(
    "record",
    [
        replace(UNASKED, asked=True),
        replace(UNASKED, asked=None),
        replace(UNASKED, exit_code=1),
        replace(UNASKED, exit_code=None, signal=9),
    ],
    ids=["asked", "unknown", "failed", "killed"],
)
def test_any_other_end_of_a_run_killed_for_a_stall_is_a_stall(
    record: ExitRecord,
) -> None:
    end = judge.decide_end(running(Cause.STALL), report(exited=record), 10.0)
    assert (end.outcome, end.cause) == (Outcome.FAILED, Cause.STALL)


@pytest.mark.parametrize(
    "ordered",
    [Cause.USER, Cause.CANCEL_CONDITION, Cause.NAN, Cause.KILL_CRITERION],
)
def test_a_good_end_does_not_take_back_other_orders_of_ours(ordered: Cause) -> None:
    end = judge.decide_end(running(ordered), report(exited=UNASKED), 10.0)
    assert end.cause is ordered


@pytest.mark.parametrize(
    "cause", [Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.NODE_FAIL, Cause.PREEMPTED]
)
def test_what_the_executor_did_to_a_stalled_run_is_no_good_end(cause: Cause) -> None:
    told = report(exited=UNASKED, cause=cause)
    end = judge.decide_end(running(Cause.STALL), told, 10.0)
    assert end.outcome is Outcome.FAILED


@pytest.mark.parametrize(("ordered", "rerun"), [(None, True), (Cause.NAN, False)])
def test_what_we_ended_ourselves_is_not_run_again(
    ordered: Cause | None, rerun: bool
) -> None:
    told = report(phase=TaskPhase.ENDED, cause=Cause.NODE_FAIL, rerun=True)
    assert judge.decide_end(running(ordered), told, 10.0).rerun is rerun


def test_a_task_without_trace_is_lost_only_after_the_grace() -> None:
    gone = report(phase=TaskPhase.ENDED, gone_for=4.0)
    assert not judge.has_ended(running(), gone, lost_after_seconds=5.0)
    assert judge.has_ended(running(), gone, lost_after_seconds=4.0)
    assert judge.decide_end(running(), gone, 10.0).outcome is Outcome.LOST


def test_a_task_that_is_sent_again_is_not_lost_to_a_look_from_before() -> None:
    state = started(plan(job("a")))
    first = submit_event("a", 1)
    taken = events.SubmissionAccepted(
        token="token-a-1", executor_ids=("x1",), submitted_at=1.0
    )
    happen(state, events.JobsReleased(jobs=("a",)), first, taken)
    happen(state, replace(first, effect_id="e9"))
    gone = report(phase=TaskPhase.ENDED, gone_for=400.0, unclaimed=True)
    assert not judge.has_ended(state.jobs["a"], gone, lost_after_seconds=300.0)


@pytest.mark.parametrize("phase", [TaskPhase.UNKNOWN, TaskPhase.QUEUED])
def test_words_that_we_do_not_know_never_end_an_attempt(phase: TaskPhase) -> None:
    odd = report(phase=phase, gone_for=1e9)
    assert not judge.has_ended(running(), odd, lost_after_seconds=5.0)


def test_the_exit_of_an_earlier_run_does_not_end_a_later_one() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    happen(state, events.RunBegan(job="a", attempt=1, run=1, began_at=5.0))
    old = report(exited=exited(1, run=0))
    assert not judge.has_ended(state.jobs["a"], old, 5.0)


def test_a_run_that_is_known_begins_only_once() -> None:
    began = report(began=BeginRecord(run=0, began_at=1.0))
    assert judge.find_begin(running(), began) is None


def test_a_late_exit_record_of_a_lost_attempt_counts() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    lost = events.AttemptEnded(
        job="a", attempt=1, outcome=Outcome.LOST, cause=Cause.LOST
    )
    happen(state, lost, events.JobEnded(job="a", state=JobState.LOST))
    late = report(exited=exited(0))
    assert judge.has_ended(state.jobs["a"], late, 5.0)


def test_an_attempt_that_ended_is_not_ended_again() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    happen(state, ended("a"), events.JobEnded(job="a", state=JobState.FAILED))
    assert not judge.has_ended(state.jobs["a"], report(exited=exited(0)), 5.0)


@pytest.mark.parametrize(
    ("exited", "code"),
    [
        (ExitRecord(run=0, ended_at=1.0, exit_code=127, note="no cmd"), "exit_code"),
        (
            ExitRecord(run=0, ended_at=1.0, exit_code=None, signal=9, note="no cmd"),
            "signal",
        ),
    ],
)
def test_what_the_wrapper_noted_is_part_of_the_reason(
    exited: ExitRecord, code: str
) -> None:
    told = judge.decide_end(running(), report(exited=exited), 2.0).why
    assert told is not None
    assert (told.code, told.arg("note")) == (code, "no cmd")
