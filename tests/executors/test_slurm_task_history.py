"""A word on an end that was heard once stays true for its run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.engine.executor_port import TaskPhase, TaskReport
from autoexp_tui.executors.slurm.task_history import (
    LastWords,
    LateWords,
    Silence,
    SlurmWords,
    Start,
)
from autoexp_tui.executors.slurm.text import AccountRow, parse_state
from autoexp_tui.executors.slurm.watch import QueueWatch
from autoexp_tui.model.states import Cause
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    CONFIG,
    ScriptedCommands,
    queue_answer,
    says,
)

TASK = ("a", 1)


def row(word: str, executor_id: str = "6") -> AccountRow:
    return AccountRow(
        id=executor_id,
        raw_id=executor_id,
        state=parse_state(word),
        exit_code=0,
        signal=0,
        submitted_at=1.0,
        ended_at=16.0,
        nodes="n2",
        name="a-0c34",
    )


START = Start(task=TASK, run=0, executor_id="6", token="0c34")


def heard(word: str) -> LastWords[AccountRow]:
    words: LastWords[AccountRow] = LastWords()
    words.update(START, row(word))
    return words


def test_an_end_that_was_told_is_not_forgotten_by_answers_that_lack_it() -> None:
    words = heard("PREEMPTED")
    assert words.update(START, None) == row("PREEMPTED")
    words.update(START, row("NODE_FAIL"))
    assert words.update(START, None) == row("NODE_FAIL")


@pytest.mark.parametrize(
    ("word", "start"),
    [
        ("RUNNING", START),
        ("PREEMPTED", replace(START, run=1)),
        ("PREEMPTED", replace(START, executor_id="7")),
    ],
    ids=["it may have ended since", "another run", "another start"],
)
def test_what_was_told_of_something_else_says_nothing(word: str, start: Start) -> None:
    assert heard(word).update(start, None) is None


def test_nothing_is_kept_of_tasks_that_nobody_asks_about() -> None:
    words = heard("PREEMPTED")
    words.keep_only({("b", 1)})
    assert words.update(START, None) is None


# ----------------------------------------------------------------- between two polls
QUEUE = "6|6|{}|None|n2|main|N/A|1|a-0c34\n"
BOOK = "6|6|{}|0:0|1|1|16|n2|a-0c34\n"


def asked(*words: str) -> QueueWatch:
    """Its queue has given these answers, one after the other; empty: nothing."""
    answers = iter(
        [says(queue_answer(QUEUE.format(word) if word else "")) for word in words]
    )
    commands = ScriptedCommands({"squeue": lambda _: next(answers)})
    watch = QueueWatch(commands=commands, monotonic=lambda: 1.0, ask_seconds=1.0)
    for _ in words:
        watch.ask()
    return watch


def test_an_end_that_only_another_question_heard_of_is_known() -> None:
    words = SlurmWords(asked("OUT_OF_MEMORY", ""))
    words.note_ends([START])
    told, _ = words.get(START)
    assert told is not None
    assert told.state.word == "OUT_OF_MEMORY"


def test_an_end_that_only_another_question_to_accounting_heard_of_is_known() -> None:
    answers = iter(
        [says(ACCOUNT_HEADING + BOOK.format("TIMEOUT")), says(ACCOUNT_HEADING)]
    )
    commands = ScriptedCommands(
        {"sacct": lambda _: next(answers), "scontrol": says(CONFIG)}
    )
    watch = QueueWatch(commands=commands, monotonic=lambda: 1.0, ask_seconds=1.0)
    assert watch.ask_accounts(0.0)
    assert watch.ask_accounts(0.0)
    words = SlurmWords(watch)
    words.note_ends([START])
    _, told = words.get(START)
    assert told is not None
    assert told.state.word == "TIMEOUT"


def test_of_two_ends_that_were_heard_the_newer_counts() -> None:
    words = SlurmWords(asked("PREEMPTED", "CANCELLED", ""))
    words.note_ends([START])
    told, _ = words.get(START)
    assert told is not None
    assert told.state.word == "CANCELLED"


def test_who_lives_by_the_newest_answer_has_not_ended() -> None:
    words = SlurmWords(asked("PREEMPTED", "RUNNING"))
    words.note_ends([START])
    told, _ = words.get(START)
    assert told is not None
    assert told.state.word == "RUNNING"


def test_an_end_that_was_heard_under_another_s_name_is_none_of_ours() -> None:
    words = SlurmWords(asked("TIMEOUT", ""))
    start = replace(START, token="else")
    words.note_ends([start])
    assert words.get(start) == (None, None)


# ------------------------------------------------------------------------- accounting
def silences(*questions: tuple[float, float]) -> list[float]:
    """The silence after questions at a time, each of jobs since a time; of one task
    that is looked for since 100, with records of time 10."""
    watch = QueueWatch(ScriptedCommands({}), lambda: 0.0, ask_seconds=1.0)
    silence = Silence(watch)
    found = []
    for at, since in questions:
        watch.accounted_at, watch.accounted_since = at, since
        found.append(silence.measure(TASK, since=100.0, news_at=10.0))
    return found


def test_one_answer_that_lacks_an_end_is_no_silence() -> None:
    assert silences((90.0, 50.0)) == [0.0]


def test_silence_lasts_from_the_first_answer_to_the_newest() -> None:
    assert silences((20.0, 50.0), (35.0, 50.0), (35.0, 50.0)) == [0.0, 15.0, 15.0]


def test_answers_of_later_jobs_and_of_before_the_records_do_not_count() -> None:
    assert silences((5.0, 50.0), (20.0, 150.0), (30.0, 50.0)) == [0.0, 0.0, 0.0]


def test_news_of_a_task_begin_its_silence_anew() -> None:
    watch = QueueWatch(ScriptedCommands({}), lambda: 0.0, ask_seconds=1.0)
    silence = Silence(watch)
    for at in (20.0, 80.0):
        watch.accounted_at = at
        silence.measure(TASK, since=100.0, news_at=10.0)
    assert silence.measure(TASK, since=100.0, news_at=50.0) == 0.0


# --------------------------------------------------------------- a word that comes late
ENDED = TaskReport(job="a", attempt=1, phase=TaskPhase.ENDED)


def late(word: str) -> list[TaskReport]:
    """What is told, at two looks, of an end that was judged before Slurm said so."""
    words = LateWords(asked(word))
    words.await_word(START, ENDED, 0.0)
    return [*words.list_reports(1.0), *words.list_reports(2.0)]


def test_out_of_memory_that_is_told_late_is_told_once() -> None:
    assert late("OUT_OF_MEMORY") == [replace(ENDED, late_cause=Cause.OUT_OF_MEMORY)]


def test_while_slurm_has_no_last_word_it_is_listened_for() -> None:
    watch = asked("COMPLETING")
    listening = LateWords(watch)
    listening.await_word(START, ENDED, 0.0)
    assert not list(listening.list_reports(1.0))
    watch.commands = ScriptedCommands(
        {"squeue": lambda _: says(queue_answer(QUEUE.format("OUT_OF_MEMORY")))}
    )
    watch.ask()
    assert list(listening.list_reports(2.0)) == [
        replace(ENDED, late_cause=Cause.OUT_OF_MEMORY)
    ]


def test_a_word_that_agrees_says_nothing() -> None:
    assert late("COMPLETED") == []
