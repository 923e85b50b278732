"""A file system that does not answer, in a real engine with real threads and jobs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec
from tests.e2e.campaign import build_job, run_command, save_plan, wait_until

ENGINE = """
import os, sys, threading

hung = sys.argv.pop(1)
real = os.stat

def stat(path, *args, **fields):
    if isinstance(path, str) and path.startswith(hung):
        threading.Event().wait()
    return real(path, *args, **fields)

os.stat = stat
from autoexp_tui.probes import mounts
from autoexp_tui.engine import mount_workers as lanes

mounts.mount_points = lambda table: frozenset({"/", hung})
lanes.SILENT_SECONDS = 1.0
from autoexp_tui.cli.run import entry

sys.exit(entry())
"""
"""autoexp-run on a machine where one mount point hangs at every stat."""


@dataclass
class Running:
    """An engine at work beside the disk that hangs."""

    root: Path
    process: subprocess.Popen[str]

    @property
    def hung(self) -> str:
        return str(self.root / "scratch")

    def shown(self) -> str:
        """What `autoexp-sessions show` says; empty before there is a session."""
        state = self.root / "state"
        sessions = [path.parent.name for path in state.glob("*/journal.jsonl")]
        if not sessions:
            return ""
        words = ("show", sessions[0], "--state-dir", str(state))
        return run_command(self.root, "sessions", *words).stdout


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    _save_plan(tmp_path)
    words = ["--manifest", "plan.json", "--state-dir", str(tmp_path / "state"), "--yes"]
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path / "scratch"), *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield Running(tmp_path, process)
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def _save_plan(root: Path) -> None:
    def job(name: str, index: int, *waits: Path) -> JobSpec:
        conditions = tuple(FileExists(path=str(path)) for path in waits)
        words = ("touch", str(root / f"{name}.done"))
        return build_job(root, name, index, *words, start_conditions=conditions)

    jobs = (
        job("stuck", 0, root / "scratch" / "never"),
        job("first", 1),
        job("second", 2, root / "first.done"),
    )
    save_plan(root, jobs, Monitoring(poll_seconds=0.2), slots=2)


@pytest.mark.slow
def test_all_else_goes_on_and_the_wait_says_who_does_not_answer(
    running: Running,
) -> None:
    wait_until(lambda: (running.root / "second.done").exists())
    wait_until(lambda: f"no answer from {running.hung}" in running.shown())
    assert running.process.poll() is None


@pytest.mark.slow
def test_the_engine_ends_at_once_when_it_is_told_to(running: Running) -> None:
    wait_until(lambda: (running.root / "second.done").exists())
    running.process.send_signal(signal.SIGINT)
    _, err = running.process.communicate(timeout=20)
    assert running.process.returncode == 130
    assert "autoexp-run --session" in err
