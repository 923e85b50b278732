"""What Slurm said last of a task's run, when it says nothing any more.

The controller forgets ended jobs, and accounting gives an answer now and then that
lacks them. A word on an end that was heard once, to whatever question, stays true for
its run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from autoexp_tui.effects.effects import TaskId
from autoexp_tui.engine.executor_port import TaskReport
from autoexp_tui.executors.slurm.release import failed_to_launch
from autoexp_tui.executors.slurm.text import AccountRow, QueueRow, Standing
from autoexp_tui.executors.slurm.watch import NEVER, QueueWatch
from autoexp_tui.model.states import Cause

LATE_SECONDS: Final = 300.0
"""For which a word is listened for on an end that was judged without it."""

R = TypeVar("R", QueueRow, AccountRow)


@dataclass(slots=True)
class Since:
    """Since when something has held, by task or token; monotonic seconds."""

    times: dict[Any, float] = field(default_factory=dict)

    def note(self, key: object, *, holds: bool, now: float) -> float:
        """For how long it has held by now; 0 when it does not."""
        if not holds:
            self.times.pop(key, None)
            return 0.0
        return now - self.times.setdefault(key, now)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A task as its records tell of it."""

    task: TaskId
    run: int
    """The newest that has begun; -1 before any."""
    executor_id: str
    """What Slurm calls the start that counts."""
    token: str


class SlurmWords:
    """What queue and accounting say of tasks, or said last."""

    def __init__(self, watch: QueueWatch) -> None:
        self._watch = watch
        self._rows: LastWords[QueueRow] = LastWords()
        self._accounts: LastWords[AccountRow] = LastWords()

    def listen(self, starts: Iterable[Start]) -> None:
        """Take in the ends that were told since, whoever had asked.

        A cancel or an adoption asks too, and the next answer may lack the task again.
        """
        told = self._watch.take_ends()
        if not told.rows and not told.accounts:
            return
        for start in starts:
            key = start.task, start.run, start.executor_id
            self._rows.of(*key, told.row(start.executor_id, start.token))
            self._accounts.of(*key, told.account(start.executor_id, start.token))

    def of(self, start: Start) -> tuple[QueueRow | None, AccountRow | None]:
        """The task's rows."""
        key = start.task, start.run, start.executor_id
        row = self._watch.row(start.executor_id, start.token)
        account = self._watch.account(start.executor_id, start.token)
        return self._rows.of(*key, row), self._accounts.of(*key, account)

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        self._rows.keep_only(tasks)
        self._accounts.keep_only(tasks)


class LateWords:
    """Slurm's words on ends that were judged without them, told once."""

    def __init__(self, watch: QueueWatch) -> None:
        self._watch = watch
        self._judged: dict[TaskId, tuple[Start, TaskReport, float]] = {}

    def expect(self, start: Start, report: TaskReport, now: float) -> None:
        """Listen for a while for a word on the end that `report` tells of."""
        self._judged.setdefault(start.task, (start, report, now))

    def reports(self, now: float) -> Iterator[TaskReport]:
        """The ends that Slurm gives another cause than exit 0."""
        for task, (start, report, since) in list(self._judged.items()):
            told = start.executor_id, start.token
            row = self._watch.row(*told) or self._watch.account(*told)
            ended = row is not None and row.state.standing is Standing.ENDED
            if ended or now - since > LATE_SECONDS:
                del self._judged[task]
            if row is not None and row.state.cause is Cause.OUT_OF_MEMORY:
                yield replace(report, late_cause=row.state.cause)

    def left_over(self) -> Iterator[str]:
        """Ids of those that are held for a failed launch, although they have run."""
        for start, _, _ in self._judged.values():
            row = self._watch.row(start.executor_id, start.token)
            if failed_to_launch(row):
                yield start.executor_id


class Silence:
    """For how long accounting has had no end of a task, by its answers alone.

    One answer that lacks it is not absence: accounting trails, and gives an old answer
    now and then. Nor is one that was asked of later jobs only.
    """

    def __init__(self, watch: QueueWatch) -> None:
        self._watch = watch
        self._lacked: dict[TaskId, tuple[float, float]] = {}
        """When the first and the newest question was put that found none; monotonic."""

    def of(self, task: TaskId, *, since: float, news_at: float) -> float:
        """Seconds from the first to the newest answer that lacked the end.

        Args:
            task: whose end it is.
            since: UTC; an answer of jobs since later says nothing of the task.
            news_at: monotonic; an answer to an older question knows nothing of it.
        """
        first, newest = self._lacked.get(task, (NEVER, NEVER))
        if first <= news_at:
            first = newest = NEVER
        at = self._watch.accounted_at
        if at > news_at and self._watch.accounted_since <= since:
            first, newest = (at if first == NEVER else first), at
        self._lacked[task] = first, newest
        return 0.0 if first == NEVER else newest - first

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        self._lacked = {task: at for task, at in self._lacked.items() if task in tasks}
