"""autoexp-run-sweep-entry: one job of a manifest, in the foreground."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.run_sweep_entry import main
from autoexp_tui.conditions.kinds import Approval, FileExists, JobStateIs
from autoexp_tui.executors.slurm.script import AROUND
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.specs import ExecutorSpec, Plan
from autoexp_tui.storage.done_file import check_done, read_done
from autoexp_tui.storage.manifests import get_entry_dir, write_manifest
from tests.e2e.campaign import wait_until
from tests.model.builders import job, plan


@dataclass(frozen=True, slots=True)
class Entries:
    """A manifest in a directory, and the command over it."""

    root: Path
    capfd: pytest.CaptureFixture[str]

    def write(self, scripts: dict[str, str], srun: str = "", **of_last: Any) -> Plan:
        """Jobs 0, 7, ... that run these shell scripts; `of_last`: of the last job."""
        jobs = [
            job(
                *(name, 7 * at),
                command=("sh", "-c", script),
                output_dir=str(self.root / "out" / name),
                log_dir=str(self.root / "logs" / name),
                cwd=str(self.root),
                fingerprint=f"print of {name}",
                **(of_last if at == len(scripts) - 1 else {}),
            )
            for at, (name, script) in enumerate(scripts.items())
        ]
        settings = {"srun_opts": srun}
        slurm = {"executor": ExecutorSpec(class_name="SlurmClient", settings=settings)}
        state = str(self.root / "state")
        made = plan(*jobs, state_dir=state, **(slurm if srun else {}))
        write_manifest(self.root / "state", made)
        return made

    def write_two(self, *conditions: Condition) -> Plan:
        """`b` waits."""
        scripts = {"a": "echo I am a", "b": "echo I am b"}
        return self.write(scripts, start_conditions=conditions, depends_on=("a",))

    @property
    def words(self) -> list[str]:
        (manifest,) = (self.root / "state" / "manifests").glob("plan_*.json")
        return ["--manifest", str(manifest)]

    def say(self, *argv: str) -> tuple[int, str, str]:
        return run_guarded(main, [*self.words, *argv]), *self.capfd.readouterr()

    def record(self, name: str) -> Any:
        path = get_entry_dir(self.root / "state", "p1", "a") / "1" / name
        return json.loads(path.read_text())


@pytest.fixture
def entries(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Entries:
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return Entries(tmp_path, capfd)


def test_an_entry_is_named_by_index_or_job_or_is_the_task_of_an_array(
    entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries.write_two()
    for argv in (["--index", "7"], ["--job", "b", "--force"]):
        code, out, err = entries.say(*argv)
        assert (code, out) == (0, "I am b\n")
        assert f", log {entries.root}/logs/b/slurm-entry-" in err
    task = {"ARRAY_TASK_ID": "7", "ARRAY_JOB_ID": "41", "JOB_ID": "43"}
    for name, value in task.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert entries.say("--force")[:2] == (0, "")
    log = entries.root / "logs" / "b" / "slurm-41_7.out"
    assert log.read_text() == "I am b\n"
    assert (log.parent / "current.log").resolve() == log


WHICH = """\
which entry?
  --index N, --job NAME, or SLURM_ARRAY_TASK_ID. entries: 0 a, 7 b
