"""Cancels, doubts and late records, with a controller that says what it is told to."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from autoexp_tui.engine.executor_port import (
    Submission,
    Task,
    TaskPhase,
    TaskReport,
    Uncertain,
)
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
from autoexp_tui.probes.pools import ThreadPool
from autoexp_tui.testing.clock import ManualClock
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    CONFIG,
    SILENT,
    Answer,
    ScriptedCommands,
    queue,
    says,
)
from tests.executors.wrapper_runs import until
from tests.support.fake_slurm_wrapper import write_record
from tests.support.tasks import make_task

LEAVING, ENDED = TaskPhase.LEAVING, TaskPhase.ENDED
PROCESS = {
    **dict.fromkeys(("boot", "namespace", "machine"), ""),
    "host": "n1",
    "pid": 5,
    "started": "5",
}


def rows(*ids: str, word: str = "PENDING", name: str = "a-tok") -> Ran:
    return queue("".join(f"{i}|{i}|{word}|None|n1|main|N/A|1|{name}\n" for i in ids))


class Bench:
    """The executor over commands that answer what a test says, on a manual clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.commands = ScriptedCommands(
            {
                "squeue": queue(""),
                "sacct": says(ACCOUNT_HEADING),
                "scontrol": says(CONFIG),
                "scancel": says(),
            }
        )
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

    def squeue(self, *answers: Answer) -> None:
        """From now on: one after the other, the last for ever."""
        left = list(answers)

        def answer(words: Sequence[str]) -> Ran:
            now = left.pop(0) if left[1:] else left[0]
            return now if isinstance(now, Ran) else now(words)

        self.commands.answers["squeue"] = answer

    def task(self, executor_id: str = "7", token: str = "tok") -> Task:
        """A task that Slurm has claimed."""
        task = make_task(
            self.root,
            executor_id or token,
            token=token,
            executor_id=executor_id,
            ordered_at=self.clock.utc(),
        )
        Path(task.attempt_dir).mkdir(parents=True)
        return task

    def begun(self, executor_id: str = "7", at: float | None = None) -> Task:
        task = self.task(executor_id)
        self.begin(task, at)
        return task

    def begin(self, task: Task, at: float | None = None) -> None:
        now = self.clock.utc()
        of = {"executor_id": task.executor_id, "token": task.token}
        self.record(task, "claim", {**of, "nonce": "x", "claimed_at": now})
        began = {"run": 0, "log_path": "/log", "began_at": now if at is None else at}
        self.record(task, "begin.0.json", {**of, **began})

    def end(self, task: Task, code: int) -> None:
        fields = {"run": 0, "exit_code": code, "signal": None, "asked": False}
        self.record(task, "exit.0.json", {**fields, "ended_at": self.clock.utc()})

    def record(self, task: Task, name: str, fields: dict[str, object]) -> None:
        path = Path(task.attempt_dir, name)
        write_record(path, {"v": 1, "process": PROCESS, **fields}, self.clock.utc())

    def cancels(self) -> list[tuple[str, ...]]:
        return self.commands.ran_by("scancel")

    def asked_since(self) -> float:
        asked = self.commands.ran_by("sacct")
        return max(
            float(word[3:]) for words in asked for word in words if "uts" in word
        )

    def looks(self, task: Task, seconds: float = 2.0, step: float = 2.0) -> TaskReport:
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            (report,) = self.executor.poll([task]).reports
        return report

    def until_asked(self, task: Task) -> TaskReport:
        """Look until the queue is asked; the report of that look."""
        asked = self.commands.calls["squeue"]
        while self.commands.calls["squeue"] == asked:
            report = self.looks(task)
        return report

    def hears(self, task: Task, word: str) -> None:
        self.squeue(rows("7", word=word))
        self.until_asked(task)

    def adopt(self, submission: Submission, after: float = 0.0) -> tuple[str, ...]:
        self.clock.advance(after)
        return self.executor.adopt([submission]).absent


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_poll_waits_for_no_question_and_raises_the_fault_of_the_one_before(
    bench: Bench,
) -> None:
    def hang(_: Sequence[str]) -> Ran:
        begun.set()
        assert asked.wait(5)
        raise ZeroDivisionError("a bug")

    begun, asked, task = threading.Event(), threading.Event(), bench.task()
    bench.squeue(hang)
    bench.executor._questions = ThreadPool("slurm", 1)
    bench.executor.poll([task])
    assert begun.wait(5)
    bench.looks(task, 120.0)
    assert bench.commands.calls["squeue"] == 1
    asked.set()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        until(lambda: bench.executor.poll([task]) is None)


# ----------------------------------------------------------------------------- cancels
THEIRS = rows("6", name="theirs-u")
OURS_AND_THEIRS = queue(
    "".join(f"{n}|{n}|PENDING|None||main|9|1|a-tok\n" for n in "58")
    + "6|6|PENDING|None||main|9|1|theirs-u\n"
)
TOLD = ("scancel", "--state=RUNNING", "--batch", "--signal=TERM")


