"""What the polls of a task told before: Slurm's last words, releases, disappearances.

The controller forgets ended jobs, and accounting gives an answer now and then that
lacks them. A word on an end that was heard once, to whatever question, stays true for
its run.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from autoexp_tui.engine.executor_port import Task, TaskReport
from autoexp_tui.executors.slurm.messages import parse_reason
from autoexp_tui.executors.slurm.text import AccountRow, QueueRow, Standing
from autoexp_tui.executors.slurm.watch import NEVER, QueueWatch, Rows, Told
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause

LATE_SECONDS: Final = 300.0
"""For which a word is listened for on an end that was judged without it."""

R = TypeVar("R", QueueRow, AccountRow)


class TaskTables:
    """What is kept of tasks: each attribute that is a dict is a table by task."""

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        for table in vars(self).values():
            if isinstance(table, dict):
                # In a copy, without complaint: other threads forget tasks as well.
                for task in [one for one in list(table) if one not in tasks]:
                    table.pop(task, None)


class Since(TaskTables):
    """Since when something has held, by task or token; monotonic seconds."""

    def __init__(self) -> None:
        self.times: dict[Any, float] = {}

    def note(self, key: object, *, holds: bool, now: float) -> float:
        """For how long it has held by now; 0 when it does not."""
        if not holds:
            self.times.pop(key, None)
            return 0.0
        return now - self.times.setdefault(key, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A task as its records tell of it."""

    task: TaskId
    run: int
    """The newest that has begun; -1 before any."""
    executor_id: str
    """What Slurm calls the start that counts."""
    token: str


class LastWords(TaskTables, Generic[R]):
    """The newest row of each task, with the run that was known then."""

    def __init__(self) -> None:
        self._heard: dict[TaskId, tuple[int, R]] = {}

    def update(self, start: Start, row: R | None) -> R | None:
        """`row`, which Slurm says now; without one the last word on an end, if on this
        very run."""
        if row is not None:
            self._heard[start.task] = start.run, row
            return row
        run, heard = self._heard.get(start.task, (start.run, None))
        if heard is None or heard.state.standing is not Standing.ENDED:
            return None
        return heard if (run, heard.id) == (start.run, start.executor_id) else None


class SlurmWords:
    """What queue and accounting say of tasks, or said last."""

    def __init__(self, watch: QueueWatch) -> None:
        self._watch = watch
        self._rows: LastWords[QueueRow] = LastWords()
        self._accounts: LastWords[AccountRow] = LastWords()

    def note_ends(self, starts: Iterable[Start]) -> None:
        """Take in the ends that were told since, whoever had asked.

        A cancel or an adoption asks too, and the next answer may lack the task again.
        """
        told = self._watch.take_ends()
        if told.rows or told.accounts:
            for start in starts:
                self._update(start, told)

    def get(self, start: Start) -> tuple[QueueRow | None, AccountRow | None]:
        """The task's rows."""
        return self._update(start, self._watch.told)

    def _update(
        self, start: Start, told: Told
    ) -> tuple[QueueRow | None, AccountRow | None]:
        named = start.executor_id, start.token
        row, account = told.find_row(*named), told.find_account(*named)
        return self._rows.update(start, row), self._accounts.update(start, account)

    def keep_only(self, tasks: Container[TaskId]) -> None:
        """Nobody asks about the others any more."""
        self._rows.keep_only(tasks)
        self._accounts.keep_only(tasks)


class LateWords:
    """Slurm's words on ends that were judged without them, told once."""

    def __init__(self, watch: QueueWatch) -> None:
        self._watch = watch
        self._judged: dict[TaskId, tuple[Start, TaskReport, float]] = {}

    def await_word(self, start: Start, report: TaskReport, now: float) -> None:
        """Listen for a while for a word on the end that `report` tells of."""
        self._judged.setdefault(start.task, (start, report, now))

    def list_reports(self, now: float) -> Iterator[TaskReport]:
        """The ends that Slurm gives another cause than exit 0."""
        for task, (start, report, since) in list(self._judged.items()):
            named, told = (start.executor_id, start.token), self._watch.told
            row = told.find_row(*named) or told.find_account(*named)
            ended = row is not None and row.state.standing is Standing.ENDED
            if ended or now - since > LATE_SECONDS:
                del self._judged[task]
            if row is not None and row.state.cause is Cause.OUT_OF_MEMORY:
                yield replace(report, late_cause=row.state.cause)

    def list_left_over(self) -> Iterator[str]:
        """Ids of those that are held for a failed launch, although they have run."""
        for start, _, _ in self._judged.values():
            row = self._watch.told.find_row(start.executor_id, start.token)
            if has_failed_to_launch(row):
                yield start.executor_id


