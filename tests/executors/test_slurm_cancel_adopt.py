"""What is sent to cancel tasks, and how often the cluster is asked about doubts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Submission, Task, Uncertain
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.executor import SlurmExecutor, SlurmSettings
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.testing.clock import ManualClock
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    CONFIG,
    QUEUE_HEADING,
    Answer,
    ScriptedCommands,
    queue_answer,
    says,
)

SILENT = Ran(arguments=("?",), status=None)
"""Of a command that did not return in time."""


def executor(
    tmp_path: Path, clock: ManualClock | None = None, **answers: Answer
) -> tuple[SlurmExecutor, ScriptedCommands]:
    quiet = {
        "squeue": says(queue_answer("")),
        "sacct": says(ACCOUNT_HEADING),
        "scancel": says(),
    }
    commands = ScriptedCommands({"scontrol": says(CONFIG), **quiet, **answers})
    submit = SubmitSettings(
        wrapper=tmp_path / "wrapper.py",
        python="python3",
        scripts=tmp_path / "scripts",
        array_logs=tmp_path / "arrays",
    )
    return SlurmExecutor(
        SlurmSettings(submit=submit), commands, clock or ManualClock()
    ), commands


def task(tmp_path: Path, job: str, executor_id: str) -> Task:
    directory = tmp_path / job
    directory.mkdir(exist_ok=True)
    return Task(
        job=job,
        attempt=1,
        command=("true",),
        output_dir=str(directory),
        log_dir=str(directory),
        attempt_dir=str(directory),
        token="t",
        executor_id=executor_id,
        ordered_at=5.0,
    )


def begun(tmp_path: Path, job: str, executor_id: str) -> Task:
    """A task of which a run has begun."""
    made = task(tmp_path, job, executor_id)
    process = {"host": "h", "machine": "", "boot": "", "namespace": "", "pid": 1}
    record = {
        "run": 0,
        "began_at": 1.0,
        "executor_id": executor_id,
        "log_path": "",
        "process": {**process, "started": "1"},
    }
    Path(made.attempt_dir, "begin.0.json").write_text(json.dumps(record))
    return made


def queue(*ids: str, name: str = "a-t") -> Ran:
    """squeue's answer of jobs of that name."""
    rows = (f"{one}|{one}|PENDING|Priority||main|9|1|{name}\n" for one in ids)
    return says(queue_answer("".join(rows)))


def running_as(executor_id: str) -> Ran:
    """squeue's answer of one that runs."""
    return says(queue(executor_id).stdout.replace("PENDING", "RUNNING"))


def cancels(commands: ScriptedCommands) -> list[tuple[str, ...]]:
    return [words for words in commands.ran if words[0] == "scancel"]


THEIRS = queue("6", name="theirs-u")
TOLD = ("scancel", "--state=RUNNING", "--batch", "--signal=TERM")


@pytest.mark.parametrize(
    ("squeue", "waiting", "running", "sent"),
    [
        # One of an array is named without a state.
        (queue("5_2", "5_3"), ["5_3"], [], [("scancel", "5_[3]")]),
        (running_as("5"), [], ["5"], [(*TOLD, "5")]),
        (THEIRS, ["6"], [], []),
        (THEIRS, [], ["6"], []),
        (queue("5_0", "5_1"), ["5"], [], []),
        (
            says(queue("5", "8").stdout + THEIRS.stdout.removeprefix(QUEUE_HEADING)),
            ["5", "6", "7", "8"],
            [],
            [("scancel", "5", "8")],
        ),
    ],
)
def test_those_are_cancelled_that_are_still_ours_and_a_running_one_is_told(
    tmp_path: Path,
    squeue: Ran,
    waiting: list[str],
    running: list[str],
    sent: list[tuple[str, ...]],
) -> None:
    slurm, commands = executor(tmp_path, squeue=squeue)
    tasks = [task(tmp_path, f"w{one}", one) for one in waiting]
    tasks += [begun(tmp_path, f"r{one}", one) for one in running]
    assert slurm.cancel(tasks).ok
    assert cancels(commands) == sent


def test_a_signal_may_be_slow_to_return_but_not_a_cancel(tmp_path: Path) -> None:
    slurm, _ = executor(tmp_path, squeue=running_as("5_1"), scancel=SILENT)
    assert slurm.cancel([begun(tmp_path, "a", "5_1")]).ok
    slurm, _ = executor(tmp_path, squeue=queue("5_1"), scancel=SILENT)
    assert not slurm.cancel([task(tmp_path, "b", "5_1")]).ok


def test_both_leave_the_order_with_the_task(tmp_path: Path) -> None:
    slurm, _ = executor(tmp_path)
    both = [task(tmp_path, "a", "5"), begun(tmp_path, "b", "6")]
    slurm.cancel(both)
    assert all("cancel" in os.listdir(one.attempt_dir) for one in both)


def test_while_squeue_does_not_answer_nothing_is_cancelled_and_that_is_not_done(
    tmp_path: Path,
) -> None:
    slurm, commands = executor(tmp_path, squeue=SILENT)
    answer = slurm.cancel([task(tmp_path, "a", "5")])
    assert (answer.ok, cancels(commands)) == (False, [])
    assert answer.said == "squeue did not answer within 30 s"


