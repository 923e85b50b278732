"""An exit record that comes after Slurm's last word, and words that are heard once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from autoexp_tui.engine.executor_port import Submission, Task, TaskPhase, TaskReport
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.executor import (
    LOOKS,
    MARGIN_SECONDS,
    SlurmExecutor,
    SlurmSettings,
)
from autoexp_tui.executors.slurm.judgement import QUICK_SECONDS
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.clock import ManualClock
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    CONFIG,
    Answer,
    ScriptedCommands,
    queue_answer,
    says,
)
from tests.support.fake_slurm_wrapper import write_record

ROW = "7|7|{}|None|n1|main|N/A|1|a-tok\n"
PROCESS = {
    "host": "n1",
    "boot": "",
    "namespace": "",
    "pid": 5,
    "started": "5",
    "machine": "",
}


class Bench:
    """One task that has begun, and a controller that says what it is told to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.queue = ""
        # What happens until squeue has answered.
        self.meanwhile: Callable[[], None] = lambda: None
        answers: dict[str, Answer] = {
            "squeue": self._squeue,
            "sacct": says(ACCOUNT_HEADING),
        }
        answers["scontrol"] = says(CONFIG)
        self.commands = ScriptedCommands(answers)
        submit = SubmitSettings(
            wrapper=root / "wrapper.py",
            python="python3",
            scripts=root / "scripts",
            array_logs=root / "arrays",
            grace_seconds=1.0,
            submit_seconds=20.0,
        )
        settings = SlurmSettings(submit=submit)
        self.executor = SlurmExecutor(settings, self.commands, self.clock)
        self.attempt_dir = root / "attempts" / "a" / "1"
        self.task = Task(
            job="a",
            attempt=1,
            command=("true",),
            output_dir=str(root / "out"),
            log_dir=str(root / "log"),
            attempt_dir=str(self.attempt_dir),
            token="tok",
            executor_id="7",
            ordered_at=self.clock.utc(),
        )
        self.attempt_dir.mkdir(parents=True)
        claim = {"token": "tok", "executor_id": "7", "nonce": "x"}
        self.record("claim", {**claim, "claimed_at": self.clock.utc()})

    def _squeue(self, words: Sequence[str]) -> Ran:
        self.meanwhile()
        return says(queue_answer(self.queue))

    def record(self, name: str, fields: dict[str, object]) -> None:
        path = self.attempt_dir / name
        write_record(path, {"v": 1, "process": PROCESS, **fields}, self.clock.utc())

    def begins(self, at: float | None = None) -> None:
        fields = {"run": 0, "executor_id": "7", "log_path": "/log"}
        began_at = self.clock.utc() if at is None else at
        self.record("begin.0.json", {**fields, "began_at": began_at})

    def ends(self, code: int) -> None:
        fields = {"run": 0, "exit_code": code, "signal": None, "asked": False}
        self.record("exit.0.json", {**fields, "ended_at": self.clock.utc()})

    def look(self, after: float = 2.0) -> TaskReport:
        self.clock.advance(after)
        return self.executor.poll([self.task]).reports[0]

    def hears(self, word: str) -> None:
        """Let the queue say so, until the executor has asked and looked again."""
        self.queue = ROW.format(word)
        self.until_asked()

    def until_asked(self) -> TaskReport:
        """Look until the queue is asked; the report of that look."""
        asked = self.commands.calls["squeue"]
        while True:
            report = self.look()
            if self.commands.calls["squeue"] > asked:
                return report

    def another(self, job: str) -> Task:
        """A task with an attempt of its own."""
        directory = self.root / "attempts" / job / "1"
        directory.mkdir(parents=True)
        return replace(self.task, job=job, attempt_dir=str(directory), token=job)

    def looks(self, seconds: float) -> TaskReport:
        """The last of the reports within so many seconds, two seconds apart."""
        return [self.look() for _ in range(int(seconds / 2.0))][-1]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_record_is_waited_for_from_when_the_last_word_was_heard(bench: Bench) -> None:
    bench.begins()
    bench.looks(60.0)  # the queue lacks it all the while
    bench.hears("FAILED")
    assert bench.looks(QUICK_SECONDS - 2.0).phase is TaskPhase.LEAVING
    bench.ends(3)
    assert bench.look().exited is not None


