"""Slurm's commands are run with a limit and a clean environment; nothing is left."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.commands import (
    ClusterCommands,
    OwnThread,
    build_environment,
)


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def commands(folder: Path, **more: str) -> ClusterCommands:
    return ClusterCommands({"PATH": f"{folder}:/usr/bin:/bin", **more})


def test_what_it_says_and_how_it_ends_is_kept(tmp_path: Path) -> None:
    program(tmp_path, "sbatch", 'echo "51;c"; echo "careful: $1" >&2; exit 3')
    ran = commands(tmp_path).run(("sbatch", "a b"), 5)
    assert (ran.status, ran.stdout, ran.stderr) == (3, "51;c\n", "careful: a b\n")
    assert (ran.ok, ran.timed_out, ran.missing) == (False, False, "")
    assert ran.sent == "sbatch 'a b'"


def test_what_cannot_be_started_is_told_and_counted(tmp_path: Path) -> None:
    program(tmp_path, "squeue-here", "true").chmod(0o644)
    made = commands(tmp_path)
    for words in (("squeue-here",), ("squeue-here", "a\0b")):
        assert "cannot start squeue-here" in made.run(words, 5).missing
    assert made.calls == {"squeue-here": 2}


def test_a_program_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    ran = commands(tmp_path).run(("sbatch-of-nowhere",), 5)
    assert "not on this machine's PATH" in ran.missing
    assert "slurm=local" in ran.missing
    assert not ran.timed_out


def test_one_that_does_not_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    program(
        tmp_path, "squeue", f"echo began; sleep 60 & echo $! > {tmp_path}/pid; wait"
    )
    ran = commands(tmp_path).run(("squeue",), 0.5)
    assert ran.timed_out
    assert ran.stdout == "began\n"
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    assert until_gone(child)


def until_gone(stat: Path) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        os.sched_yield()
    return False


def test_what_is_no_text_is_replaced(tmp_path: Path) -> None:
    program(tmp_path, "squeue", r"printf '1|\377|x'")
    assert commands(tmp_path).run(("squeue",), 5).stdout == "1|\ufffd|x"


def test_times_are_seconds_for_us_but_not_for_the_jobs(tmp_path: Path) -> None:
    for name in ("sbatch", "squeue"):
        program(tmp_path, name, 'echo "${SLURM_TIME_FORMAT:-as the site has it}"')
    made = commands(tmp_path)
    assert made.run(("squeue",), 5).stdout == "%s\n"
    assert made.run(("sbatch",), 5).stdout == "as the site has it\n"


def test_a_job_s_own_settings_are_not_handed_on_to_the_jobs_it_submits() -> None:
    mine = {
        "SLURM_JOB_ID": "5",
        "SLURM_CPUS_PER_TASK": "9",
        "SBATCH_PARTITION": "x",
        "SQUEUE_FORMAT": "%i",
        "SACCT_FORMAT": "x",
        "SLURM_CONF": "/etc/slurm.conf",
        "PATH": "/bin",
        "HOME": "/h",
    }
    kept = {"SLURM_CONF": "/etc/slurm.conf", "PATH": "/bin", "HOME": "/h"}
    assert build_environment(mine) == kept


# ------------ questions to the controller hold nobody up, and their faults
def until(holds: threading.Event) -> None:
    assert holds.wait(5)


def test_no_second_question_while_one_is_under_way() -> None:
    questions, asked, release = OwnThread(), threading.Event(), threading.Event()

    def hangs() -> None:
        asked.set()
        release.wait(5)

    second = threading.Event()
    questions.put(hangs)
    until(asked)
    questions.put(second.set)
    release.set()
    assert not second.wait(0.1)


def ask_until_it_ends(questions: OwnThread) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        questions.put(lambda: None)


def test_a_fault_reaches_the_next_who_asks() -> None:
    questions = OwnThread()

    def breaks() -> None:
        raise ZeroDivisionError("a bug")

    questions.put(breaks)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        ask_until_it_ends(questions)
    done = threading.Event()
    questions.put(done.set)
    until(done)
