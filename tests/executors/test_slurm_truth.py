"""Records, queue and accounting weighed against each other, and what of a task is
remembered: a word on an end that was heard once stays true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.engine.executor_port import (
    BeginRecord,
    ExitRecord,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.executors.slurm.judgement import (
    GRACE_SECONDS,
    QUICK_SECONDS,
    SKEW_SECONDS,
    WORD_SECONDS,
    TaskMemory,
    report,
)
from autoexp_tui.executors.slurm.text import AccountRow, QueueRow, parse_state
from autoexp_tui.executors.slurm.watch import QueueWatch
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.attempt_records import AttemptRecords, Claim, Run, Void
from autoexp_tui.storage.processes import Identity
from tests.executors.slurm_scripted import ScriptedCommands
from tests.support.tasks import make_task

TASK = make_task("", token="tok", executor_id="7")
NODE = Identity(host="n1", pid=5)
CLAIM = Claim(token="tok", executor_id="7", nonce="tok", claimed_at=4.0, process=NODE)
BEGAN = BeginRecord(run=0, began_at=5.0, executor_id="7", host="n1")
BEGUN = Run(began=BEGAN, process=NODE)
NOTHING, ORDERED = AttemptRecords(), AttemptRecords(cancel_ordered=True)
RUNS = AttemptRecords(claim=CLAIM, run=BEGUN)
LATER = 1e6
LATER_START = 5.0 + SKEW_SECONDS + 1.0
"""By Slurm; the newest run began at 5."""
QUEUED, RUNNING, ENDED = TaskPhase.QUEUED, TaskPhase.RUNNING, TaskPhase.ENDED
LEAVING, UNKNOWN = TaskPhase.LEAVING, TaskPhase.UNKNOWN


def exited(
    code: int | None = 0, signal: int | None = None, ending: str = "", **more: Any
) -> AttemptRecords:
    record = ExitRecord(run=0, ended_at=9.0, exit_code=code, signal=signal, **more)
    return AttemptRecords(claim=CLAIM, run=replace(BEGUN, exited=record, ending=ending))


TERM = exited(None, 15, "signal 15")


def plain(oom_kills: int | None = 0) -> AttemptRecords:
    """Exit 0 that nobody asked for, four seconds after the begin."""
    return exited(0, asked=False, oom_kills=oom_kills)


def second_run(began_at: float, *, over: bool) -> AttemptRecords:
    record = ExitRecord(run=1, ended_at=began_at + 5.0, exit_code=0)
    began = replace(BEGAN, run=1, began_at=began_at)
    run = replace(BEGUN, began=began, exited=record if over else None)
    return AttemptRecords(claim=CLAIM, run=run)


def row(
    word: str, reason: str = "", nodes: str = "n1", starts_at: float | None = None
) -> QueueRow:
    state = parse_state(word)
    expected = 99.0 if state.standing is TaskPhase.QUEUED else 4.0
    return QueueRow(
        id="7",
        state=state,
        reason=reason,
        nodes=nodes,
        partition="main",
        starts_at=expected if starts_at is None else starts_at,
        ended_at=None,
        name="a-tok",
    )


def account(word: str, code: Any = 0, signal: Any = 0, **more: Any) -> AccountRow:
    made = AccountRow(
        id="7",
        state=parse_state(word),
        exit_code=code,
        signal=signal,
        ended_at=8.0,
        nodes="n1",
        name="a-tok",
    )
    return replace(made, **more)


def refused_later(word: str = "FAILED", at: float = LATER_START) -> QueueRow:
    return row(word, starts_at=at)


def by_both(word: str) -> list[dict[str, Any]]:
    return [{"row": row(word)}, {"account": account(word)}]


def seen(records: AttemptRecords, task: Any = TASK, **more: Any) -> TaskMemory:
    return TaskMemory(task=task, records=records, **more)


def told(records: AttemptRecords, task: Any = TASK, **more: Any) -> TaskReport:
    return report(seen(records, task, **more))


def end(
    records: AttemptRecords, task: Any = TASK, **more: Any
) -> tuple[TaskPhase, Cause | None, int | None]:
    """Phase, cause, and the exit code or the signal below zero."""
    found = told(records, task, **more)
    ended = found.exited
    code = None if ended is None else -ended.signal if ended.signal else ended.exit_code
    return found.phase, found.cause, code


def test_a_task_that_lives_is_told_by_queue_and_begin_record() -> None:
    for word in ("PENDING", "CONFIGURING", "REQUEUED"):
        found = told(NOTHING, row=row(word, "Priority", nodes=""))
        assert (found.phase, found.expected_at) == (QUEUED, 99.0)
        assert found.reason == "lower priority than other jobs in partition main"
    found = told(NOTHING, row=row("RUNNING"))
    assert (found.phase, found.reason) == (QUEUED, "starting on n1")
    for word in ("RUNNING", "COMPLETING"):
        found = told(RUNS, row=row(word))
        assert (found.phase, found.began, found.exited) == (RUNNING, BEGAN, None)
    found = told(RUNS, row=row("MELTING"), gone_for=LATER, over_for=LATER)
    assert (found.phase, found.reason) == (
        UNKNOWN,
        "Slurm says MELTING: taken as alive",
    )
    assert told(NOTHING, answered=False).phase is QUEUED
    assert told(RUNS, answered=False).phase is RUNNING
    never_accepted = replace(TASK, executor_id="")
    assert told(NOTHING, never_accepted, answered=False).phase is UNKNOWN
    assert told(RUNS, row=row("RUNNING"), account=account("NODE_FAIL")).phase is RUNNING


def test_what_the_queue_has_back_is_requeued_unless_its_word_is_older() -> None:
    for records in (TERM, RUNS):
        found = told(records, row=row("PENDING"))
        assert (found.phase, found.requeued, found.exited) == (QUEUED, True, None)
    found = told(RUNS, row=row("PENDING"), answered=False)
    assert (found.phase, found.requeued) == (RUNNING, False)
    older = {"row": row("PENDING"), "answered": False, "over_for": WORD_SECONDS}
    assert end(exited(0), **older) == (ENDED, None, 0)


def test_an_exit_record_counts_and_the_queue_says_why() -> None:
    asked = {"over_for": 1.0, "gone_for": 1.0}
    for code in (0, 3):
        assert end(exited(code), row=row("COMPLETED"), **asked) == (ENDED, None, code)
    for word in ("TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "CANCELLED"):
        for said in by_both(word):
            cause = parse_state(word).cause
            assert end(exited(0), over_for=1.0, **said) == (ENDED, cause, 0)
    for said in by_both("FAILED"):
        assert end(exited(None, 9), **asked, **said) == (ENDED, None, -9)
    for said in by_both("OUT_OF_MEMORY"):
        found = told(plain(), over_for=1.0, **said)
        assert (found.cause, found.late_cause) == (None, Cause.OUT_OF_MEMORY)
    assert end(replace(TERM, cancel_ordered=True), **asked) == (ENDED, None, -15)
    found = told(exited(0), row=row("RUNNING"), over_for=WORD_SECONDS - 1)
    assert (found.phase, found.exited) == (LEAVING, None)
    for more in ({"row": row("COMPLETING")}, {"answered": False}):
        assert end(exited(0), over_for=WORD_SECONDS, **more) == (ENDED, None, 0)


def test_what_nobody_can_explain_otherwise_is_not_waited_for() -> None:
    limited = replace(TASK, resources=Resources(time_limit_seconds=3600.0))
    near = replace(TASK, resources=Resources(time_limit_seconds=63.0))
    for queued in (row("RUNNING"), row("COMPLETING"), None):
        for kills in (0, None):
            for task in (TASK, limited):
                assert end(plain(kills), task, row=queued) == (ENDED, None, 0)
    assert told(plain(), near, row=row("RUNNING")).phase is LEAVING
    assert told(plain(1), row=row("RUNNING")).phase is LEAVING
    for code in (0, 1, 3, 139):  # the queue does not show them
        assert end(exited(code), accounted=False) == (ENDED, None, code)


def test_without_an_exit_record_slurm_s_word_counts() -> None:
    quick = {"row": row("FAILED"), "said_for": QUICK_SECONDS}
    late = replace(row("COMPLETED"), ended_at=55.0)  # it ended when Slurm says
    exited = told(RUNS, row=late, said_for=GRACE_SECONDS).exited
    assert (exited and exited.ended_at) == 55.0
    refused = row("FAILED", "JobLaunchFailure", nodes="")
    found = told(NOTHING, row=refused, said_for=QUICK_SECONDS)
    assert (found.cause, found.reason) == (
        Cause.SUBMIT_ERROR,
        "Slurm could not start it on the node; see that the nodes can reach /out/a "
        "and /log/a",
    )
    by_code = account("FAILED", 3), account("FAILED", 0, 9)
    assert [end(RUNS, account=one, **quick)[2] for one in by_code] == [3, -9]
    found = told(RUNS, **quick)
    assert (found.cause, found.reason) == (Cause.EXIT_CODE, "Slurm says FAILED")
    found = told(NOTHING, row=row("CANCELLED", "JobHeldUser", nodes=""))
    assert (found.phase, found.cause, found.reason) == (ENDED, Cause.USER, "")
    assert end(ORDERED, gone_for=QUICK_SECONDS) == (ENDED, Cause.USER, None)
    # A last word is as old as its hearing, not as the absence.
    quick["said_for"] = QUICK_SECONDS - 1
    assert told(RUNS, gone_for=LATER, **quick).phase is LEAVING


def test_without_a_word_of_anybody_it_is_gone_for_as_long_as_it_is() -> None:
    found = told(RUNS, gone_for=12.0)
    assert (found.phase, found.cause, found.gone_for) == (ENDED, None, 12.0)
    damaged = AttemptRecords(damaged=("claim",))
    unclaimed = [told(one, gone_for=12.0).unclaimed for one in (RUNS, damaged, NOTHING)]
    assert unclaimed == [False, False, True]
    for word in ("PENDING", "RUNNING", "REQUEUED"):  # a ghost of accounting
        found = told(NOTHING, account=account(word), gone_for=12.0)
        assert (found.phase, found.gone_for, found.unclaimed) == (ENDED, 12.0, True)


def test_a_word_on_one_run_does_not_end_the_next() -> None:
    for word in ("PREEMPTED", "NODE_FAIL"):
        for over, code in ((True, 0), (False, None)):
            before = second_run(30.0, over=over)
            found = end(before, account=account(word), gone_for=12.0)
            assert found == (ENDED, None, code)
    own = {"account": account("NODE_FAIL"), "said_for": LATER}
    assert end(second_run(7.0, over=False), **own) == (ENDED, Cause.NODE_FAIL, None)


def test_a_start_that_came_after_the_run_may_be_started_again() -> None:
    later = {"row": refused_later(), "said_for": QUICK_SECONDS}
    assert told(AttemptRecords(claim=CLAIM), **later).phase is LEAVING
    times = {"started_at": LATER_START, "ended_at": LATER_START}
    assert told(RUNS, account=account("FAILED", 1, **times)).phase is LEAVING
    assert told(replace(RUNS, cancel_ordered=True), **later).phase is ENDED
    another = replace(refused_later("COMPLETED"), id="9")  # a second sending
    assert told(RUNS, row=another, said_for=GRACE_SECONDS).cause is None
    by_itself = {"row": refused_later("COMPLETED"), "said_for": 1.0}
    assert end(exited(3), **by_itself) == (ENDED, None, 3)
    later["row"] = refused_later(at=5.0 + SKEW_SECONDS)  # clocks differ a little
    assert told(RUNS, **later).cause is Cause.EXIT_CODE


def test_a_void_attempt_has_ended() -> None:
    for why, cause in (("cancelled", Cause.USER), ("failed", Cause.SUBMIT_ERROR)):
        void = Void(why=why, message="cannot open the log", at=4.0)
        records = AttemptRecords(claim=CLAIM, void=void)
        found = told(records, row=row("RUNNING"), answered=False)
        assert (found.phase, found.cause) == (ENDED, cause)
        assert found.reason == "cannot open the log"


# ------------------------------------------------------------------ what is waited for
@pytest.mark.parametrize(
    ("records", "word", "seconds", "cause"),
    [
        (RUNS, row("COMPLETED"), GRACE_SECONDS, None),
        (RUNS, row("TIMEOUT"), QUICK_SECONDS, Cause.TIMEOUT),
        (RUNS, row("OUT_OF_MEMORY"), QUICK_SECONDS, Cause.OUT_OF_MEMORY),
        (RUNS, row("NODE_FAIL", "NodeDown"), GRACE_SECONDS, Cause.NODE_FAIL),
        (TERM, row("PREEMPTED"), GRACE_SECONDS, Cause.PREEMPTED),
        (TERM, row("NODE_FAIL"), GRACE_SECONDS, Cause.NODE_FAIL),
        (TERM, row("BOOT_FAIL"), GRACE_SECONDS, Cause.NODE_FAIL),
        *(
            (records, refused_later(word), GRACE_SECONDS, Cause.NODE_FAIL)
            for word in ("FAILED", "COMPLETED")
            for records in (RUNS, exited(None, 9), exited(143))
        ),
    ],
)
def test_after_a_last_word_what_may_come_is_waited_for(
    records: AttemptRecords, word: QueueRow, seconds: float, cause: Cause | None
) -> None:
    early = report(seen(records, row=word, over_for=1.0, said_for=seconds - 1))
    assert (early.phase, f"{seconds:.0f} s" in early.reason) == (LEAVING, True)
    late = report(seen(records, row=word, over_for=1.0, said_for=seconds))
    assert (late.phase, late.cause) == (ENDED, cause)
    if cause is None:
        assert late.exited is not None
        assert (late.exited.exit_code, bool(late.exited.note)) == (0, True)


def test_an_end_by_a_signal_waits_for_all_who_may_know_why() -> None:
    """Told to end, killed, or by a shell's code."""
    heard: dict[str, Any] = {"over_for": 299.0, "gone_for": GRACE_SECONDS}
    told_to_end = (TERM, exited(0, None, "signal 15"))
    for records in (*told_to_end, exited(None, 9), exited(137), exited(143)):
        assert told(records, **heard | {"over_for": GRACE_SECONDS}).phase is ENDED
        for lacks in (
            {"row": row("COMPLETING")},
            {"answered": False},
            {"accounted": False},
            {"gone_for": GRACE_SECONDS - 1},
        ):
            assert told(records, **heard | lacks).phase is LEAVING
            assert told(records, **heard | lacks | {"over_for": 300.0}).phase is ENDED


