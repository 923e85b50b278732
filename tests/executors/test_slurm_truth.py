"""Records, queue and accounting weighed against each other: a row a rule."""

from __future__ import annotations

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


def succeeded(oom_kills: int | None = 0) -> AttemptRecords:
    """Exit 0 that nobody asked for, four seconds after the begin."""
    records = exited(0)
    assert records.run is not None
    assert records.run.exited is not None
    end = replace(records.run.exited, asked=False, oom_kills=oom_kills)
    return replace(records, run=replace(records.run, exited=end))


def limited(seconds: float) -> Task:
    return replace(TASK, resources=Resources(time_limit_seconds=seconds))


def second_run(began_at: float, *, over: bool) -> AttemptRecords:
    """A run after a requeue, and its good end."""
    record = ExitRecord(run=1, ended_at=began_at + 5.0, exit_code=0)
    began = replace(BEGUN.began, run=1, began_at=began_at)
    run = replace(BEGUN, began=began, exited=record if over else None)
    return AttemptRecords(claim=CLAIM, run=run)


def voided(why: str) -> AttemptRecords:
    void = Void(why=why, message="cannot open the log", at=4.0)
    return AttemptRecords(claim=CLAIM, void=void)


QUEUED, RUNNING, ENDED = TaskPhase.QUEUED, TaskPhase.RUNNING, TaskPhase.ENDED
LEAVING, UNKNOWN = TaskPhase.LEAVING, TaskPhase.UNKNOWN
ORDERED = AttemptRecords(cancel_ordered=True)
TERM = exited(None, 15, "signal 15")
LOST_CLAIM = AttemptRecords(
    claim=replace(CLAIM, executor_id="6"), run=BEGUN, duplicates=("7",)
)
LATER_START = 5.0 + SKEW_SECONDS + 1.0
"""By Slurm; the newest run began at 5."""


def refused_later(word: str = "FAILED", at: float = LATER_START) -> QueueRow:
    return row(word, starts_at=at)


