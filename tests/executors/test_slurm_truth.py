"""Records, queue and accounting weighed against each other: a test a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.engine.executor_port import BeginRecord, ExitRecord, Task, TaskPhase
from autoexp_tui.executors.slurm.judgement import (
    QUICK_SECONDS,
    SKEW_SECONDS,
    WORD_SECONDS,
    report,
)
from autoexp_tui.executors.slurm.task_memory import GRACE_SECONDS, TaskMemory
from autoexp_tui.executors.slurm.text import (
    AccountRow,
    QueueRow,
    Standing,
    parse_state,
)
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.attempt_records import AttemptRecords, Claim, Run, Void
from autoexp_tui.storage.processes import Identity

TASK = Task(
    job="a",
    attempt=1,
    command=("true",),
    cwd="/out/a",
    output_dir="/out/a",
    log_dir="/log/a",
    attempt_dir="/attempts/a/1",
    token="tok",
    executor_id="7",
)
NODE = Identity(host="n1", pid=5)
CLAIM = Claim(token="tok", executor_id="7", nonce="tok", claimed_at=4.0, process=NODE)
BEGUN = Run(
    began=BeginRecord(run=0, began_at=5.0, executor_id="7", host="n1"), process=NODE
)
NOTHING = AttemptRecords()
RUNS = AttemptRecords(claim=CLAIM, run=BEGUN)
LATER = 1e6


def exited(
    code: int | None = 0, signal: int | None = None, ending: str = ""
) -> AttemptRecords:
    record = ExitRecord(run=0, ended_at=9.0, exit_code=code, signal=signal)
    return AttemptRecords(claim=CLAIM, run=replace(BEGUN, exited=record, ending=ending))


def row(
    word: str, reason: str = "", nodes: str = "n1", starts_at: float | None = None
) -> QueueRow:
    state = parse_state(word)
    expected = 99.0 if state.standing is Standing.QUEUED else 4.0
    return QueueRow(
        id="7",
        raw_id="7",
        state=state,
        reason=reason,
        nodes=nodes,
        partition="main",
        starts_at=expected if starts_at is None else starts_at,
        ended_at=None,
        submitted_at=1.0,
        name="a-tok",
    )


def account(word: str, code: int = 0, signal: int = 0, nodes: str = "n1") -> AccountRow:
    return AccountRow(
        id="7",
        raw_id="7",
        state=parse_state(word),
        exit_code=code,
        signal=signal,
        submitted_at=1.0,
        ended_at=8.0,
        nodes=nodes,
        name="a-tok",
    )


def seen(records: AttemptRecords, **more: Any) -> TaskMemory:
    return TaskMemory(task=TASK, records=records, **more)


# ------------------------------------------------------------------------ still alive
@pytest.mark.parametrize("word", ["PENDING", "CONFIGURING", "REQUEUED"])
def test_what_the_queue_has_waiting_is_queued(word: str) -> None:
    found = report(seen(NOTHING, row=row(word, "Priority", nodes="")))
    assert found.phase is TaskPhase.QUEUED
    assert found.reason == "lower priority than other jobs in partition main"
    assert found.expected_at == 99.0


def test_what_has_a_node_but_no_begin_record_is_starting() -> None:
    found = report(seen(NOTHING, row=row("RUNNING")))
    assert (found.phase, found.reason) == (TaskPhase.QUEUED, "starting on n1")


@pytest.mark.parametrize("word", ["RUNNING", "COMPLETING"])
def test_what_has_begun_and_lives_in_the_queue_runs(word: str) -> None:
    found = report(seen(RUNS, row=row(word)))
    assert (found.phase, found.began, found.exited) == (
        TaskPhase.RUNNING,
        BEGUN.began,
        None,
    )


def test_an_unknown_word_is_alive_and_said() -> None:
    found = report(seen(RUNS, row=row("MELTING"), gone_for=LATER, over_for=LATER))
    assert found.phase is TaskPhase.UNKNOWN
    assert found.reason == "Slurm says MELTING: taken as alive"


def test_what_the_queue_was_not_asked_about_yet_is_queued_or_runs() -> None:
    assert report(seen(NOTHING, answered=False)).phase is TaskPhase.QUEUED
    assert report(seen(RUNS, answered=False)).phase is TaskPhase.RUNNING


def test_what_was_never_accepted_is_unknown_until_the_queue_answers() -> None:
    nameless = replace(TASK, executor_id="")
    found = report(TaskMemory(task=nameless, records=NOTHING, answered=False))
    assert found.phase is TaskPhase.UNKNOWN


def test_a_run_that_is_queued_again_is_requeued_and_has_not_ended() -> None:
    found = report(seen(exited(None, 15, "signal 15"), row=row("PENDING")))
    assert (found.phase, found.requeued, found.exited) == (TaskPhase.QUEUED, True, None)


def test_a_word_that_is_older_than_a_run_does_not_requeue_it() -> None:
    found = report(seen(RUNS, row=row("PENDING"), answered=False))
    assert (found.phase, found.requeued) == (TaskPhase.RUNNING, False)


def test_a_begun_run_that_the_queue_has_back_is_requeued() -> None:
    found = report(seen(RUNS, row=row("PENDING")))
    assert (found.phase, found.requeued) == (TaskPhase.QUEUED, True)


# ------------------------------------------------------------------ with exit record
def test_an_ended_run_is_judged_although_an_older_word_has_it_queued() -> None:
    old = seen(exited(0), row=row("PENDING"), answered=False, over_for=WORD_SECONDS)
    found = report(old)
    assert found.phase is TaskPhase.ENDED
    assert found.exited is not None


def test_exit_0_with_completed_is_success() -> None:
    found = report(seen(exited(0), row=row("COMPLETED"), over_for=1.0, gone_for=1.0))
    assert found.phase is TaskPhase.ENDED
    assert found.cause is None
    assert found.exited is not None
    assert found.exited.exit_code == 0


def test_the_exit_record_s_code_counts_and_not_the_queue_s_word() -> None:
    found = report(seen(exited(3), row=row("COMPLETED"), over_for=1.0))
    assert found.exited is not None
    assert (found.exited.exit_code, found.cause) == (3, None)


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("TIMEOUT", Cause.TIMEOUT),
        ("DEADLINE", Cause.TIMEOUT),
        ("OUT_OF_MEMORY", Cause.OUT_OF_MEMORY),
        ("CANCELLED", Cause.USER),
    ],
)
def test_the_queue_s_last_word_is_the_cause_even_over_exit_0(
    word: str, cause: Cause
) -> None:
    for said in ({"row": row(word)}, {"account": account(word)}):
        found = report(seen(exited(0), over_for=1.0, **said))
        assert (found.phase, found.cause) == (TaskPhase.ENDED, cause)


def test_an_exit_record_waits_for_the_queue_s_word_while_the_job_lives() -> None:
    early = seen(exited(0), row=row("RUNNING"), over_for=WORD_SECONDS - 1)
    assert report(early).phase is TaskPhase.LEAVING
    assert report(early).exited is None


def test_an_exit_record_is_judged_alone_when_the_word_does_not_come() -> None:
    late = seen(exited(0), row=row("COMPLETING"), over_for=WORD_SECONDS)
    assert report(late).phase is TaskPhase.ENDED


def test_an_exit_record_is_judged_alone_when_the_queue_no_longer_answers() -> None:
    late = seen(exited(0), answered=False, over_for=WORD_SECONDS)
    assert report(late).phase is TaskPhase.ENDED


# ---------------------------------------------------------------- exit 0 by itself
def succeeded(**more: Any) -> AttemptRecords:
    """Exit 0 that nobody asked for, four seconds after the begin."""
    records = exited(0)
    assert records.run is not None
    assert records.run.exited is not None
    end = replace(records.run.exited, asked=False, oom_kills=0, **more)
    return replace(records, run=replace(records.run, exited=end))


def limited(seconds: float) -> Task:
    return replace(TASK, resources=Resources(time_limit_seconds=seconds))


@pytest.mark.parametrize("task", [TASK, limited(3600.0)], ids=["no limit", "far"])
@pytest.mark.parametrize("oom_kills", [0, None])
@pytest.mark.parametrize("word", ["RUNNING", "COMPLETING", None])
def test_a_plain_exit_0_waits_for_nobody(
    task: Task, oom_kills: int | None, word: str | None
) -> None:
    records = replace(succeeded(), claim=CLAIM)
    assert records.run is not None
    assert records.run.exited is not None
    end = replace(records.run.exited, oom_kills=oom_kills)
    records = replace(records, run=replace(records.run, exited=end))
    found = report(
        TaskMemory(task=task, records=records, row=row(word) if word else None)
    )
    assert (found.phase, found.cause) == (TaskPhase.ENDED, None)


def near_its_limit() -> TaskMemory:
    return TaskMemory(task=limited(63.0), records=succeeded(), row=row("RUNNING"))


def after_a_kill_for_memory() -> TaskMemory:
    records = succeeded()
    assert records.run is not None
    assert records.run.exited is not None
    end = replace(records.run.exited, oom_kills=1)
    return seen(
        replace(records, run=replace(records.run, exited=end)), row=row("RUNNING")
    )


@pytest.mark.parametrize("made", [near_its_limit, after_a_kill_for_memory])
def test_any_other_exit_0_waits_for_slurms_word(made: Callable[[], TaskMemory]) -> None:
    assert report(made()).phase is TaskPhase.LEAVING


def test_out_of_memory_over_a_plain_exit_0_is_a_late_cause() -> None:
    for said in ({"row": row("OUT_OF_MEMORY")}, {"account": account("OUT_OF_MEMORY")}):
        found = report(seen(succeeded(), over_for=1.0, **said))
        assert (found.cause, found.late_cause) == (None, Cause.OUT_OF_MEMORY)


BY_SIGNAL = (
    exited(None, 15, "signal 15"),
    exited(0, None, "signal 15"),
    exited(None, 9),
    exited(137),
    exited(143),
)
"""Ends that Slurm may explain otherwise: told to end, killed, or by a shell's code."""


