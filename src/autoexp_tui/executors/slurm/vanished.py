"""Why tasks left the queue without a trace: cancelled by somebody, or forgotten.

Slurm keeps no record of a task that was cancelled before its array was split, nor of
any job that ended longer ago than it remembers. What tells a cancelled task from one
that a crashed controller forgot: its array is still known, or the controller has not
been started again since the task was sent. The controller is asked for the latter only
when a task has vanished, once a task.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from autoexp_tui.effects.effects import TaskId
from autoexp_tui.engine.executor_port import Task
from autoexp_tui.executors.slurm.watch import Rows

CERTAIN_SECONDS = 10.0
"""Without a task whose array is known: the queue does not lack it by mistake."""
ROUNDING_SECONDS = 2.0
"""Slurm tells times in whole seconds."""


@dataclass(slots=True)
class VanishedTasks:
    """What is known of tasks that nobody lists any more."""

    uptime: Callable[[], float | None]
    """Seconds since the controller was started; None: it does not say. Asks it."""
    age: Callable[[Task], float | None]
    """Seconds since a task was ordered, by our own clock; None: nobody knows."""
    _cancelled: dict[TaskId, float] = field(default_factory=dict)
    """Seconds without the task after which it counts as cancelled."""
    _forgotten: set[TaskId] = field(default_factory=set)
    """The controller may have lost these: it was started again since they were sent."""

    def explain(
        self, vanished: Sequence[Task], rows: Rows, forgotten_after: float
    ) -> None:
        """Decide on tasks that left no exit record and that `rows` lack.

        Args:
            vanished: those whom neither queue nor accounting shows.
            rows: the answer of squeue that lacks them.
            forgotten_after: seconds for which the controller remembers ended jobs.
        """
        known = {
            (row.id.partition("_")[0], row.name.rpartition("-")[2])
            for row in rows.values()
        }
        new = [task for task in vanished if task.id not in self._cancelled]
        for task in new:
            if _is_in_array(task, known):
                self._cancelled[task.id] = CERTAIN_SECONDS
        asked = [task for task in new if not self._is_explained(task)]
        uptime = self.uptime() if asked else None
        if uptime is None:
            return
        for task in asked:
            age = self.age(task)
            if age is not None and uptime > age + ROUNDING_SECONDS:
                self._cancelled[task.id] = forgotten_after
            else:
                self._forgotten.add(task.id)

    def _is_explained(self, task: Task) -> bool:
        return task.id in self._cancelled or task.id in self._forgotten

    def cancelled_after(self, task: TaskId) -> float | None:
        """Seconds without it after which the task counts as cancelled by somebody;
        None: it may have been forgotten."""
        return self._cancelled.get(task)

    def may_be_forgotten(self, task: TaskId) -> bool:
        """Whether the controller was started again since the task was sent."""
        return task in self._forgotten

    def note_reappeared(self, task: TaskId) -> None:
        """The queue shows the task again."""
        self._cancelled.pop(task, None)
        self._forgotten.discard(task)

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        self._cancelled = {
            task: after for task, after in self._cancelled.items() if task in tasks
        }
        self._forgotten = {task for task in self._forgotten if task in tasks}


def _is_in_array(task: Task, known: Container[tuple[str, str]]) -> bool:
    """Whether the task is one of an array that is known, by its id and its token."""
    job, sep, _ = task.executor_id.partition("_")
    return bool(sep) and (job, task.token) in known
