"""What Slurm said last of a task's run, when it says nothing any more.

The controller forgets ended jobs, and accounting gives an answer now and then that
lacks them. A word on an end that was heard once stays true for its run.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Generic, TypeVar

from autoexp_tui.adapters.slurm_text import AccountRow, QueueRow, Standing
from autoexp_tui.core.effects import TaskId

R = TypeVar("R", QueueRow, AccountRow)


class LastWords(Generic[R]):
    """The newest row of each task, with the run that was known then."""

    def __init__(self) -> None:
        self._heard: dict[TaskId, tuple[int, R]] = {}

    def of(self, task: TaskId, run: int, executor_id: str, row: R | None) -> R | None:
        """`row`; without one the last word on an end, if on this very run.

        Args:
            task: whose row it is.
            run: the newest run that its records tell of; -1 before any.
            executor_id: what Slurm calls the start that counts.
            row: what Slurm says now.
        """
        if row is not None:
            self._heard[task] = run, row
            return row
        if task not in self._heard:
            return None
        of, heard = self._heard[task]
        ended = heard.state.standing is Standing.ENDED
        return heard if ended and (of, heard.id) == (run, executor_id) else None

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        self._heard = {task: row for task, row in self._heard.items() if task in tasks}