"""
KNOWN = "  entries: 0 a, 7 b\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("", WHICH),
        ("--index 3", f"the plan has no entry 3\n{KNOWN}"),
        ("--job bb", f"the plan has no entry bb\n{KNOWN}"),
        ("--job b --index 0", f"the plan has no entry b\n{KNOWN}"),
    ],
)
def test_an_entry_that_is_not_there_is_told_with_those_that_are(
    entries: Entries, argv: str, said: str
) -> None:
    entries.write_two()
    code, _, err = entries.say(*argv.split())
    assert (code, err) == (2, f"error: {said}")
    assert run_guarded(main, ["--index", "1"]) == 2
    assert entries.capfd.readouterr().err.startswith("error: which plan?\n")


def test_an_entry_s_srun_is_printed_has_a_shell_around_and_its_exit_status_is_ours(
    entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = entries.root / "srun"
    tool.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{entries.root}:{os.environ['PATH']}")
    entries.write({"a": "touch ran; exit 9"}, "-v", env={"X": "a b"})
    words = ["srun", "-v", "sh", "-c", "touch ran; exit 9"]
    assert entries.say("--index", "0", "--print")[1] == (
        f"# 0 a\ncd {entries.root}\nenv 'X=a b' {shlex.join(words)}\n"
    )
    tree = json.loads(entries.say("--index", "0", "--print", "--json")[1])
    assert tree["command"] == words
    assert not (entries.root / "ran").exists()  # so far
    assert entries.say("--index", "0")[0] == 9
    assert entries.record("task.json")["command"] == [*AROUND, *words]
    assert entries.record("exit.0.json")["exit_code"] == 9
    assert entries.record("begin.0.json")
    assert read_done(entries.root / "out" / "a") is None


def test_a_job_finds_its_environment_and_is_not_run_again_once_done_unless_forced(
    entries: Entries,
) -> None:
    show = "echo $AUTOEXP_JOB $AUTOEXP_ATTEMPT $AUTOEXP_RESUME $X; test -e well"
    entries.write({"a": show}, env={"X": "own"})
    assert entries.say("--index", "0")[:2] == (1, "a 1 0 own\n")
    (entries.root / "well").touch()
    assert entries.say("--index", "0")[:2] == (0, "a 2 1 own\n")
    told = "a is done already; --force runs it again\n"
    assert entries.say("--index", "0") == (0, "", told)
    assert entries.say("--index", "0", "--force")[1] == "a 3 1 own\n"


def test_an_entry_that_runs_already_is_refused(entries: Entries) -> None:
    entries.write_two()
    home = get_entry_dir(entries.root / "state", "p1", "a")
    home.mkdir(parents=True)
    with (home / "running").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = entries.say("--index", "0")
    assert (code, out) == (4, "")
    assert "a is being run by another process" in err


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1", "KILL"])
def test_a_signal_reaches_the_job_and_who_is_killed_outright_ends_it(
    entries: Entries, name: str
) -> None:
    trap = f"trap 'touch heard; exit 3' {name.replace('KILL', 'TERM')}"
    entries.write({"a": f"{trap}; touch up; while :; do sleep 0.1; done"})
    words = ["-m", "autoexp_tui.cli.run_sweep_entry", *entries.words, "--index", "0"]
    process = subprocess.Popen([sys.executable, *words])
    wait_until((entries.root / "up").exists)
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert process.wait(60) == (-signal.SIGKILL if name == "KILL" else 3)
    wait_until((entries.root / "heard").exists)


def test_an_entry_waits_for_what_it_depends_on_and_for_a_person(
    entries: Entries,
) -> None:
    one = entries.write_two(
        JobStateIs(jobs=("a",), state="COMPLETED"), Approval(prompt="Promote it?")
    )

    def listed(*argv: str) -> list[str]:
        """What is told of the start conditions."""
        code, out, err = entries.say(*argv)
        assert (code, out) == (3, "")
        assert ": its start conditions are not met\n  - " in err
        assert "--force runs it all the same" in err
        return [line[4:] for line in err.splitlines() if line.startswith("  - ")]

    assert listed("--job", "b") == ["a is not done", "your approval"]
    assert entries.say("--job", "a")[0] == 0
    assert listed("--job", "b") == ["your approval"]
    assert entries.say("--job", "b", "--force")[1] == "I am b\n"
    assert list(check_done(one).done) == ["a", "b"]
    provenance = entries.root / "out" / "a" / "provenance"
    assert json.loads((provenance / "command.json").read_text())[-1] == "echo I am a"
    never = FileExists(path=str(entries.root / "never"))
    entries.write({"c": "echo c"}, start_conditions=(never,))
    assert listed("--job", "c") == [never.path]
