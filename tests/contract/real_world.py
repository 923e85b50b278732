"""What worlds of real processes share: tasks in one directory, looked at from outside.

A task's command notes each of its starts in `begun`; its processes are known by a
variable in their environment, wherever they were adopted.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.model.specs import Resources
from autoexp_tui.testing.executor_contract import Does
from tests.executors.wrapper_runs import list_processes, until
from tests.support.tasks import make_task


class RealWorld:
    """An `ExecutorWorld` under one directory; subclasses say which executor."""

    patience = 20.0
    """Seconds before something that should happen counts as not happening."""
    pause = 0.02
    """Between two looks."""

    def __init__(self, root: Path, resources: Resources | None = None) -> None:
        self.root = root
        self.resources = resources or Resources()
        self.tasks: list[Task] = []
        self.executor = self.engine()

    def engine(self) -> Executor:
        """The executor as the next engine would make it."""
        raise NotImplementedError

    def new_engine(self) -> None:
        self.executor = self.engine()

    def task(self, job: str, does: Does, *, attempt: int = 1) -> Task:
        return self.command(job, ("sh", "-c", script_of(does)), attempt=attempt)

    def command(self, job: str, words: Sequence[str], *, attempt: int = 1) -> Task:
        more = {"command": tuple(words), "resources": self.resources}
        task = make_task(self.root, job, attempt, **more)
        self.tasks.append(task)
        return task

    def until(self, holds: Callable[[], bool]) -> bool:
        return until(holds, self.patience, self.pause)

    def begun(self, task: Task) -> int:
        try:
            return len(Path(task.output_dir, "begun").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def living(self, task: Task) -> int:
        return len(list_processes(task.attempt_dir))

    def current_log(self, task: Task) -> str:
        return Path(task.log_dir, "current.log").read_text()

    def kill_supervisor(self, task: Task) -> None:
        claim = json.loads(Path(task.attempt_dir, "claim").read_text())
        os.kill(claim["process"]["pid"], signal.SIGKILL)


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
