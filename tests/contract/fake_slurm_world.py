"""The Slurm executor over a made-up cluster, on a manual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.executor import SlurmExecutor, SlurmSettings
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.executors.slurm.watch import Rhythm
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.specs import Resources, Scalar
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.testing.executor_contract import Does
from tests.support.fake_script import RunScript, Write
from tests.support.fake_slurm import FakeSlurm
from tests.support.fake_slurm_jobs import ClusterSettings
from tests.support.remembering import Remembering
from tests.support.tasks import make_task

STEP = 0.1
"""Seconds of made-up time between two looks."""
HALF: Mapping[str, Scalar] = {"nodes": 2, "exclusive": True, "time": 60}
"""Half of a cluster of four nodes: two such jobs run at a time."""


class FakeSlurmWorld:
    """An `ExecutorWorld` whose nodes, jobs and time are made up; its files are real."""

    def __init__(
        self,
        root: Path,
        settings: ClusterSettings | None = None,
        options: Mapping[str, Scalar] = HALF,
    ) -> None:
        self.root = root
        self.options = options
        self.clock = ManualClock()
        self.runs: dict[TaskId, tuple[RunScript, ...]] = {}
        self.left_behind: dict[TaskId, int] = {}
        self.known: dict[TaskId, Task] = {}
        self.slurm = FakeSlurm(self.clock, Ran, self._script, settings)
        self.cluster = self.slurm.cluster
        self.settings = SlurmSettings(
            submit=SubmitSettings(
                wrapper=root / "session" / "wrapper.py",
                python="python3",
                scripts=root / "scripts",
                array_logs=root / "log" / ".arrays",
                grace_seconds=1.0,
                submit_seconds=20.0,
            ),
            ask_seconds=20.0,
            settle_seconds=1.0,
            lost_seconds=3.0,
        )
        self.new_engine()

    executor: Executor

    def new_engine(self) -> None:
        self.slurm_executor = SlurmExecutor(
            replace(self.settings, rhythm=Rhythm(first=0.3, latest=0.3, soonest=0.2)),
            self.slurm,
            self.clock,
        )
        self.executor = Remembering(self.slurm_executor, self.known)

    def _script(self, task: Task) -> tuple[RunScript, ...]:
        return self.runs[task.id]

    def task(self, job: str, does: Does, *, attempt: int = 1) -> Task:
        task = self.runs_as(job, make_run_script(does), attempt=attempt)
        self.left_behind[task.id] = does.leaves_behind
        return task

    def runs_as(self, job: str, *runs: RunScript, attempt: int = 1) -> Task:
        asked = Resources(options=self.options)
        task = make_task(self.root, job, attempt, resources=asked)
        self.runs[task.id] = runs
        return task

    def until(self, holds: Callable[[], bool]) -> bool:
        for _ in range(4000):
            if holds():
                return True
            self.clock.advance(STEP)
        return False

    def begun(self, task: Task) -> int:
        self.cluster.settle()
        return sum(begun[0] == task.id for begun in self.cluster.begun)

    def living(self, task: Task) -> int:
        if task.id not in self.cluster.living():
            return 0
        return 1 + self.left_behind.get(task.id, 0)

    def current_log(self, task: Task) -> str:
        return Path(task.log_dir, "current.log").read_text()

    def kill_supervisor(self, task: Task) -> None:
        self.cluster.settle()
        self.cluster.kill_supervisor(task.id)


def make_run_script(does: Does) -> RunScript:
    text = f"{does.prints}\n" if does.prints else ""
    return RunScript(
        seconds=does.seconds,
        exit_code=does.exit_code,
        signal=does.dies_of,
        ignores_term=does.ignores_term,
        writes=(Write(at=0.0, data=text.encode()),) if text else (),
    )
