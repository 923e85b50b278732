"""What is remembered of a task: a word on an end that was heard once stays true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.engine.executor_port import BeginRecord, Task
from autoexp_tui.executors.slurm.task_memory import TaskMemory
from autoexp_tui.executors.slurm.watch import QueueWatch
from autoexp_tui.storage.attempt_records import AttemptRecords, Run
from autoexp_tui.storage.processes import Identity
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    CONFIG,
    ScriptedCommands,
    queue_answer,
    says,
)

TASK = Task(
    job="a",
    attempt=1,
    command=("true",),
    output_dir="/out/a",
    log_dir="/log/a",
    attempt_dir="/attempts/a/1",
    token="0c34",
    executor_id="6",
    ordered_at=100.0,
)


def run(number: int) -> AttemptRecords:
    began = BeginRecord(run=number, began_at=200.0, executor_id="6", host="n2")
    return AttemptRecords(run=Run(began=began, process=Identity(host="n2", pid=5)))


# ------------------------------------------------------------------------ last words
QUEUE = "6|6|{}|None|n2|main|N/A|1|a-0c34\n"
BOOK = "6|6|{}|0:0|1|1|16|n2|a-0c34\n"


def watch_for(memory: TaskMemory, program: str, *words: str) -> None:
    """Hear these answers, one after the other; empty: nothing of the task."""
    row, heading = (QUEUE, "") if program == "squeue" else (BOOK, ACCOUNT_HEADING)
    texts = [row.format(word) if word else "" for word in words]
    answers = iter(
        [says(heading + text if heading else queue_answer(text)) for text in texts]
    )
    commands = ScriptedCommands(
        {program: lambda _: next(answers), "scontrol": says(CONFIG)}
    )
    watch = QueueWatch(
        commands=commands, monotonic=lambda: 1.0, ask_seconds=1.0, tell=memory.hear
    )
    for _ in words:
        watch.ask() if program == "squeue" else watch.ask_accounts(0.0)
    memory.hear(watch.rows, watch.accounts)


@pytest.mark.parametrize("program", ["squeue", "sacct"])
def test_an_id_that_another_s_job_has_now_is_not_our_row(program: str) -> None:
    ours, another = TaskMemory(task=TASK), TaskMemory(task=replace(TASK, token="other"))
    for memory in (ours, another):
        watch_for(memory, program, "FAILED")
    assert ours.word is not None
    assert another.word is None


@pytest.mark.parametrize("program", ["squeue", "sacct"])
@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["OUT_OF_MEMORY", ""], "OUT_OF_MEMORY"),
        (["PREEMPTED", "CANCELLED", ""], "CANCELLED"),
        (["RUNNING", ""], None),
        ([""], None),
    ],
    ids=["an end", "the newer of two", "it may have ended since", "nothing"],
)
def test_an_end_that_was_told_is_not_forgotten_by_answers_that_lack_it(
    program: str, words: list[str], known: str | None
) -> None:
    memory = TaskMemory(task=TASK)
    watch_for(memory, program, *words)
    assert (memory.word.word if memory.word else None) == known


def test_who_lives_by_the_newest_answer_has_not_ended() -> None:
    memory = TaskMemory(task=TASK)
    watch_for(memory, "squeue", "PREEMPTED", "RUNNING")
    assert memory.live


@pytest.mark.parametrize(
    ("task", "records"),
    [
        (TASK, run(1)),
        (replace(TASK, executor_id="7"), run(0)),
        (replace(TASK, token="else"), run(0)),
    ],
    ids=["another run", "another start", "another's name"],
)
def test_what_was_told_of_something_else_says_nothing(
    task: Task, records: AttemptRecords
) -> None:
    memory = TaskMemory(task=replace(task, executor_id="6"), records=run(0))
    watch_for(memory, "squeue", "PREEMPTED", "")
    memory.task, memory.records = task, records
    watch_for(memory, "squeue", "")
    assert memory.row is None


# ------------------------------------------------------------------------- accounting
@pytest.mark.parametrize(
    ("questions", "silent_for"),
    [
        ([(90.0, 50.0)], 0.0),
        ([(20.0, 50.0), (35.0, 50.0), (35.0, 50.0)], 15.0),
        ([(5.0, 50.0), (20.0, 150.0), (30.0, 50.0)], 0.0),
    ],
    ids=["one answer", "first to newest", "of later jobs, and before the records"],
)
def test_silence_lasts_from_the_first_answer_that_lacks_an_end_to_the_newest(
    questions: list[tuple[float, float]], silent_for: float
) -> None:
    """Questions at a time, each of jobs since a time; the records are of time 10."""
    memory = TaskMemory(task=TASK, changed_at=10.0)
    watch = QueueWatch(ScriptedCommands({}), lambda: 0.0, ask_seconds=1.0)
    for watch.accounted_at, watch.accounted_since in questions:
        found = memory.measure_silence(watch)
    assert found == silent_for


def test_news_of_a_task_begin_its_silence_anew() -> None:
    memory = TaskMemory(task=TASK, changed_at=10.0)
    watch = QueueWatch(ScriptedCommands({}), lambda: 0.0, ask_seconds=1.0)
    for watch.accounted_at in (20.0, 80.0):
        memory.measure_silence(watch)
    memory.changed_at = 50.0
    assert memory.measure_silence(watch) == 0.0
