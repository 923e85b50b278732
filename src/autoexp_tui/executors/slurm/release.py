"""Jobs that a controller failed to launch, and holds: they are released, a few times.

A controller that is killed while it launches a job leaves it PENDING with `launch
failed requeued held`, and so does a sick node. It never starts until it is released.
Released again and again it would hide what is broken: after a few times a person has
to look.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.effects.effects import TaskId
from autoexp_tui.executors.slurm.messages import reason_code
from autoexp_tui.executors.slurm.text import QueueRow, Standing

WAITS: Final = (0.0, 30.0, 120.0)
"""Seconds before each release, from the one before on; then a person has to look."""


def failed_to_launch(row: QueueRow | None) -> bool:
    """Whether Slurm holds a job because it could not launch it."""
    if row is None or row.state.standing is not Standing.QUEUED:
        return False
    return reason_code(row.reason) == "launch_failed_requeued_held"


@dataclass(slots=True)
class LaunchReleases:
    """How often each held task was released, and when last; monotonic seconds."""

    _released: dict[TaskId, tuple[int, float]] = field(default_factory=dict)

    def is_due(self, task: TaskId, now: float) -> bool:
        """Whether a task that is held just now is to be released."""
        times, at = self._released.get(task, (0, 0.0))
        return times < len(WAITS) and now - at >= WAITS[times]

    def note(self, task: TaskId, now: float) -> None:
        """The task was released."""
        self._released[task] = (self.times(task) + 1, now)

    def times(self, task: TaskId) -> int:
        """How often the task was released."""
        return self._released.get(task, (0, 0.0))[0]

    def is_given_up(self, task: TaskId) -> bool:
        """Whether a task that is held just now is not released again."""
        return self.times(task) >= len(WAITS)

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        self._released = {
            task: told for task, told in self._released.items() if task in tasks
        }