class Silence(TaskTables):
    """For how long accounting has had no end of a task, by its answers alone.

    One answer that lacks it is not absence: accounting trails, and gives an old answer
    now and then. Nor is one that was asked of later jobs only.
    """

    def __init__(self, watch: QueueWatch) -> None:
        self._watch = watch
        self._lacked: dict[TaskId, tuple[float, float]] = {}
        """When the first and the newest question was put that found none; monotonic."""

    def measure(self, task: TaskId, *, since: float, news_at: float) -> float:
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


# ----------------------------------------------------------------------- releases
# A controller that is killed while it launches a job leaves it PENDING with `launch
# failed requeued held`, and so does a sick node. It never starts until it is released.
# Released again and again it would hide what is broken: after a few times a person has
# to look.
RELEASE_WAITS: Final = (0.0, 30.0, 120.0)
"""Seconds before each release, from the one before on; then a person has to look."""


def has_failed_to_launch(row: QueueRow | None) -> bool:
    """Whether Slurm holds a job because it could not launch it."""
    if row is None or row.state.standing is not Standing.QUEUED:
        return False
    return parse_reason(row.reason) == "launch_failed_requeued_held"


class LaunchReleases(TaskTables):
    """How often each held task was released, and when last; monotonic seconds."""

    def __init__(self) -> None:
        self._released: dict[TaskId, tuple[int, float]] = {}

    def is_due(self, task: TaskId, now: float) -> bool:
        """Whether a task that is held just now is to be released."""
        times, at = self._released.get(task, (0, 0.0))
        return times < len(RELEASE_WAITS) and now - at >= RELEASE_WAITS[times]

    def note(self, task: TaskId, now: float) -> None:
        """The task was released."""
        self._released[task] = (self.count(task) + 1, now)

    def count(self, task: TaskId) -> int:
        """How often the task was released."""
        return self._released.get(task, (0, 0.0))[0]

    def is_given_up(self, task: TaskId) -> bool:
        """Whether a task that is held just now is not released again."""
        return self.count(task) >= len(RELEASE_WAITS)


# ------------------------------------------------------------------- disappearances
CERTAIN_SECONDS = 10.0
"""Without a task whose array is known: the queue does not lack it by mistake."""
ROUNDING_SECONDS = 2.0
"""Slurm tells times in whole seconds."""


class VanishedTasks(TaskTables):
    """Why tasks left the queue without a trace: cancelled by somebody, or forgotten.

    Slurm keeps no record of a task that was cancelled before its array was split, nor
    of any job that ended longer ago than it remembers. What tells a cancelled task from
    one that a crashed controller forgot: its array is still known, or the controller
    has not been started again since the task was sent. The controller is asked for the
    latter only when a task has vanished, once a task.
    """

    def __init__(
        self,
        uptime: Callable[[], float | None],
        age: Callable[[Task], float | None],
    ) -> None:
        """`uptime` asks for how many seconds the controller has run, `age` for how many
        a task was ordered by our own clock; None: nobody says."""
        self._uptime = uptime
        self._age = age
        self._cancelled: dict[TaskId, float | None] = {}
        """Seconds without the task after which it counts as cancelled; None: the
        controller, which was started again since it was sent, may have lost it."""

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
        asked = [task for task in new if task.id not in self._cancelled]
        uptime = self._uptime() if asked else None
        for task in asked if uptime is not None else ():
            age = self._age(task)
            older = age is not None and (uptime or 0.0) > age + ROUNDING_SECONDS
            self._cancelled[task.id] = forgotten_after if older else None

    def get_patience(self, task: TaskId) -> float | None:
        """Seconds without it after which the task counts as cancelled by somebody;
        None: it may have been forgotten."""
        return self._cancelled.get(task)

    def is_forgotten(self, task: TaskId) -> bool:
        """Whether the controller was started again since the task was sent."""
        return task in self._cancelled and self._cancelled[task] is None

    def note_reappeared(self, task: TaskId) -> None:
        """The queue shows the task again."""
        self._cancelled.pop(task, None)


def _is_in_array(task: Task, known: Container[tuple[str, str]]) -> bool:
    """Whether the task is one of an array that is known, by its id and its token."""
    job, sep, _ = task.executor_id.partition("_")
    return bool(sep) and (job, task.token) in known