def test_those_are_cancelled_that_are_still_ours_and_a_running_one_is_told(
    tmp_path: Path,
) -> None:
    """All have the order in their files, whatever the queue says."""
    orders: list[tuple[Ran, list[str], list[str], list[tuple[str, ...]]]] = [
        # One of an array is named without a state.
        (rows("5_2", "5_3"), ["5_3"], [], [("scancel", "5_[3]")]),
        (rows("5", word="RUNNING"), [], ["5"], [(*TOLD, "5")]),
        # One that waits again is not told: scancel would wait for it.
        (rows("5"), [], ["5"], [("scancel", "5")]),
        (rows("5", word="SUSPENDED"), [], ["5"], [("scancel", "5")]),
        (THEIRS, ["6"], [], []),
        (THEIRS, [], ["6"], []),
        (rows("5_0", "5_1"), ["5"], [], []),
        (OURS_AND_THEIRS, ["5", "6", "7", "8"], [], [("scancel", "5", "8")]),
    ]
    for number, (squeue, waiting, running, sent) in enumerate(orders):
        bench = Bench(tmp_path / str(number))
        bench.squeue(squeue)
        tasks = [*map(bench.task, waiting), *map(bench.begun, running)]
        assert bench.executor.cancel(tasks).ok
        assert (bench.cancels(), bench.commands.calls["squeue"]) == (sent, 1)
        assert all("cancel" in os.listdir(one.attempt_dir) for one in tasks)


def test_a_signal_may_be_slow_to_return_but_not_a_cancel(bench: Bench) -> None:
    bench.commands.answers["scancel"] = SILENT
    bench.squeue(rows("5_1", word="RUNNING"), rows("5_2"))
    assert bench.executor.cancel([bench.begun("5_1")]).ok
    assert not bench.executor.cancel([bench.task("5_2")]).ok


def test_a_cancel_goes_by_what_the_queue_says_just_now_or_not_at_all(
    bench: Bench,
) -> None:
    bench.squeue(rows("5"), rows("5", name="theirs-u"), SILENT)
    task = bench.task("5")
    bench.executor.poll([task])
    assert bench.executor.cancel([task]).ok  # it is another's meanwhile
    answer = bench.executor.cancel([task])
    assert (answer.ok, answer.said) == (False, "squeue did not answer within 30 s")
    assert bench.cancels() == []


def test_a_submission_without_an_id_is_cancelled_by_its_file_alone(
    bench: Bench,
) -> None:
    """Its fence is private at every level."""
    home = bench.root / "new"
    task = replace(bench.task("", "t"), attempt_dir=str(home / "a" / "1"))
    assert bench.executor.cancel([task]).ok
    assert bench.commands.ran == []
    assert "cancel" in os.listdir(task.attempt_dir)
    levels = (home, home / "a", home / "a" / "1")
    assert {path.stat().st_mode & 0o777 for path in levels} == {0o700}


def test_who_outlives_its_grace_is_cancelled_outright_by_a_fresh_answer(
    bench: Bench,
) -> None:
    bench.squeue(rows("5"), SILENT)
    task = bench.task("5")
    Path(task.attempt_dir, "cancel").touch()
    bench.looks(task, 200, step=10)
    assert bench.cancels() == []  # an older answer does not drive it home
    bench.squeue(rows("5"))
    bench.looks(task, 200, step=10)
    assert ("scancel", "5") in bench.cancels()


def test_an_order_to_end_counts_although_its_directory_looks_as_old_as_before(
    bench: Bench,
) -> None:
    bench.squeue(rows("5", word="RUNNING"))
    task = bench.begun("5")
    bench.looks(task, 200, step=10)
    before = os.stat(task.attempt_dir)
    bench.executor.cancel([task])
    os.utime(task.attempt_dir, ns=(before.st_atime_ns, before.st_mtime_ns))
    bench.looks(task, 200, step=10)
    assert ("scancel", "5") in bench.cancels()


# ------------------------------------------------------------------------------ doubts
def doubt(bench: Bench, token: str) -> Submission:
    task, now = bench.task("", token), bench.clock.utc()
    return Submission(token=token, session="s", tasks=(task,), ordered_at=now)


@pytest.mark.parametrize("program", ["squeue", "sacct"])
def test_who_gave_no_answer_is_not_asked_for_each_doubt_and_nothing_is_absent(
    bench: Bench, program: str
) -> None:
    bench.commands.answers[program] = SILENT
    doubts = [doubt(bench, f"t{number}") for number in range(10)]
    for after in (0.0, 301.0, 301.0):
        bench.clock.advance(after)
        asked = bench.commands.calls[program]
        for one in doubts:
            found = bench.executor.adopt([one])
            assert (found.absent, "did not answer" in found.error) == ((), True)
        assert bench.commands.calls[program] == asked + 1


def test_one_answer_is_for_all_that_is_in_doubt(bench: Bench) -> None:
    for number in range(10):
        answer = bench.executor.adopt([doubt(bench, f"t{number}")])
        assert answer.error == ""
    assert (bench.commands.calls["squeue"], bench.commands.calls["sacct"]) == (1, 1)
    bench.adopt(doubt(bench, "t"), after=4.0)
    assert bench.commands.calls["squeue"] == 2  # a later question is put anew