def test_what_the_queue_said_before_does_not_count_for_a_cancel(
    tmp_path: Path,
) -> None:
    answers = [queue("5", name="theirs-u"), queue("5")]
    slurm, commands = executor(tmp_path, squeue=lambda _: answers.pop())
    one = task(tmp_path, "a", "5")
    slurm.poll([one])
    slurm.cancel([one])
    assert cancels(commands) == []


def test_a_hundred_cancels_are_one_question_and_one_order(tmp_path: Path) -> None:
    ids = [str(n) for n in range(100, 200)]
    slurm, commands = executor(tmp_path, squeue=queue(*ids))
    assert slurm.cancel([task(tmp_path, f"j{one}", one) for one in ids]).ok
    assert commands.ran[1:] == [("scancel", *ids)]
    assert commands.calls == {"squeue": 1, "scancel": 1}


def test_a_submission_without_an_id_is_cancelled_by_its_file_alone(
    tmp_path: Path,
) -> None:
    slurm, commands = executor(tmp_path)
    one = task(tmp_path, "a", "")
    assert slurm.cancel([one]).ok
    assert commands.ran == []
    assert "cancel" in os.listdir(one.attempt_dir)


def stubborn(tmp_path: Path, *answers: Ran) -> list[tuple[str, ...]]:
    """What is cancelled of one that outlives its grace; squeue's first and later."""
    clock, asked = ManualClock(), list(answers)
    slurm, commands = executor(
        tmp_path, clock, squeue=lambda _: asked.pop(0) if asked[1:] else asked[0]
    )
    one = task(tmp_path, "a", "5")
    Path(one.attempt_dir, "cancel").touch()
    poll_for_minutes(slurm, one, clock)
    return cancels(commands)


def poll_for_minutes(slurm: SlurmExecutor, one: Task, clock: ManualClock) -> None:
    for _ in range(20):
        slurm.poll([one])
        clock.advance(10.0)


def test_who_outlives_its_grace_is_cancelled_outright(tmp_path: Path) -> None:
    assert ("scancel", "5") in stubborn(tmp_path, queue("5"))


def test_an_order_to_end_counts_although_its_directory_looks_as_old_as_before(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    slurm, commands = executor(tmp_path, clock, squeue=running_as("5"))
    one = begun(tmp_path, "a", "5")
    poll_for_minutes(slurm, one, clock)
    before = os.stat(one.attempt_dir)
    slurm.cancel([one])
    os.utime(one.attempt_dir, ns=(before.st_atime_ns, before.st_mtime_ns))
    poll_for_minutes(slurm, one, clock)
    assert ("scancel", "5") in cancels(commands)


def test_an_older_answer_does_not_drive_a_cancel_home(tmp_path: Path) -> None:
    assert stubborn(tmp_path, queue("5"), SILENT) == []


def doubts(tmp_path: Path, count: int) -> list[Submission]:
    return [
        Submission(
            token=f"t{n}",
            session="s",
            tasks=(task(tmp_path, f"j{n}", ""),),
            ordered_at=5.0,
        )
        for n in range(count)
    ]


def test_one_answer_is_for_all_that_is_in_doubt(tmp_path: Path) -> None:
    clock = ManualClock()
    slurm, commands = executor(tmp_path, clock)
    for submission in doubts(tmp_path, 10):
        assert slurm.adopt([submission]).error == ""
    assert (commands.calls["squeue"], commands.calls["sacct"]) == (1, 1)
    clock.advance(4.0)
    slurm.adopt(doubts(tmp_path, 1))
    assert commands.calls["squeue"] == 2  # a later question is put anew


def test_who_gave_no_answer_is_not_asked_for_each_doubt(tmp_path: Path) -> None:
    slurm, commands = executor(tmp_path, squeue=SILENT)
    found = [slurm.adopt([one]) for one in doubts(tmp_path, 10)]
    assert all("did not answer" in one.error for one in found)
    assert not any(one.absent for one in found)
    assert commands.calls["squeue"] == 1


def test_what_was_sent_again_is_absent_only_after_another_look_for_it(
    tmp_path: Path,
) -> None:
    """sbatch gave up waiting: the controller may take it at any moment."""
    clock = ManualClock()
    slurm, _ = executor(tmp_path, clock, sbatch=SILENT)
    (lost,) = doubts(tmp_path, 1)
    assert looked_for(slurm, lost, clock) == ("t0",)
    assert isinstance(slurm.submit(lost), Uncertain)
    clock.advance(4.0)
    assert slurm.adopt([lost]).absent == ()
    assert looked_for(slurm, lost, clock) == ("t0",)


def looked_for(
    slurm: SlurmExecutor, submission: Submission, clock: ManualClock
) -> tuple[str, ...]:
    """What is absent after looks for long enough."""
    slurm.adopt([submission])
    clock.advance(301.0)
    return slurm.adopt([submission]).absent
