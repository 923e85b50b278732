"""The executor, as the engine asks it: tasks go in, answers and reports come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Place, Resources
from autoexp_tui.model.states import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One attempt at one job, ready to start."""

    job: str
    attempt: int
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    output_dir: str
    log_dir: str
    attempt_dir: str
    """Absolute; holds claim, begin, exit and duplicate records of this attempt."""
    resources: Resources = field(default_factory=Resources)
    resume: bool = False
    """Whether it should go on from its newest checkpoint: AUTOEXP_RESUME=1 or 0."""
    token: str = ""
    """Of the submission that it was sent with."""
    executor_id: str = ""
    """What the executor called it when it took it; empty until it is known."""
    ordered_at: float = 0.0
    """UTC at which its intent was journaled, by the wall clock as it goes now."""
    metric_places: tuple[str, ...] = ()
    """Paths and patterns of files whose length is to be kept before it is sent."""
    place: Place = "main"

    @property
    def id(self) -> TaskId:
        return (self.job, self.attempt)


def task_of(spec: JobSpec, attempt: int, attempt_dir: str, **more: Any) -> Task:
    """An attempt at a job of a plan; `more`: what its order adds."""
    where: dict[str, Any] = {"attempt": attempt, "attempt_dir": attempt_dir}
    where |= {name: getattr(spec, name) for name in _OF_JOBS}
    return Task(job=spec.name, **where, **more)


_OF_JOBS = ("command", "env", "cwd", "output_dir", "log_dir", "resources", "place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Ordered tasks that are sent as one, all of one place; an array's task is (token,
    index)."""

    token: str
    session: str
    tasks: tuple[Task, ...]
    ordered_at: float = 0.0
    """UTC at which the intent was journaled, by the wall clock as it goes now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The executor took it."""

    executor_ids: tuple[str, ...]
    submitted_at: float
    sent: str = ""
    """The exact command, for people."""
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The executor refused it for good; no retry mends it."""

    message: str
    cause: Cause = Cause.REJECTED
    sent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A limit of the executor: nothing was taken, try again later."""

    message: str
    sent: str = ""
    disk: bool = False
    """It is a disk that refuses, not the executor."""
    fewer: bool = False
    """The limit is one of how many: a part of the tasks may be taken."""
    unreachable: bool = False
    """Nobody was there to take it."""


def not_prepared(error: AutoexpError) -> Rejected | Busy:
    """What it means for a submission that something before it failed."""
    if isinstance(error, EnvironmentFailed) and error.passing:
        return Busy(message=error.line, disk=True)
    return Rejected(message=error.line, cause=Cause.SUBMIT_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """It was refused in words that nobody knows: nothing was taken. It may pass."""

    message: str
    sent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """It may have been taken: the answer was lost."""

    message: str
    sent: str = ""


SubmitAnswer = Accepted | Rejected | Busy | Unexplained | Uncertain


class TaskPhase(StrEnum):
    """What the executor says of a task that it knows."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    """It has begun, and the executor has stopped its processes for a while."""
    LEAVING = "leaving"
    """It is over by its records or the executor's word; its end is not judged yet."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """Text we do not know: still alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRecord:
    """`begin.<r>.json` of a run."""

    run: int
    began_at: float
    executor_id: str = ""
    host: str = ""
    """As the executor calls it."""
    partition: str = ""
    pid: int = 0
    log_path: str = ""
    log_start: int = 0
    """Bytes that earlier runs had left in that log."""
    gpus: tuple[str, ...] = ()
    """Ids of those that it was given here; empty: whatever its queue gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """`exit.<r>.json` of a run: the wrapper's own word."""

    run: int
    ended_at: float
    exit_code: int | None
    """None when a signal ended the command."""
    signal: int | None = None
    note: str = ""
    """Why the command could not start, or who else died; empty: nothing to add."""
    asked: bool | None = None
    """Whether we, or the executor, may have signalled the command; None: not known."""
    oom_kills: int | None = None
    """Processes that the kernel killed for memory meanwhile; None: not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """All that is known of one task at one look."""

    job: str
    attempt: int
    phase: TaskPhase
    """The queue's word; `ENDED` only when it *answered* that the task is gone."""
    executor_id: str = ""
    began: BeginRecord | None = None
    """The newest run's."""
    exited: ExitRecord | None = None
    """Of the newest begun run; None while it has not ended."""
    cause: Cause | None = None
    """What the executor says ended it; sets the cause even over exit 0."""
    requeued: bool = False
    """Queued again after a begun run."""
    reason: str = ""
    """Why it waits, or what is waited for before its end is judged; in words."""
    stuck: bool = False
    """The executor will not start it unless a person acts; `reason` says on what."""
    by: str = ""
    """Who ended it from outside, for people; empty: nobody, or not known."""
    node: str = ""
    partition: str = ""
    expected_at: float | None = None
    """UTC at which the executor expects to start it."""
    gone_for: float = 0.0
    """Seconds (monotonic) since the executor first answered without it."""
    unclaimed: bool = False
    """Gone, and no start of it ever claimed the attempt: the executor forgot it."""
    tampering: str = ""
    """What somebody did to its records, as a clause; empty: nothing is known."""
    late_cause: Cause | None = None
    """What the executor says ended it, when its end had been judged without that."""
    rerun: bool = False
    """The executor would have started it again, had it not forgotten it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollAnswer:
    """One look at the executor. `error` set: it did not answer, and no report says that
    a task is gone; what the records themselves tell still holds."""

    reports: tuple[TaskReport, ...] = ()
    late: tuple[TaskReport, ...] = ()
    """Ends that were reported before, now with a late cause."""
    error: str = ""
    age: float = 0.0
    """Seconds since the executor itself last answered."""
    place: Place = "main"
    """Whose tasks were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A submission that the executor knows."""

    token: str
    executor_ids: tuple[str, ...]
    submitted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptAnswer:
    """Which tokens were found, and which the executor surely never took."""

    found: tuple[Found, ...] = ()
    absent: tuple[str, ...] = ()
    """Only after every source *answered* without it and the settle time passed."""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswer:
    """What came of a cancel; cancelling what has ended is no error."""

    ok: bool
    sent: str = ""
    said: str = ""


def format_exchange(sent: str, answer: str) -> str:
    """The command that was sent and the answer to it, as people read them."""
    return "\n".join(part for part in (f"$ {sent}" if sent else "", answer) if part)


class Executor(Protocol):
    """Starts, ends and watches tasks. Its methods block; a pool calls them."""

    name: str
    """For people: `local`, `slurm`."""
    slots: int
    """Tasks it runs at a time; 0: no limit of its own."""
    poll_seconds: float
    """How long the engine waits between looks; records wake it earlier."""

    @property
    def array_size(self) -> int:
        """The most tasks of one submission; 1: each is sent alone."""

    @property
    def lost_after_seconds(self) -> float:
        """A task gone without an exit record for this long is LOST."""

    def submit(self, submission: Submission) -> SubmitAnswer:
        """Start the tasks; must return within its own time limit."""

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        """End the tasks' process groups; returns when the order was given."""

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        """One look at all of `tasks`, whatever their number."""

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        """Look for submissions whose answer was lost, by token."""