def test_what_was_sent_again_is_absent_only_after_another_look_for_it(
    bench: Bench,
) -> None:
    """sbatch gave up waiting: the controller may take it at any moment."""
    bench.commands.answers["sbatch"] = SILENT
    lost = doubt(bench, "t0")
    looks = [bench.adopt(lost, after) for after in (0.0, 299.0, 2.0)]
    assert looks == [(), (), ("t0",)]  # the controller's memory lasts 300 s
    assert isinstance(bench.executor.submit(lost), Uncertain)
    assert bench.adopt(lost, after=4.0) == ()
    assert bench.adopt(lost, after=301.0) == ("t0",)


# ------------------------------------------------------------------- records come late


@pytest.mark.parametrize(("word", "phase"), [("FAILED", ENDED), ("", LEAVING)])
def test_a_record_that_came_while_slurm_hung_is_seen_before_the_end_is_judged(
    bench: Bench, word: str, phase: TaskPhase
) -> None:
    """Without a last word that is waited for."""

    def hang(_: Sequence[str]) -> Ran:
        bench.end(task, 3)
        bench.clock.advance(2 * QUICK_SECONDS)
        return rows("7", word=word) if word else queue("")

    task = bench.begun()
    bench.looks(task, 60.0)
    if word:
        bench.hears(task, word)
        assert bench.looks(task).phase is LEAVING
    bench.squeue(hang)
    report = bench.until_asked(task)
    assert (report.phase, report.exited is None) == (phase, phase is LEAVING)


def test_a_queue_that_was_asked_before_a_run_does_not_say_that_it_is_gone(
    bench: Bench,
) -> None:
    task = bench.task()
    bench.looks(task, 10.0)
    bench.begin(task)
    gone = [bench.looks(task).gone_for for _ in range(30)]
    assert 0.0 < next(filter(None, gone)) <= 2.0


def test_an_end_is_not_judged_while_its_records_cannot_be_looked_at(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(path: str) -> NoReturn:
        raise OSError(5, "the file server does not answer", path)

    task = bench.begun()
    bench.looks(task, 4.0)
    bench.hears(task, "TIMEOUT")
    with monkeypatch.context() as away:
        away.setattr("os.listdir", no_answer)
        away.setattr("os.stat", no_answer)
        assert bench.looks(task, 2 * QUICK_SECONDS).phase is LEAVING
    assert bench.looks(task, QUICK_SECONDS + 4.0).cause is Cause.TIMEOUT


def test_an_end_is_judged_by_a_new_listing_whatever_the_directory_s_age_says(
    bench: Bench,
) -> None:
    task = bench.begun()
    bench.looks(task, 10.0)
    bench.hears(task, "FAILED")
    kept = os.stat(task.attempt_dir).st_mtime
    bench.end(task, 3)
    os.utime(task.attempt_dir, (kept, kept))  # as a file server's cache tells it
    assert bench.looks(task).exited is not None


def test_of_many_tasks_those_with_a_last_word_are_looked_at_each_time(
    bench: Bench,
) -> None:
    task, others = bench.begun(), [bench.task(f"b{n}") for n in range(3 * LOOKS)]
    bench.looks(task, 4.0)
    bench.hears(task, "FAILED")
    bench.executor.poll([*others, task])
    bench.end(task, 3)
    bench.clock.advance(2.0)
    assert bench.executor.poll([*others, task]).reports[-1].exited is not None


def test_whoever_asks_accounting_asks_of_runs_that_began_before_their_order(
    bench: Bench,
) -> None:
    """The login node's clock is an hour ahead; one in doubt asks of its own time."""
    began_at = bench.clock.utc() - 3600.0
    task = bench.begun(at=began_at)
    bench.looks(task, 20.0)
    assert bench.asked_since() <= began_at - MARGIN_SECONDS
    bench.end(task, 143)
    bench.looks(task, 4.0)
    bench.adopt(doubt(bench, "b"), after=5.0)
    assert bench.asked_since() <= began_at - MARGIN_SECONDS


@pytest.mark.parametrize(
    ("word", "causes"), [("OUT_OF_MEMORY", [Cause.OUT_OF_MEMORY]), ("COMPLETED", [])]
)
def test_a_word_on_an_end_that_was_judged_without_it_is_told_once(
    bench: Bench, word: str, causes: list[Cause]
) -> None:
    task, other = bench.begun(), bench.task("b")
    bench.looks(task, 4.0)
    bench.end(task, 0)
    assert bench.looks(task).phase is ENDED
    late: list[TaskReport] = []
    for said, turns in (("COMPLETING", 40), (word, 50)):
        bench.squeue(rows("7", word=said))
        for _ in range(turns):
            bench.clock.advance(2.0)
            late += bench.executor.poll([other]).late
    assert [report.late_cause for report in late] == causes