RULES: dict[str, tuple[TaskMemory, dict[str, Any]]] = {
    # ------------------------------------------------------------------ still alive
    **{
        f"{word} is queued": (
            seen(NOTHING, row=row(word, "Priority", nodes="")),
            {
                "phase": QUEUED,
                "reason": "lower priority than other jobs in partition main",
                "expected_at": 99.0,
            },
        )
        for word in ("PENDING", "CONFIGURING", "REQUEUED")
    },
    "with a node and without a begin record it is starting": (
        seen(NOTHING, row=row("RUNNING")),
        {"phase": QUEUED, "reason": "starting on n1"},
    ),
    **{
        f"begun and {word} it runs": (
            seen(RUNS, row=row(word)),
            {"phase": RUNNING, "began": BEGUN.began, "exited": None},
        )
        for word in ("RUNNING", "COMPLETING")
    },
    "an unknown word is alive and said": (
        seen(RUNS, row=row("MELTING"), gone_for=LATER, over_for=LATER),
        {"phase": UNKNOWN, "reason": "Slurm says MELTING: taken as alive"},
    ),
    "before the queue is asked it is queued": (
        seen(NOTHING, answered=False),
        {"phase": QUEUED},
    ),
    "before the queue is asked it runs": (
        seen(RUNS, answered=False),
        {"phase": RUNNING},
    ),
    "never accepted, it is unknown until the queue answers": (
        TaskMemory(task=replace(TASK, executor_id=""), records=NOTHING, answered=False),
        {"phase": UNKNOWN},
    ),
    "queued again after an end, it is requeued": (
        seen(TERM, row=row("PENDING")),
        {"phase": QUEUED, "requeued": True, "exited": None},
    ),
    "a word that is older than a run does not requeue it": (
        seen(RUNS, row=row("PENDING"), answered=False),
        {"phase": RUNNING, "requeued": False},
    ),
    "a begun run that the queue has back is requeued": (
        seen(RUNS, row=row("PENDING")),
        {"phase": QUEUED, "requeued": True},
    ),
    # ------------------------------------------------------------- with exit record
    "an ended run is judged although an older word has it queued": (
        seen(exited(0), row=row("PENDING"), answered=False, over_for=WORD_SECONDS),
        {"phase": ENDED, "exit_code": 0},
    ),
    "exit 0 with COMPLETED is success": (
        seen(exited(0), row=row("COMPLETED"), over_for=1.0, gone_for=1.0),
        {"phase": ENDED, "cause": None, "exit_code": 0},
    ),
    "the exit record's code counts and not the queue's word": (
        seen(exited(3), row=row("COMPLETED"), over_for=1.0),
        {"phase": ENDED, "cause": None, "exit_code": 3},
    ),
    **{
        f"{word} is the cause even over exit 0, by {who}": (
            seen(exited(0), over_for=1.0, **said),
            {"phase": ENDED, "cause": parse_state(word).cause},
        )
        for word in ("TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "CANCELLED")
        for who, said in (
            ("squeue", {"row": row(word)}),
            ("sacct", {"account": account(word)}),
        )
    },
    "an exit record waits for the queue's word while the job lives": (
        seen(exited(0), row=row("RUNNING"), over_for=WORD_SECONDS - 1),
        {"phase": LEAVING, "exited": None},
    ),
    "an exit record is judged alone when the word does not come": (
        seen(exited(0), row=row("COMPLETING"), over_for=WORD_SECONDS),
        {"phase": ENDED},
    ),
    "an exit record is judged alone when the queue no longer answers": (
        seen(exited(0), answered=False, over_for=WORD_SECONDS),
        {"phase": ENDED},
    ),
    **{
        f"a plain exit 0 waits for nobody: {word}, {kills}, {task.resources}": (
            TaskMemory(
                task=task,
                records=succeeded(kills),
                row=row(word) if word else None,
            ),
            {"phase": ENDED, "cause": None},
        )
        for word in ("RUNNING", "COMPLETING", None)
        for kills in (0, None)
        for task in (TASK, limited(3600.0))
    },
    "exit 0 near its limit waits": (
        TaskMemory(task=limited(63.0), records=succeeded(), row=row("RUNNING")),
        {"phase": LEAVING},
    ),
    "exit 0 after a kill for memory waits": (
        seen(succeeded(1), row=row("RUNNING")),
        {"phase": LEAVING},
    ),
    **{
        f"out of memory over a plain exit 0 is a late cause, by {who}": (
            seen(succeeded(), over_for=1.0, **said),
            {"cause": None, "late_cause": Cause.OUT_OF_MEMORY},
        )
        for who, said in (
            ("squeue", {"row": row("OUT_OF_MEMORY")}),
            ("sacct", {"account": account("OUT_OF_MEMORY")}),
        )
    },
    **{
        f"an end by a signal is judged with anybody's last word: {who}": (
            seen(exited(None, 9), over_for=1.0, gone_for=1.0, **said),
            {"phase": ENDED, "cause": None, "signal": 9},
        )
        for who, said in (
            ("squeue", {"row": row("FAILED")}),
            ("sacct", {"account": account("FAILED")}),
        )
    },
    **{
        f"exit {code} waits for nobody whom the queue does not show": (
            seen(exited(code), accounted=False),
            {"phase": ENDED},
        )
        for code in (0, 1, 3, 139)
    },
    "told to end by our cancel, it has ended": (
        seen(replace(TERM, cancel_ordered=True), over_for=1.0, gone_for=1.0),
        {"phase": ENDED},
    ),
    # ---------------------------------------------------------- without exit record
    "FAILED before it began could not be started": (
        seen(
            NOTHING,
            row=row("FAILED", "JobLaunchFailure", nodes=""),
            said_for=QUICK_SECONDS,
        ),
        {
            "cause": Cause.SUBMIT_ERROR,
            "reason": "Slurm could not start it on the node; see that the nodes can "
            "reach /out/a and /log/a",
        },
    ),
    **{
        f"FAILED without a record is as accounting says: {code}, {signal}": (
            seen(
                RUNS,
                row=row("FAILED"),
                account=account("FAILED", code, signal),
                said_for=QUICK_SECONDS,
            ),
            {"signal": signal or None, "exit_code": None if signal else code},
        )
        for code, signal in ((3, 0), (0, 9))
    },
    "FAILED without a record and without accounting is failed": (
        seen(RUNS, row=row("FAILED"), said_for=QUICK_SECONDS),
        {"cause": Cause.EXIT_CODE, "reason": "Slurm says FAILED"},
    ),
    "CANCELLED before it had a node has ended at once": (
        seen(NOTHING, row=row("CANCELLED", "JobHeldUser", nodes="")),
        {"phase": ENDED, "cause": Cause.USER, "reason": ""},
    ),
    "a cancelled task of a waiting array leaves no trace": (
        seen(ORDERED, gone_for=QUICK_SECONDS),
        {"phase": ENDED, "cause": Cause.USER},
    ),
    "without a word of anybody it is gone for as long as it is": (
        seen(RUNS, gone_for=12.0),
        {"phase": ENDED, "cause": None, "gone_for": 12.0, "unclaimed": False},
    ),
    "forgotten before it began it is unclaimed": (
        seen(NOTHING, gone_for=12.0),
        {"unclaimed": True},
    ),
    "a claim that cannot be read is still a claim": (
        seen(AttemptRecords(damaged=("claim",)), gone_for=12.0),
        {"unclaimed": False},
    ),
    **{
        f"{word} in accounting alone is a ghost and proves nothing": (
            seen(NOTHING, account=account(word), gone_for=12.0),
            {"phase": ENDED, "gone_for": 12.0, "unclaimed": True},
        )
        for word in ("PENDING", "RUNNING", "REQUEUED")
    },
    "the queue's word counts more than accounting, which trails it": (
        seen(RUNS, row=row("RUNNING"), account=account("NODE_FAIL")),
        {"phase": RUNNING},
    ),
    **{
        f"{word} of the run before does not end the one after it, over: {over}": (
            seen(second_run(30.0, over=over), account=account(word), gone_for=12.0),
            {"phase": ENDED, "cause": None, "exit_code": 0 if over else None},
        )
        for word in ("PREEMPTED", "NODE_FAIL")
        for over in (True, False)
    },
    "what accounting says of the last run ends it": (
        seen(second_run(7.0, over=False), account=account("NODE_FAIL"), said_for=LATER),
        {"phase": ENDED, "cause": Cause.NODE_FAIL},
    ),
    "a last word is as old as its hearing, not as the absence": (
        seen(RUNS, row=row("FAILED"), gone_for=LATER, said_for=QUICK_SECONDS - 1),
        {"phase": LEAVING},
    ),
    # --------------------------------------------------------- a start after the run
    "a start that claimed and never began counts as well": (
        seen(AttemptRecords(claim=CLAIM), row=refused_later(), said_for=QUICK_SECONDS),
        {"phase": LEAVING},
    ),
    "a second sending, which finds the claim taken, is no later start": (
        seen(
            RUNS,
            row=replace(refused_later("COMPLETED"), id="9"),
            said_for=GRACE_SECONDS,
        ),
        {"cause": None},
    ),
    "accounting alone tells of a later start too": (
        seen(
            RUNS,
            account=replace(
                account("FAILED", 1), started_at=LATER_START, ended_at=LATER_START
            ),
        ),
        {"phase": LEAVING},
    ),
    "a run that ended by itself has ended whatever start came later": (
        seen(exited(3), row=refused_later("COMPLETED"), said_for=1.0),
        {"phase": ENDED, "exit_code": 3, "cause": None},
    ),
    "a run that we cancelled is not started again": (
        seen(
            replace(RUNS, cancel_ordered=True),
            row=refused_later(),
            said_for=QUICK_SECONDS,
        ),
        {"phase": ENDED},
    ),
    "clocks of node and controller may differ a little": (
        seen(
            RUNS,
            row=refused_later(at=5.0 + SKEW_SECONDS),
            said_for=QUICK_SECONDS,
        ),
        {"cause": Cause.EXIT_CODE},
    ),
    # -------------------------------------------------------------------- void, dup
    **{
        f"a void attempt has ended whatever the queue says: {why}": (
            seen(voided(why), row=row("RUNNING"), answered=False),
            {"phase": ENDED, "cause": cause, "reason": "cannot open the log"},
        )
        for why, cause in (("cancelled", Cause.USER), ("failed", Cause.SUBMIT_ERROR))
    },
    "a start that lost the claim is a duplicate": (
        seen(LOST_CLAIM, row=row("COMPLETED")),
        {"duplicate": True},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_task_is_told_by_all_that_is_known_of_it(rule: str) -> None:
    memory, expected = RULES[rule]
    found = report(memory)
    told: dict[str, Any] = {
        "exit_code": found.exited.exit_code if found.exited else None,
        "signal": found.exited.signal if found.exited else None,
    }
    assert {
        name: told[name] if name in told else getattr(found, name) for name in expected
    } == expected


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
