"""The local executor keeps the contract, with real processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoexp_tui.adapters.clock import SystemClock
from autoexp_tui.adapters.identity import Alive, Identity
from autoexp_tui.adapters.local import LocalExecutor
from autoexp_tui.adapters.local_start import LocalSettings
from autoexp_tui.adapters.processes import kill_left_behind
from autoexp_tui.adapters.records import read_attempt
from autoexp_tui.adapters.wrapper_copy import install_wrapper
from autoexp_tui.core.ids import safe_filename
from autoexp_tui.engine.ports import Task
from autoexp_tui.testing.executor_contract import Does, ExecutorContract

PATIENCE = 20.0
"""Seconds before something that should happen counts as not happening."""


class LocalWorld:
    """An `ExecutorWorld` of real processes under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tasks: list[Task] = []
        self.settings = LocalSettings(
            wrapper=install_wrapper(root / "session"),
            python=sys.executable,
            slots=2,
            slots_dir=root / "slots",
            grace_seconds=0.4,
            settle_seconds=0.2,
            cancel_poll_seconds=0.2,
        )
        self.executor = self._engine()

    def _engine(self) -> LocalExecutor:
        return LocalExecutor(self.settings, SystemClock())

    def task(self, job: str, does: Does, *, attempt: int = 1) -> Task:
        name = safe_filename(job)
        task = Task(
            job=job,
            attempt=attempt,
            command=("sh", "-c", script_of(does)),
            cwd=str(self.root / "out" / name),
            output_dir=str(self.root / "out" / name),
            log_dir=str(self.root / "log" / name),
            attempt_dir=str(self.root / "attempts" / name / str(attempt)),
        )
        self.tasks.append(task)
        return task

    def until(self, holds: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def begun(self, task: Task) -> int:
        try:
            return len(Path(task.output_dir, "begun").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def living(self, task: Task) -> int:
        cookie = os.fsencode(f"AUTOEXP_ATTEMPT_DIR={task.attempt_dir}")
        return sum(cookie in environment for environment in environments())

    def current_log(self, task: Task) -> str:
        return Path(task.log_dir, "current.log").read_text()

    def kill_supervisor(self, task: Task) -> None:
        claim = json.loads(Path(task.attempt_dir, "claim").read_text())
        os.kill(claim["process"]["pid"], signal.SIGKILL)

    def new_engine(self) -> None:
        self.executor = self._engine()

    def close(self) -> None:
        me = Identity.of_this_process()
        for task in self.tasks:
            supervisor = read_attempt(task.attempt_dir).supervisor
            if supervisor and supervisor.alive(me) is Alive.YES:
                os.kill(supervisor.pid, signal.SIGKILL)
            if supervisor:
                kill_left_behind(task.attempt_dir)


def script_of(does: Does) -> str:
    """The wanted behaviour as a shell script."""
    lines = ["trap '' TERM"] if does.ignores_term else []
    lines.append("echo $$ >> begun")
    if does.prints:
        lines.append(f"printf '%s\\n' {shlex.quote(does.prints)}")
    ways = ["sleep 300 &", "setsid sleep 300 &", "(setsid sleep 300 &)"]
    lines += ways[: does.leaves_behind]
    if does.seconds:
        lines.append(f"sleep {does.seconds}")
    if does.dies_of:
        lines.append(f"kill -{does.dies_of} $$")
    return "\n".join([*lines, f"exit {does.exit_code}"])


def environments() -> Iterator[list[bytes]]:
    """The environment of every process that we may look at."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                yield Path("/proc", name, "environ").read_bytes().split(b"\0")
            except OSError:
                continue


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    made = LocalWorld(tmp_path)
    yield made
    made.close()


class TestLocalExecutor(ExecutorContract):
    """All promises of the contract, with real processes."""
