"""What is kept of a run before a rule ends it: real processes, made-up tools."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.engine.ports import Kept, TerminationContext
from autoexp_tui.executors import evidence_probe
from autoexp_tui.executors.diagnostics import (
    LOG_BYTES,
    MOST_NODES,
    Evidence,
    install_probe,
    look_by_srun,
    look_here,
)
from autoexp_tui.executors.slurm.commands import Ran
from tests.executors.slurm_scripted import SILENT, ScriptedCommands, fails, says
from tests.executors.wrapper_runs import until
from tests.support.tasks import make_task

HANGS = "echo begun; sleep 300 & wait"


class Scene:
    """A run about to be ended; no tool that looks is on its PATH until one is added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "attempt"
        self.place = self.home / "evidence" / "1-stall"
        self.tools = root / "bin"
        self.tools.mkdir()
        for name in ("sh", "sleep"):
            (self.tools / name).symlink_to(f"/bin/{name}")
        self.look_beside: Any = partial(look_here, install_probe(root / "s"))

    def add_tool(self, name: str, script: str) -> None:
        (self.tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.tools / name).chmod(0o755)

    def look(self, *, log_only: bool = False, seconds: float = 20) -> Kept:
        task = make_task(
            self.root, "a\x1b[31m", attempt_dir=str(self.home), executor_id="77_3"
        )
        termination = TerminationContext(
            task=task,
            run=0,
            node="n1",
            log_path=str(self.root / "run.log"),
            directory=str(self.place),
            reason="no step after 10",
            log_only=log_only,
            seconds=seconds,
        )
        return Evidence(self.look_beside).capture(termination)

    def look_by_slurm(
        self, srun: Ran, squeue: Ran | None = None
    ) -> tuple[Kept, ScriptedCommands]:
        """A look by srun, which answers so, after squeue has."""
        known = squeue or says("1234 2\n")
        commands = ScriptedCommands({"squeue": known, "srun": srun})
        probe = self.root / "probe.py"
        self.look_beside = partial(look_by_srun, probe, "/opt/python", commands)
        return self.look(), commands

    def kept(self, pattern: str) -> str:
        (path,) = self.place.glob(pattern)
        return path.read_text()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene(tmp_path)
    monkeypatch.setenv("PATH", str(made.tools))
    return made


@pytest.fixture
def hung(scene: Scene) -> Iterator[int]:
    """A Python process of the attempt that does nothing any more."""
    begun = scene.root / "begun"
    code = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(300)"
    environment = os.environ | {"AUTOEXP_ATTEMPT_DIR": str(scene.home)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    assert until(begun.exists)
    yield process.pid
    process.kill()
    process.wait()


def test_the_end_of_the_log_is_kept_without_what_could_steer_a_terminal(
    scene: Scene,
) -> None:
    log = b"old\n" * LOG_BYTES + b"\x1b]0;title\x07step 10\r\nlast \xff\n"
    (scene.root / "run.log").write_bytes(log)
    scene.look(log_only=True)
    assert sorted(os.listdir(scene.place)) == ["log-tail.txt", "summary.txt"]
    tail = scene.kept("log-tail.txt")
    assert tail.endswith("old\nstep 10\nlast \ufffd\n")
    assert len(tail) <= LOG_BYTES
    modes = {path.stat().st_mode & 0o077 for path in scene.home.rglob("*")}
    assert modes == {0}  # others cannot read it


def test_a_disk_that_refuses_is_told(scene: Scene) -> None:
    scene.home.write_text("in the way")
    kept = scene.look()
    assert kept.directory == ""
    assert kept.summary.startswith("nothing could be kept: ")


def test_the_processes_of_the_attempt_are_listed(scene: Scene, hung: int) -> None:
    """And the summary says which tools there are not."""
    scene.look()
    head, row = scene.kept("*/processes.txt").splitlines()
    assert head.split()[:3] == ["pid", "parent", "state"]
    assert row.split()[:3] == [str(hung), str(os.getpid()), "S"]
    assert row.endswith("time.sleep(300)")
    summary = scene.kept("summary.txt")
    assert "stacks: none, py-spy is not on PATH" in summary
    assert "GPUs: nothing, nvidia-smi is not on PATH" in summary
    assert summary.startswith("a, attempt 1, run 0\nended because: no step after 10\n")


def test_processes_below_the_command_are_found_though_they_bear_no_mark(
    hung: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hung in evidence_probe.processes_of("/another", os.getpid())
    gone = 2**22 - 1  # since the list was made
    monkeypatch.setattr(os, "listdir", lambda _: [str(gone), str(hung)])
    assert evidence_probe.processes_of("/another", hung) == [hung]


@pytest.mark.parametrize(
    ("script", "said", "told"),
    [
        ("printf 'MainThread of %s\\033[2J\\n' $3", "MainThread of {}\n", "{}"),
        ("echo 'Permission denied' >&2; exit 1", "Permission denied\n", "failed (1)"),
    ],
)
def test_each_python_process_is_asked_for_its_stack(
    script: str, said: str, told: str, scene: Scene, hung: int
) -> None:
    """What a tool prints cannot steer a terminal; one that may not look is told."""
    scene.add_tool("py-spy", script)
    kept = scene.look()
    assert scene.kept(f"*/py-spy.{hung}.txt") == said.format(hung)
    told = told.format(f"py-spy.{hung}.txt")
    assert f"py-spy dump --pid {hung}: {told}" in kept.summary


def test_a_tool_that_hangs_costs_no_more_than_its_time(scene: Scene, hung: int) -> None:
    scene.add_tool("py-spy", HANGS)
    scene.add_tool("nvidia-smi", HANGS)
    begun = time.monotonic()
    kept = scene.look(seconds=2.0)
    assert time.monotonic() - begun < 2.0
    assert kept.summary.count("not finished in time") == 2
    assert scene.kept("*/py-spy.*.txt") == "begun\n"
    assert until(lambda: not is_running(str(scene.tools / "py-spy")))


def is_running(script: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if script.encode() in path.read_bytes():
                return True
    return False


def test_slurm_runs_the_look_beside_the_job_on_each_of_its_nodes(scene: Scene) -> None:
    words = scene.look_by_slurm(says())[1].ran[-1]
    assert words[:3] == ("srun", "--jobid=1234", "--overlap")
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1"} <= set(words)
    probe, place, home = scene.root / "probe.py", scene.place, scene.home
    expected = ("/opt/python", "-I", f"{probe}", f"{place}", f"{home}")
    python = words.index("/opt/python")
    assert words[python : python + 5] == expected
    many = scene.look_by_slurm(says(), says("1234 1024\n"))[1].ran[-1]
    assert f"--nodes={MOST_NODES}" in many


def test_what_slurm_refuses_is_told_and_a_job_that_is_not_known_not_looked_at(
    scene: Scene,
) -> None:
    for srun, squeue, said in (
        (fails("Invalid job id"), None, "processes: srun: Invalid job id"),
        (SILENT, None, "processes: srun did not answer within 17 s"),
        (says(), says(""), "processes: not looked at: squeue does not know 77_3"),
        (says(), fails("Invalid job"), "processes: not looked at: squeue: Invalid"),
    ):
        kept, commands = scene.look_by_slurm(srun, squeue)
        assert said in kept.summary
        assert commands.calls["srun"] == (squeue is None)
