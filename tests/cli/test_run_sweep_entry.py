"""autoexp-run-sweep-entry: one job of a manifest, in the foreground."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.run_sweep_entry import main
from autoexp_tui.conditions.kinds import (
    Approval,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MetadataIs,
    Not,
)
from autoexp_tui.executors.slurm.script import AROUND
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan
from autoexp_tui.storage.done_file import check_done, read_done
from autoexp_tui.storage.manifests import get_entry_dir, write_manifest
from tests.model.builders import job, plan

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def no_array(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def entry(tmp_path: Path, name: str, index: int, script: str, **more: Any) -> JobSpec:
    """A job that runs a shell script below `tmp_path`."""
    given: dict[str, Any] = {
        "command": ("sh", "-c", script),
        "output_dir": str(tmp_path / "out" / name),
        "log_dir": str(tmp_path / "logs" / name),
        "cwd": str(tmp_path),
        "fingerprint": f"print of {name}",
        **more,
    }
    return job(name, index, **given)


def kept(tmp_path: Path, *jobs: JobSpec, **fields: Any) -> Path:
    """The manifest of a plan of these jobs."""
    state = str(tmp_path / "state")
    return write_manifest(tmp_path / "state", plan(*jobs, state_dir=state, **fields))


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Say:
    def said(manifest: Path, *argv: str) -> tuple[int, str, str]:
        code = run_guarded(main, ["--manifest", str(manifest), *argv])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return said


def two(tmp_path: Path) -> Path:
    return kept(
        tmp_path,
        entry(tmp_path, "a", 0, "echo I am a"),
        entry(tmp_path, "b", 7, "echo I am b"),
    )


@pytest.mark.parametrize("argv", [["--index", "7"], ["--job", "b"]])
def test_an_entry_is_named_by_index_or_job(
    tmp_path: Path, say: Say, argv: list[str]
) -> None:
    code, out, err = say(two(tmp_path), *argv)
    assert (code, out) == (0, "I am b\n")
    assert err.startswith(f"b: attempt 1, log {tmp_path}/logs/b/slurm-entry-")


def test_of_an_array_the_task_is_the_entry(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = two(tmp_path)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "41")
    monkeypatch.setenv("SLURM_JOB_ID", "43")
    code, out, _ = say(manifest)
    log = tmp_path / "logs" / "b" / "slurm-41_7.out"
    assert (code, out) == (0, "")
    assert log.read_text() == "I am b\n"
    assert (log.parent / "current.log").resolve() == log


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            [],
            "error: which entry?\n  --index N, --job NAME, or SLURM_ARRAY_TASK_ID. "
            "entries: 0 a, 7 b\n",
        ),
        (
            ["--index", "3"],
            "error: --index: the plan has no entry 3\n  entries: 0 a, 7 b\n",
        ),
        (["--job", "bb"], "error: --job: the plan has no job 'bb'\n  jobs: a, b\n"),
        (
            ["--job", "b", "--index", "7"],
            "error: --index and --job name the entry twice\n  Leave one.\n",
        ),
    ],
)
def test_an_entry_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, say: Say, argv: list[str], said: str
) -> None:
    code, _, err = say(two(tmp_path), *argv)
    assert (code, err) == (2, said)


def test_without_a_manifest_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_guarded(main, ["--index", "1"]) == 2
    assert capsys.readouterr().err.startswith("error: which plan?\n")


def test_what_would_run_is_printed_and_nothing_runs(tmp_path: Path, say: Say) -> None:
    manifest = kept(
        tmp_path,
        entry(tmp_path, "a", 0, "touch ran", env={"X": "a b"}),
        executor=ExecutorSpec(
            class_name="SlurmClient", settings={"srun_opts": "--mpi=none"}
        ),
    )
    assert say(manifest, "--index", "0", "--print")[1] == (
        f"# 0 a\ncd {tmp_path}\nenv 'X=a b' srun --mpi=none sh -c 'touch ran'\n"
    )
    tree = json.loads(say(manifest, "--index", "0", "--print", "--json")[1])
    assert tree["command"] == ["srun", "--mpi=none", "sh", "-c", "touch ran"]
    assert not (tmp_path / "ran").exists()


def test_the_jobs_exit_status_is_ours_and_recorded(tmp_path: Path, say: Say) -> None:
    manifest = kept(tmp_path, entry(tmp_path, "a", 0, "exit 9"))
    assert say(manifest, "--index", "0")[0] == 9
    place = get_entry_dir(tmp_path / "state", "p1", "a") / "1"
    assert json.loads((place / "exit.0.json").read_text())["exit_code"] == 9
    assert (place / "begin.0.json").exists()
    assert read_done(tmp_path / "out" / "a") is None


def test_an_entry_s_srun_has_a_shell_around_for_the_sake_of_its_tasks(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "srun"
    tool.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    executor = ExecutorSpec(class_name="SlurmClient", settings={"srun_opts": "-v"})
    manifest = kept(tmp_path, entry(tmp_path, "a", 0, "exit 9"), executor=executor)
    assert say(manifest, "--index", "0")[0] == 9
    place = get_entry_dir(tmp_path / "state", "p1", "a") / "1"
    ran = json.loads((place / "task.json").read_text())["command"]
    assert ran == [*AROUND, "srun", "-v", "sh", "-c", "exit 9"]


def test_a_job_finds_its_environment_and_a_second_attempt_that_it_is_one(
    tmp_path: Path, say: Say
) -> None:
    show = "echo $AUTOEXP_JOB $AUTOEXP_ATTEMPT $AUTOEXP_RESUME $X; exit 1"
    manifest = kept(tmp_path, entry(tmp_path, "a", 0, show, env={"X": "own"}))
    assert say(manifest, "--index", "0")[1] == "a 1 0 own\n"
    assert say(manifest, "--index", "0")[1] == "a 2 1 own\n"


def test_a_completed_entry_is_not_run_again_unless_forced(
    tmp_path: Path, say: Say
) -> None:
    manifest = kept(tmp_path, entry(tmp_path, "a", 0, "echo ran"))
    say(manifest, "--index", "0")
    code, out, err = say(manifest, "--index", "0")
    assert (code, out) == (0, "")
    assert err == "a is done already; --force runs it again\n"
    assert say(manifest, "--index", "0", "--force")[1] == "ran\n"


def test_an_entry_that_runs_already_is_refused(tmp_path: Path, say: Say) -> None:
    manifest = two(tmp_path)
    home = get_entry_dir(tmp_path / "state", "p1", "a")
    home.mkdir(parents=True)
    with (home / "running").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = say(manifest, "--index", "0")
    assert (code, out) == (4, "")
    assert "a is being run by another process" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_reaches_the_job(tmp_path: Path, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'touch heard; exit 3' {name}; touch up; while :; do sleep 0.1; done"
    manifest = kept(tmp_path, entry(tmp_path, "a", 0, script))
    process = started(manifest)
    wait_for(tmp_path / "up")
    process.send_signal(number)
    assert process.wait(60) == 3
    assert (tmp_path / "heard").exists()


def test_who_kills_it_outright_ends_the_job(tmp_path: Path) -> None:
    script = "trap 'touch heard; exit 3' TERM; touch up; while :; do sleep 0.1; done"
    manifest = kept(tmp_path, entry(tmp_path, "a", 0, script))
    process = started(manifest)
    wait_for(tmp_path / "up")
    process.kill()
    process.wait(60)
    wait_for(tmp_path / "heard")


def started(manifest: Path) -> subprocess.Popen[bytes]:
    words: Sequence[str] = ("--manifest", str(manifest), "--index", "0")
    module = "autoexp_tui.cli.run_sweep_entry"
    return subprocess.Popen(
        [sys.executable, "-m", module, *words], env=dict(os.environ)
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


def waiting(tmp_path: Path, *conditions: Condition, **more: Any) -> Plan:
    first = entry(tmp_path, "a", 0, "echo a")
    second = entry(
        tmp_path, "b", 1, "echo b", start_conditions=conditions, depends_on=("a",)
    )
    return plan(first, second, state_dir=str(tmp_path / "state"), **more)


def test_conditions_that_are_not_met_are_all_told(tmp_path: Path, say: Say) -> None:
    one = waiting(
        tmp_path,
        JobStateIs(jobs=("a",), state="COMPLETED"),
        FileExists(path=str(tmp_path / "ckpt")),
        MetadataIs(job="a", key="iteration", op=">=", value=5),
        Approval(),
    )
    code, out, err = say(write_manifest(tmp_path / "state", one), "--job", "b")
    assert (code, out) == (3, "")
    assert err.startswith("error: b: its start conditions are not met\n  - ")
    assert err.count("\n  - ") == 4
    assert "  - a COMPLETED: waits for a to be completed\n" in err
    assert "--force runs it all the same" in err


def test_conditions_are_met_by_what_an_entry_has_done_and_by_files(
    tmp_path: Path, say: Say
) -> None:
    one = waiting(
        tmp_path,
        JobStateIs(jobs=("a",), state="COMPLETED"),
        FileExists(path=str(tmp_path / "ckpt"), writer="a"),
    )
    manifest = write_manifest(tmp_path / "state", one)
    assert say(manifest, "--job", "b")[0] == 3
    assert say(manifest, "--job", "a")[0] == 0
    assert say(manifest, "--job", "b")[2].count("\n  - ") == 1
    (tmp_path / "ckpt").touch()
    assert say(manifest, "--job", "b")[1] == "b\n"
    assert list(check_done(one).done) == ["a", "b"]
    provenance = tmp_path / "out" / "a" / "provenance"
    assert json.loads((provenance / "command.json").read_text())[-1] == "echo a"


def test_a_condition_is_told_with_what_it_looks_for_unless_the_reason_says_it(
    tmp_path: Path, say: Say
) -> None:
    missing, log = str(tmp_path / "ckpt"), str(tmp_path / "run.log")
    Path(log).touch()
    one = waiting(
        tmp_path,
        FileExists(path=missing, writer="a"),
        FileContent(path=log, pattern="saved"),
        LogPattern(log_path=log, pattern="saved"),
        Not(condition=FileExists(path=log)),
        FileExists(path=missing, description="the checkpoint"),
    )
    _, _, err = say(write_manifest(tmp_path / "state", one), "--job", "b")
    assert [line for line in err.splitlines() if line.startswith("  - ")] == [
        f"  - waits for {missing} of a",
        f'  - waits for "saved" in {log}',
        f"  - 'saved' in {log}: waits for \"saved\" in {log}",
        f"  - not {log}: it is so although it must not be: {log}",
        f"  - the checkpoint: waits for {missing}",
    ]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            lambda root: LogPattern(log_path=f"{root}/run.log", pattern="saved"),
            "'saved' in {root}/run.log: waits for a log at {root}/run.log: there is "
            "none yet\n",
        ),
        (
            lambda _: Approval(prompt="Promote it?"),
            "waits for your approval: Promote it? "
            "(a session asks; --force goes on as if approved)\n",
        ),
    ],
)
def test_what_is_not_there_yet_is_told_and_force_runs_it_all_the_same(
    tmp_path: Path, say: Say, condition: Callable[[Path], Condition], said: str
) -> None:
    one = waiting(tmp_path, condition(tmp_path))
    manifest = write_manifest(tmp_path / "state", one)
    assert said.format(root=tmp_path) in say(manifest, "--job", "b")[2]
    assert say(manifest, "--job", "b", "--force")[1] == "b\n"


def test_a_cancel_condition_that_holds_is_told(tmp_path: Path, say: Say) -> None:
    (tmp_path / "stop").touch()
    stop = FileExists(path=str(tmp_path / "stop"))
    manifest = kept(
        tmp_path, entry(tmp_path, "a", 0, "echo a", cancel_conditions=(stop,))
    )
    code, _, err = say(manifest, "--index", "0")
    assert code == 3
    assert "its cancel condition holds: " in err
