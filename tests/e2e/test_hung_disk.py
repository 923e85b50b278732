"""A file system that does not answer, in a real engine with real threads and jobs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan
from autoexp_tui.storage.json_codec import encode_plan

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
        words = ["show", sessions[0], "--state-dir", str(state)]
        command = [sys.executable, "-m", "autoexp_tui.cli.sessions", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "plan.json").write_bytes(encode_plan(_plan(tmp_path)))
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


def _plan(root: Path) -> Plan:
    def job(name: str, index: int, *waits: Path) -> JobSpec:
        done = root / f"{name}.done"
        return JobSpec(
            name=name,
            index=index,
            command=("touch", str(done)),
            output_dir=str(root / "out" / name),
            log_dir=str(root / "logs" / name),
            start_conditions=tuple(FileExists(path=str(path)) for path in waits),
        )

    return Plan(
        plan_id="hung",
        name="hung",
        state_dir=str(root / "state"),
        jobs=(
            job("stuck", 0, root / "scratch" / "never"),
            job("first", 1),
            job("second", 2, root / "first.done"),
        ),
        executor=ExecutorSpec(settings={"slots": 2}),
        monitoring=Monitoring(poll_seconds=0.2),
    )


def _until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


@pytest.mark.slow
def test_all_else_goes_on_and_the_wait_says_who_does_not_answer(
    running: Running,
) -> None:
    _until(lambda: (running.root / "second.done").exists())
    _until(lambda: f"no answer from {running.hung}" in running.shown())
    assert running.process.poll() is None


@pytest.mark.slow
def test_the_engine_ends_at_once_when_it_is_told_to(running: Running) -> None:
    _until(lambda: (running.root / "second.done").exists())
    running.process.send_signal(signal.SIGINT)
    _, err = running.process.communicate(timeout=20)
    assert running.process.returncode == 130
    assert "autoexp-run --session" in err