@pytest.mark.parametrize("records", BY_SIGNAL)
@pytest.mark.parametrize("lacks", ["live", "answered", "accounted", "gone_for"])
def test_an_end_by_a_signal_waits_for_all_who_may_know_why(
    records: AttemptRecords, lacks: str
) -> None:
    silent = {"over_for": 299.0, "gone_for": GRACE_SECONDS}
    missing: dict[str, Any] = {
        "live": {"row": row("COMPLETING")},
        "answered": {"answered": False},
        "accounted": {"accounted": False},
        "gone_for": {"gone_for": GRACE_SECONDS - 1},
    }
    waits = seen(records, **{**silent, **missing[lacks]})
    assert report(waits).phase is TaskPhase.LEAVING
    assert report(replace(waits, over_for=300.0)).phase is TaskPhase.ENDED


@pytest.mark.parametrize("records", BY_SIGNAL)
def test_an_end_by_a_signal_is_judged_when_all_have_answered_without_a_word(
    records: AttemptRecords,
) -> None:
    heard = seen(records, over_for=GRACE_SECONDS, gone_for=GRACE_SECONDS)
    assert report(heard).phase is TaskPhase.ENDED


@pytest.mark.parametrize(
    "said", [{"row": row("FAILED")}, {"account": account("FAILED")}]
)
def test_an_end_by_a_signal_is_judged_with_the_last_word_of_anybody(
    said: dict[str, Any],
) -> None:
    found = report(seen(exited(None, 9), over_for=1.0, gone_for=1.0, **said))
    assert found.exited is not None
    assert (found.phase, found.cause, found.exited.signal) == (TaskPhase.ENDED, None, 9)


