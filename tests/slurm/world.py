"""A cluster as the executor contract sees it: real jobs, real Slurm."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autoexp_tui.adapters.clock import SystemClock
from autoexp_tui.adapters.slurm import SlurmExecutor, SlurmSettings
from autoexp_tui.adapters.slurm_commands import ClusterCommands
from autoexp_tui.adapters.slurm_submit import SubmitSettings
from autoexp_tui.adapters.slurm_watch import Rhythm
from autoexp_tui.adapters.wrapper_copy import install_wrapper
from autoexp_tui.core.effects import TaskId
from autoexp_tui.core.ids import safe_filename
from autoexp_tui.core.specs import Resources, Scalar
from autoexp_tui.engine.ports import (
    Executor,
    Task,
)
from autoexp_tui.testing.executor_contract import Does, Remembering
from tests.contract.test_local_executor import environments, script_of

PATIENCE = 60.0
"""Seconds before something that should happen counts as not happening."""
HALF: Mapping[str, Scalar] = {"nodes": 2, "exclusive": True, "time": 60}
"""Half of a cluster of four nodes: two such jobs run at a time."""


class SlurmWorld:
    """An `ExecutorWorld` over a throw-away cluster of four nodes."""

    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str],
        options: Mapping[str, Scalar] = HALF,
    ) -> None:
        self.root = root
        self.options = options
        self.tasks: list[Task] = []
        self.known: dict[TaskId, Task] = {}
        self.commands = ClusterCommands(environment)
        self.settings = SlurmSettings(
            submit=SubmitSettings(
                wrapper=install_wrapper(root / "session"),
                python=sys.executable,
                scripts=root / "scripts",
                array_logs=root / "log" / ".arrays",
                grace_seconds=1.0,
                submit_seconds=20.0,
            ),
            ask_seconds=20.0,
            settle_seconds=1.0,
            lost_seconds=3.0,
        )
        self.executor: Executor = self._engine()

    def _engine(self) -> Executor:
        rhythm = Rhythm(first=0.3, latest=0.3, soonest=0.2)
        settings = replace(self.settings, rhythm=rhythm)
        executor = SlurmExecutor(settings, self.commands, SystemClock())
        return Remembering(executor, self.known)

    def task(self, job: str, does: Does, *, attempt: int = 1) -> Task:
        return self.command(job, ("sh", "-c", script_of(does)), attempt=attempt)

    def command(self, job: str, words: Sequence[str], *, attempt: int = 1) -> Task:
        """A task that runs `words`."""
        name = safe_filename(job)
        task = Task(
            job=job,
            attempt=attempt,
            command=tuple(words),
            cwd=str(self.root / "out" / name),
            output_dir=str(self.root / "out" / name),
            log_dir=str(self.root / "log" / name),
            attempt_dir=str(self.root / "attempts" / name / str(attempt)),
            resources=Resources(options=self.options),
        )
        self.tasks.append(task)
        return task

    def until(self, holds: Callable[[], bool], patience: float = PATIENCE) -> bool:
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
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