@pytest.mark.parametrize(("word", "phase"), [
    ("FAILED", TaskPhase.ENDED),
    ("", TaskPhase.LEAVING),  # its last word is waited for
])  # fmt: skip
def test_a_record_that_came_while_slurm_hung_is_seen_before_the_end_is_judged(
    bench: Bench, word: str, phase: TaskPhase
) -> None:
    def hang() -> None:
        bench.ends(3)
        bench.clock.advance(2 * QUICK_SECONDS)

    bench.begins()
    bench.looks(60.0)
    if word:
        bench.hears(word)
    bench.meanwhile = hang
    report = bench.until_asked()
    assert report.phase is phase
    assert (report.exited is None) is (phase is TaskPhase.LEAVING)


def test_a_queue_that_was_asked_before_a_run_does_not_say_that_it_is_gone(
    bench: Bench,
) -> None:
    bench.looks(10.0)
    bench.begins()
    told = [bench.look().gone_for for _ in range(30)]
    assert 0.0 < next(filter(None, told)) <= 2.0


def test_an_end_is_not_judged_while_its_records_cannot_be_looked_at(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.begins()
    bench.looks(4.0)
    bench.hears("TIMEOUT")
    with monkeypatch.context() as away:
        away.setattr("os.listdir", _no_answer)
        away.setattr("os.stat", _no_answer)
        assert bench.looks(2 * QUICK_SECONDS).phase is TaskPhase.LEAVING
    assert bench.looks(QUICK_SECONDS + 4.0).cause is Cause.TIMEOUT


def _no_answer(path: str) -> NoReturn:
    raise OSError(5, "the file server does not answer", path)


def test_an_end_is_judged_by_a_new_listing_whatever_the_directory_s_age_says(
    bench: Bench,
) -> None:
    bench.begins()
    bench.looks(10.0)
    bench.hears("FAILED")
    kept = bench.attempt_dir.stat().st_mtime
    bench.ends(3)
    os.utime(bench.attempt_dir, (kept, kept))  # as a file server's cache tells it
    report = bench.look()
    assert report.exited is not None


def test_of_many_tasks_those_with_a_last_word_are_looked_at_each_time(
    bench: Bench,
) -> None:
    others = [bench.another(f"b{n}") for n in range(3 * LOOKS)]
    bench.begins()
    bench.looks(4.0)
    bench.hears("FAILED")
    tasks = [*others, bench.task]
    bench.executor.poll(tasks)
    bench.ends(3)
    bench.clock.advance(2.0)
    assert bench.executor.poll(tasks).reports[-1].exited is not None


def test_accounting_is_asked_of_runs_that_began_before_their_order_by_our_clock(
    bench: Bench,
) -> None:
    """The login node's clock is an hour ahead of the cluster's."""
    began_at = bench.clock.utc() - 3600.0
    bench.begins(began_at)
    bench.looks(20.0)
    sacct = [words for words in bench.commands.ran if words[0] == "sacct"][-1]
    since = next(word for word in sacct if word.startswith("uts"))
    assert float(since.removeprefix("uts")) <= began_at - MARGIN_SECONDS


def test_whoever_asks_accounting_asks_for_the_word_that_is_owed(bench: Bench) -> None:
    """A submission in doubt asks of its own time alone, and puts polls off."""
    began_at = bench.clock.utc() - 3600.0
    bench.begins(began_at)
    bench.ends(143)
    bench.looks(4.0)
    doubted = Submission(
        token="b",
        session="s",
        tasks=(bench.another("b"),),
        ordered_at=bench.clock.utc(),
    )
    bench.clock.advance(5.0)
    bench.executor.adopt([doubted])
    sacct = [words for words in bench.commands.ran if words[0] == "sacct"]
    since = [float(word[3:]) for words in sacct for word in words if "uts" in word]
    assert max(since) <= began_at - MARGIN_SECONDS


@pytest.mark.parametrize(
    ("word", "causes"), [("OUT_OF_MEMORY", [Cause.OUT_OF_MEMORY]), ("COMPLETED", [])]
)
def test_a_word_on_an_end_that_was_judged_without_it_is_told_once(
    bench: Bench, word: str, causes: list[Cause]
) -> None:
    bench.begins()
    bench.looks(4.0)
    bench.ends(0)
    assert bench.look().phase is TaskPhase.ENDED
    bench.queue, other = ROW.format("COMPLETING"), bench.another("b")
    late: list[TaskReport] = []
    for second in range(90):
        if second == 40:
            bench.queue = ROW.format(word)
        bench.clock.advance(2.0)
        late += bench.executor.poll([other]).late
    assert [report.late_cause for report in late] == causes