@pytest.mark.parametrize("code", [0, 1, 3, 139])
def test_an_end_by_a_code_waits_for_nobody_whom_the_queue_does_not_show(
    code: int,
) -> None:
    assert report(seen(exited(code), accounted=False)).phase is TaskPhase.ENDED


def test_a_run_that_was_told_to_end_by_our_cancel_has_ended() -> None:
    told = replace(exited(None, 15, "signal 15"), cancel_ordered=True)
    found = report(seen(told, over_for=1.0, gone_for=1.0))
    assert found.phase is TaskPhase.ENDED


@pytest.mark.parametrize("word", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_what_slurm_may_queue_again_has_ended_only_after_the_grace(word: str) -> None:
    told = exited(None, 15, "signal 15")
    found = seen(told, row=row(word), over_for=1.0, said_for=GRACE_SECONDS - 1)
    assert report(found).phase is TaskPhase.LEAVING
    late = report(replace(found, said_for=GRACE_SECONDS))
    assert (late.phase, late.cause) == (TaskPhase.ENDED, parse_state(word).cause)


# --------------------------------------------------------------- without exit record
def test_completed_without_a_record_waits_for_it_and_then_is_success() -> None:
    found = seen(RUNS, row=row("COMPLETED"), said_for=GRACE_SECONDS - 1)
    assert report(found).phase is TaskPhase.LEAVING
    late = report(replace(found, said_for=GRACE_SECONDS))
    assert late.exited is not None
    assert (late.exited.exit_code, late.cause) == (0, None)
    assert late.exited.note


@pytest.mark.parametrize("word", ["TIMEOUT", "OUT_OF_MEMORY"])
def test_a_last_word_without_a_record_waits_a_moment_for_it(word: str) -> None:
    found = seen(RUNS, row=row(word), said_for=QUICK_SECONDS - 1)
    assert report(found).phase is TaskPhase.LEAVING
    late = report(replace(found, said_for=QUICK_SECONDS))
    assert (late.phase, late.cause) == (TaskPhase.ENDED, parse_state(word).cause)


def test_a_lost_node_without_a_record_waits_for_a_requeue_and_then_is_node_fail() -> (
    None
):
    found = seen(RUNS, row=row("NODE_FAIL", "NodeDown"), said_for=QUICK_SECONDS)
    assert report(found).phase is TaskPhase.LEAVING
    late = report(replace(found, said_for=GRACE_SECONDS))
    assert (late.phase, late.cause) == (TaskPhase.ENDED, Cause.NODE_FAIL)


def test_failed_before_it_began_could_not_be_started() -> None:
    word = row("FAILED", "JobLaunchFailure", nodes="")
    found = report(seen(NOTHING, row=word, said_for=QUICK_SECONDS))
    assert found.cause is Cause.SUBMIT_ERROR
    assert "could not start it on the node" in found.reason
    assert "/log/a" in found.reason


@pytest.mark.parametrize(("code", "signal"), [(3, 0), (0, 9)])
def test_failed_without_a_record_is_as_accounting_says(code: int, signal: int) -> None:
    told = account("FAILED", code, signal)
    found = report(seen(RUNS, row=row("FAILED"), account=told, said_for=QUICK_SECONDS))
    assert found.exited is not None
    assert found.exited.signal == (signal or None)
    assert found.exited.exit_code == (None if signal else code)


def test_failed_without_a_record_and_without_accounting_is_failed() -> None:
    found = report(seen(RUNS, row=row("FAILED"), said_for=QUICK_SECONDS))
    assert (found.cause, found.reason) == (Cause.EXIT_CODE, "Slurm says FAILED")


LATER_START = 5.0 + SKEW_SECONDS + 1.0
"""By Slurm; the newest run began at 5."""


@pytest.mark.parametrize("word", ["FAILED", "COMPLETED"])
@pytest.mark.parametrize("records", [RUNS, exited(None, 9), exited(143)])
def test_slurms_word_on_a_later_start_does_not_end_the_run_that_began(
    word: str, records: AttemptRecords
) -> None:
    told = row(word, starts_at=LATER_START)
    found = seen(records, row=told, said_for=GRACE_SECONDS - 1)
    assert report(found).phase is TaskPhase.LEAVING
    assert "Slurm to start it again" in report(found).reason
    late = report(replace(found, said_for=GRACE_SECONDS))
    assert (late.phase, late.cause) == (TaskPhase.ENDED, Cause.NODE_FAIL)


def test_a_start_that_claimed_and_never_began_counts_as_well() -> None:
    told = row("FAILED", starts_at=LATER_START)
    found = seen(AttemptRecords(claim=CLAIM), row=told, said_for=QUICK_SECONDS)
    assert report(found).phase is TaskPhase.LEAVING


def test_the_end_of_another_job_is_not_a_later_start_of_the_run() -> None:
    """A second sending finds the claim taken, and leaves."""
    told = replace(row("COMPLETED", starts_at=LATER_START), id="9")
    found = report(seen(RUNS, row=told, said_for=GRACE_SECONDS))
    assert found.cause is None


def test_accounting_alone_tells_of_a_later_start_too() -> None:
    told = replace(account("FAILED", 1), started_at=LATER_START, ended_at=LATER_START)
    assert report(seen(RUNS, account=told)).phase is TaskPhase.LEAVING


def test_a_run_that_ended_by_itself_has_ended_whatever_start_came_later() -> None:
    told = row("COMPLETED", starts_at=LATER_START)
    found = report(seen(exited(3), row=told, said_for=1.0))
    assert found.phase is TaskPhase.ENDED
    assert found.exited is not None
    assert (found.exited.exit_code, found.cause) == (3, None)


def test_a_run_that_we_cancelled_is_not_started_again() -> None:
    told = row("FAILED", starts_at=LATER_START)
    records = replace(RUNS, cancel_ordered=True)
    found = report(seen(records, row=told, said_for=QUICK_SECONDS))
    assert found.phase is TaskPhase.ENDED


def test_clocks_of_node_and_controller_may_differ_a_little() -> None:
    told = row("FAILED", starts_at=5.0 + SKEW_SECONDS)
    found = report(seen(RUNS, row=told, said_for=QUICK_SECONDS))
    assert found.cause is Cause.EXIT_CODE


def test_cancelled_before_it_had_a_node_has_ended_at_once() -> None:
    found = report(seen(NOTHING, row=row("CANCELLED", "JobHeldUser", nodes="")))
    assert (found.phase, found.cause, found.reason) == (
        TaskPhase.ENDED,
        Cause.USER,
        "",
    )


def test_a_cancelled_task_of_a_waiting_array_leaves_no_trace() -> None:
    ordered = AttemptRecords(cancel_ordered=True)
    found = report(seen(ordered, gone_for=QUICK_SECONDS))
    assert (found.phase, found.cause) == (TaskPhase.ENDED, Cause.USER)


def test_without_a_word_of_anybody_it_is_gone_for_as_long_as_it_is() -> None:
    found = report(seen(RUNS, gone_for=12.0))
    assert (found.phase, found.cause, found.gone_for) == (TaskPhase.ENDED, None, 12.0)
    assert not found.unclaimed


def test_a_job_that_the_controller_forgot_before_it_began_is_unclaimed() -> None:
    assert report(seen(NOTHING, gone_for=12.0)).unclaimed


def test_a_claim_that_cannot_be_read_is_still_a_claim() -> None:
    damaged = AttemptRecords(damaged=("claim",))
    assert not report(seen(damaged, gone_for=12.0)).unclaimed


@pytest.mark.parametrize("word", ["PENDING", "RUNNING", "REQUEUED"])
def test_a_living_row_of_accounting_alone_is_a_ghost_and_proves_nothing(
    word: str,
) -> None:
    found = report(seen(NOTHING, account=account(word), gone_for=12.0))
    assert (found.phase, found.gone_for) == (TaskPhase.ENDED, 12.0)
    assert found.unclaimed


def test_the_queue_s_word_counts_more_than_accounting_which_trails_it() -> None:
    found = report(
        seen(RUNS, row=row("RUNNING"), account=account("NODE_FAIL"), gone_for=0.0)
    )
    assert found.phase is TaskPhase.RUNNING


def second_run(began_at: float, *, over: bool) -> AttemptRecords:
    """A run after a requeue, and its good end."""
    record = ExitRecord(run=1, ended_at=began_at + 5.0, exit_code=0)
    began = replace(BEGUN.began, run=1, began_at=began_at)
    run = replace(BEGUN, began=began, exited=record if over else None)
    return AttemptRecords(claim=CLAIM, run=run)


@pytest.mark.parametrize("word", ["PREEMPTED", "NODE_FAIL"])
def test_what_accounting_says_of_the_run_before_does_not_end_the_one_after_it(
    word: str,
) -> None:
    told = account(word)  # which ended at 8
    found = report(seen(second_run(30.0, over=True), account=told, gone_for=LATER))
    assert found.exited is not None
    assert (found.exited.exit_code, found.cause) == (0, None)
    found = report(seen(second_run(30.0, over=False), account=told, gone_for=12.0))
    assert (found.cause, found.gone_for) == (None, 12.0)


def test_what_accounting_says_of_the_last_run_ends_it() -> None:
    told = account("NODE_FAIL")
    found = report(seen(second_run(7.0, over=False), account=told, said_for=LATER))
    assert (found.phase, found.cause) == (TaskPhase.ENDED, Cause.NODE_FAIL)


# ------------------------------------------------------------------------- void, dup
@pytest.mark.parametrize(
    ("why", "cause"), [("cancelled", Cause.USER), ("failed", Cause.SUBMIT_ERROR)]
)
def test_a_void_attempt_has_ended_whatever_the_queue_says(
    why: str, cause: Cause
) -> None:
    void = Void(why=why, message="cannot open the log", at=4.0)
    records = AttemptRecords(claim=CLAIM, void=void)
    found = report(seen(records, row=row("RUNNING"), answered=False))
    assert (found.phase, found.cause) == (TaskPhase.ENDED, cause)
    assert found.reason == "cannot open the log"


def test_a_start_that_lost_the_claim_is_a_duplicate() -> None:
    other = replace(CLAIM, executor_id="6")
    records = AttemptRecords(claim=other, run=BEGUN, duplicates=("7",))
    assert report(seen(records, row=row("COMPLETED"))).duplicate


# ------------------------------------------------------------------------- properties
WORDS = st.sampled_from(
    (
        *("PENDING", "RUNNING", "COMPLETING", "COMPLETED", "FAILED", "CANCELLED"),
        *("TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "REQUEUED", "MELTING"),
    )
)
RECORDS = st.sampled_from(
    (
        *(NOTHING, AttemptRecords(cancel_ordered=True), RUNS, exited(0), exited(3)),
        exited(None, 15, "signal 15"),
    )
)
SECONDS = st.floats(0, 1000)


def test_a_last_word_is_as_old_as_its_hearing_not_as_the_absence() -> None:
    found = seen(RUNS, row=row("FAILED"), gone_for=LATER, said_for=QUICK_SECONDS - 1)
    assert report(found).phase is TaskPhase.LEAVING


@given(
    st.sampled_from([NOTHING, AttemptRecords(cancel_ordered=True), RUNS]),
    st.none() | WORDS.map(account),
    SECONDS,
    SECONDS,
)
def test_without_an_answer_nothing_without_an_exit_record_is_gone(
    records: AttemptRecords, said: AccountRow | None, over: float, gone: float
) -> None:
    found = report(
        seen(records, account=said, answered=False, over_for=over, gone_for=gone)
    )
    assert found.phase is not TaskPhase.ENDED


@given(RECORDS, WORDS.map(row), SECONDS)
def test_what_lives_in_the_queue_ends_only_by_its_own_exit_record(
    records: AttemptRecords, said: QueueRow, over: float
) -> None:
    evidence = seen(records, row=said, over_for=over)
    if evidence.live and records.exited is None:
        assert report(evidence).phase is not TaskPhase.ENDED


@given(
    RECORDS,
    st.none() | WORDS.map(row),
    st.none() | WORDS.map(account),
    st.booleans(),
    SECONDS,
    SECONDS,
)
def test_only_what_has_ended_has_an_end_and_a_cause(
    records: AttemptRecords,
    said: QueueRow | None,
    told: AccountRow | None,
    answered: bool,
    over: float,
    gone: float,
) -> None:
    found = report(
        seen(
            records,
            row=said,
            account=told,
            answered=answered,
            over_for=over,
            gone_for=gone,
        )
    )
    if found.phase is not TaskPhase.ENDED:
        assert (found.exited, found.cause, found.unclaimed) == (None, None, False)


@given(WORDS.map(row), st.none() | WORDS.map(account), SECONDS)
def test_more_time_never_brings_an_ended_task_back(
    said: QueueRow, told: AccountRow | None, gone: float
) -> None:
    early = seen(RUNS, row=said, account=told, gone_for=gone)
    if report(early).phase is TaskPhase.ENDED:
        late = report(replace(early, gone_for=gone + 100))
        assert (late.phase, late.cause) == (TaskPhase.ENDED, report(early).cause)
