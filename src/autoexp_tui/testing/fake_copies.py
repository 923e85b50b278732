"""What a fake executor holds: tasks as it took them, their runs, and how they look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autoexp_tui.engine.executor_port import (
    BeginRecord,
    ExitRecord,
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.fake_script import RunScript


@dataclass(slots=True, kw_only=True)
class FakeRun:
    """One begun run. Times are monotonic; None: not yet."""

    script: RunScript
    begin: BeginRecord
    began_at: float
    ended_at: float | None = None
    exit: ExitRecord | None = None
    exit_seen_at: float = 0.0
    """When the exit record appears."""
    cause: Cause | None = None
    asked: bool = False
    """It was asked to end."""
    written: int = 0
    """Bytes in its log."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """One task as the queue took it. Times are monotonic; None: not yet."""

    task: Task
    token: str
    executor_id: str
    taken_at: float
    submitted_utc: float
    scripts: Sequence[RunScript]
    runs: list[FakeRun] = field(default_factory=list)
    over_at: float | None = None
    """When it left the queue for good."""
    cause: Cause | None = None
    duplicate: bool = False
    """It lost the claim and did nothing."""

    @property
    def running(self) -> bool:
        """Whether a run of it is alive now."""
        return bool(self.runs) and self.runs[-1].ended_at is None

    @property
    def script(self) -> RunScript:
        """What its next run does."""
        return self.scripts[min(len(self.runs), len(self.scripts) - 1)]


@dataclass(frozen=True, slots=True)
class Begun:
    """A command was started: the thing that must not happen twice."""

    task: TaskId
    run: int
    executor_id: str
    at: float


def absent(task: Task) -> TaskReport:
    return TaskReport(job=task.job, attempt=task.attempt, phase=TaskPhase.ENDED)


def report_of(copy: Copy, seen: float) -> TaskReport:
    """What was to be seen of a copy at `seen`."""
    begun = [run for run in copy.runs if run.began_at <= seen]
    run = begun[-1] if begun else None
    over = copy.over_at is not None and copy.over_at <= seen
    phase = _phase(run, seen, over=over)
    return TaskReport(
        job=copy.task.job,
        attempt=copy.task.attempt,
        phase=phase,
        executor_id=copy.executor_id,
        began=run.begin if run else None,
        exited=run.exit if run and over and run.exit_seen_at <= seen else None,
        cause=copy.cause if over else None,
        requeued=run is not None and phase is TaskPhase.QUEUED,
        reason="Resources" if phase is TaskPhase.QUEUED else "",
        node=run.begin.host if run else "",
    )


def _phase(run: FakeRun | None, seen: float, *, over: bool) -> TaskPhase:
    if over:
        return TaskPhase.ENDED
    if run is not None and (run.ended_at is None or run.ended_at > seen):
        return TaskPhase.RUNNING
    return TaskPhase.QUEUED