# ------------------------------------------------------------------------- properties
WORDS = st.sampled_from(
    (
        *("PENDING", "RUNNING", "COMPLETING", "COMPLETED", "FAILED", "CANCELLED"),
        *("TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "REQUEUED", "MELTING"),
    )
)
RECORDS = st.sampled_from((NOTHING, ORDERED, RUNS, exited(0), exited(3), TERM))
SECONDS = st.floats(0, 1000)
ROWS, ACCOUNTS = WORDS.map(row), st.none() | WORDS.map(account)


@given(st.sampled_from([NOTHING, ORDERED, RUNS]), ACCOUNTS, SECONDS, SECONDS)
def test_without_an_answer_nothing_without_an_exit_record_is_gone(
    records: AttemptRecords, said: AccountRow | None, over: float, gone: float
) -> None:
    more = {"account": said, "over_for": over, "gone_for": gone}
    assert told(records, answered=False, **more).phase is not ENDED


@given(RECORDS, ROWS, SECONDS)
def test_what_lives_in_the_queue_ends_only_by_its_own_exit_record(
    records: AttemptRecords, said: QueueRow, over: float
) -> None:
    evidence = seen(records, row=said, over_for=over)
    if evidence.live and records.exited is None:
        assert report(evidence).phase is not ENDED


@given(ROWS, ACCOUNTS, SECONDS)
def test_more_time_never_brings_an_ended_task_back(
    queued: QueueRow, said: AccountRow | None, gone: float
) -> None:
    early, late = (
        told(RUNS, row=queued, account=said, gone_for=at) for at in (gone, gone + 100)
    )
    if early.phase is ENDED:
        assert (late.phase, late.cause) == (ENDED, early.cause)


# ------------------------------------------------------------------ what is remembered
def remember(memory: TaskMemory, program: str, *words: str) -> TaskMemory:
    """Hear these answers, one after the other; empty: nothing of the task."""
    for word in words:
        rows = {"7": row(word)} if word and program == "squeue" else {}
        accounts = {"7": account(word)} if word and program == "sacct" else {}
        memory.hear(rows, accounts)
    return memory


@pytest.mark.parametrize("program", ["squeue", "sacct"])
def test_an_end_that_was_told_is_not_forgotten_by_answers_that_lack_it(
    program: str,
) -> None:
    for words, known in (
        (["OUT_OF_MEMORY", ""], "OUT_OF_MEMORY"),
        (["PREEMPTED", "CANCELLED", ""], "CANCELLED"),
        (["RUNNING", ""], None),  # it may have ended since
        ([""], None),
    ):
        memory = remember(seen(NOTHING), program, *words)
        assert (memory.word.word if memory.word else None) == known
        another = seen(NOTHING, replace(TASK, token="other"))  # has its id now
        assert remember(another, program, *words).word is None
    assert remember(seen(NOTHING), "squeue", "PREEMPTED", "RUNNING").live


BEGUN_ALONE = AttemptRecords(run=BEGUN)


def test_what_was_told_of_something_else_says_nothing() -> None:
    for task, records in (
        (TASK, second_run(30.0, over=False)),
        (replace(TASK, executor_id="8"), BEGUN_ALONE),
        (replace(TASK, token="else"), BEGUN_ALONE),
    ):
        memory = seen(BEGUN_ALONE, replace(task, executor_id="7"))
        remember(memory, "squeue", "PREEMPTED")
        memory.task, memory.records = task, records
        assert remember(memory, "squeue", "").row is None


def test_silence_lasts_from_the_first_answer_that_lacks_an_end_to_the_newest() -> None:
    """Questions at a time, each of jobs since a time, and when the records changed."""
    for questions, silent_for in (
        ([(90.0, 50.0, 10.0)], 0.0),
        ([(20.0, 50.0, 10.0), (35.0, 50.0, 10.0), (35.0, 50.0, 10.0)], 15.0),
        # Of later jobs, and before the records.
        ([(5.0, 50.0, 10.0), (20.0, 150.0, 10.0), (30.0, 50.0, 10.0)], 0.0),
        # News of the task begin it anew.
        ([(20.0, 0.0, 10.0), (80.0, 0.0, 10.0), (80.0, 0.0, 50.0)], 0.0),
    ):
        memory = seen(NOTHING, replace(TASK, ordered_at=100.0))
        watch = QueueWatch(ScriptedCommands({}), lambda: 0.0, ask_seconds=1.0)
        for watch.accounted_at, watch.accounted_since, memory.changed_at in questions:
            found = memory.measure_silence(watch)
        assert found == silent_for
