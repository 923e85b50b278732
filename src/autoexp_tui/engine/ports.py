"""What the engine asks of the outside, by role. Adapters and fakes implement these.

Everything here may block and may fail; the engine calls it from bounded daemon pools,
never from its own thread, except `Journal` (the one blocking call of a commit) and
`Clock`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from autoexp_tui.core.checkpoints import FoundCheckpoint
from autoexp_tui.core.commands import Order
from autoexp_tui.core.done import DoneWork
from autoexp_tui.core.effects import LookForCheckpoint, MoveCheckpoint, TaskId
from autoexp_tui.core.errors import AutoexpError, EnvironmentFailed
from autoexp_tui.core.events import JournalRotated, Recorded
from autoexp_tui.core.facts import CommandResult, Fact, OutsideKey
from autoexp_tui.core.snapshot import EngineView, Live
from autoexp_tui.core.specs import JobSpec, Plan, Resources
from autoexp_tui.core.state import SessionState
from autoexp_tui.core.states import Cause


class Clock(Protocol):
    """Time, as an argument of everything."""

    def utc(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


# --------------------------------------------------------------------- executor
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
    """UTC at which its intent was journaled."""
    metric_places: tuple[str, ...] = ()
    """Paths and patterns of files whose length is to be kept before it is sent."""

    @property
    def id(self) -> TaskId:
        """(job, attempt)."""
        return (self.job, self.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Ordered tasks that are sent as one; an array's task is (token, index)."""

    token: str
    session: str
    tasks: tuple[Task, ...]
    ordered_at: float = 0.0
    """UTC at which the intent was journaled."""


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


def not_prepared(error: AutoexpError) -> Rejected | Busy:
    """What it means for a submission that something before it failed."""
    if isinstance(error, EnvironmentFailed) and error.passing:
        return Busy(message=error.line, disk=True)
    return Rejected(message=error.line, cause=Cause.SUBMIT_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """It may have been taken: the answer was lost."""

    message: str
    sent: str = ""


SubmitAnswer = Accepted | Rejected | Busy | Uncertain


class TaskPhase(StrEnum):
    """What the executor says of a task that it knows."""

    QUEUED = "queued"
    RUNNING = "running"
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
    """Whether the command was, or may have been, signalled by us or by the executor
    before it ended; None: nobody noted it."""


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
    """The queue's own words for why it waits."""
    node: str = ""
    partition: str = ""
    expected_at: float | None = None
    """UTC at which the executor expects to start it."""
    gone_for: float = 0.0
    """Seconds (monotonic) since the executor first answered without it."""
    duplicate: bool = False
    """This submission lost the claim to another."""
    unclaimed: bool = False
    """Gone, and no start of it ever claimed the attempt: the executor forgot it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollAnswer:
    """One look at the executor.

    `error` set: it did not answer, and no report says that a task is gone; what the
    records themselves tell still holds.
    """

    reports: tuple[TaskReport, ...] = ()
    error: str = ""
    age: float = 0.0
    """Seconds since the executor itself last answered."""
    calls: int = 0
    """Commands sent to the cluster for this answer."""


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
        ...

    @property
    def lost_after_seconds(self) -> float:
        """A task gone without an exit record for this long is LOST."""
        ...

    def submit(self, submission: Submission) -> SubmitAnswer:
        """Start the tasks; must return within its own time limit."""
        ...

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        """End the tasks' process groups; returns when the order was given."""
        ...

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        """One look at all of `tasks`, whatever their number."""
        ...

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        """Look for submissions whose answer was lost, by token."""
        ...


# ---------------------------------------------------------------- facts and logs
class FactSource(Protocol):
    """Looks outside for facts; blocks."""

    def observe(self, key: OutsideKey) -> Fact:
        """The fact for `key`; a failed look has `error` and no value."""
        ...

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """The facts for `keys` in their order, each looked for when it is asked for.

        Keys of one call share what they look at: a path is asked about once.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """New bytes of one run's log."""

    job: str
    attempt: int
    run: int
    offset: int
    """Where `data` starts in the file."""
    data: bytes
    size: int
    """The file's size when it was read."""
    reset: bool = False
    """The file was replaced or truncated: what came before is void."""
    midline: bool = False
    """`data` begins within a line that was too long for one read."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of metrics that is there."""

    path: str
    pattern: int = 0
    """Which of the patterns it matches first."""
    foreign: int = 0
    """Bytes of it that were there before the job's first attempt was sent."""
    before: int = 0
    """Bytes of it that were there before the present attempt was sent."""
    is_new: bool = True
    """It came with the present attempt."""


class LogSource(Protocol):
    """Reads new bytes of logs; blocks."""

    def read(
        self,
        job: str,
        attempt: int,
        run: int,
        path: str,
        offset: int,
        limit: int,
        *,
        final: bool = False,
    ) -> LogChunk | None:
        """At most `limit` bytes from `offset` up to the last whole line.

        `final`: the run has ended, so a last line without its end counts too. None
        when there is nothing new or no file yet.
        """
        ...

    def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes as text; empty when there is no file."""
        ...

    def find(
        self, patterns: Sequence[str], first: str, present: str
    ) -> Sequence[FoundFile]:
        """The files that match any of `patterns`, in order, each once.

        `first`, `present`: directories of the job's first and present attempt, which
        tell how long the files were before.
        """
        ...


# --------------------------------------------------------------- session on disk
class Journal(Protocol):
    """The durable order of events. One writer."""

    def append(self, records: Sequence[Recorded]) -> None:
        """Write the records and sync once.

        Raises:
            EnvironmentFailed: nothing of this call counts; the same records may be
                tried again.
            SessionOwned: a successor has taken the session; nothing counts any more.
        """
        ...

    def rotation(self) -> JournalRotated | None:
        """What opens the next part, in a commit of its own; None: go on in this one."""
        ...

    def add_plan(self, plan: Plan) -> str:
        """Store a plan beside the journal, durable; returns its sha."""
        ...

    def keep(self, state: SessionState, *, last: bool = False) -> None:
        """`state` adds up all that was appended: a successor may start from it.

        Called after each commit, and costs nothing but now and then. After the `last`
        one nothing is appended any more. What cannot be kept is no failure.
        """
        ...

    def close(self) -> None:
        """Release the file; appending ends."""
        ...


class Lease(Protocol):
    """The right to write one session."""

    epoch: int

    def heartbeat(self) -> bool:
        """Touch one's own file; False when a successor has taken the session."""
        ...

    def release(self) -> None:
        """Give it back so that a successor need not wait."""
        ...


class Inbox(Protocol):
    """Commands that other processes left for the session's engine."""

    def take(self) -> Sequence[Order]:
        """Commands since the last call, oldest first; rubbish is set aside."""
        ...

    def done(self, command_ids: Sequence[str]) -> None:
        """The commands' events are synced: forget them."""
        ...


class LiveSink(Protocol):
    """Volatile detail for viewers, written only while one is watching."""

    def publish(self, snapshot: object) -> None:
        """Write it if a viewer's heartbeat is fresh."""
        ...


class SessionWatcher(Protocol):
    """Another process's session as it grows; blocks."""

    def load(self) -> tuple[SessionState, Sequence[Recorded]]:
        """The session as its journal tells it now, and its newest records.

        Raises:
            AutoexpError: it cannot be read.
        """
        ...

    def news(self) -> Sequence[Recorded] | None:
        """Records since the last call, in order; survives rotation and take-over.

        None: what was read before does not all count; load the session anew.
        """
        ...

    def live(self) -> tuple[EngineView, Mapping[str, Live]] | None:
        """The owner's volatile detail, the same object while it has not moved.

        None while the owner writes none.
        """
        ...

    def owner_alive(self) -> bool:
        """Whether an engine owns the session just now."""
        ...

    def leave(self, order: Order) -> None:
        """Put a command into the session's inbox.

        Raises:
            EnvironmentFailed: it could not be written.
        """
        ...

    def beat(self) -> None:
        """Show the owner that somebody watches."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """A run that a rule ends, to be looked at."""

    task: Task
    run: int
    node: str
    log_path: str
    directory: str
    """Absolute; what is kept goes there. It may be there from an earlier try."""
    reason: str
    """Why the run ends, as a sentence."""
    log_only: bool
    seconds: float
    """In which the look must be over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was kept of a run."""

    directory: str
    """Empty: nothing could be written."""
    summary: str
    """What was obtained and what not, in one line."""


class EvidenceSource(Protocol):
    """Looks at what a run is doing before it is ended; blocks."""

    def capture(self, parting: Parting) -> Kept:
        """Keep what can be seen of the run; what cannot is named in the summary."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherPlan:
    """What is to be planned so that it may join a session."""

    base: Plan
    """Of the job whose rule asks: configs are found, and paths start, as there."""
    config_ref: str = ""
    config_path: str = ""
    """A file, absolute; then there is no `config_ref`."""
    overrides: tuple[str, ...] = ()
    known: tuple[tuple[str, str, str], ...] = ()
    """Name, output and log directory of the session's jobs."""
    stage: str = ""
    """Of the job whose rule asks."""
    family: str = ""
    """Of the same."""
    families: int = 0
    """How many the session has."""
    now: float = 0.0
    """UTC at which it was ordered: asked again, the answer is the same."""


class Planner(Protocol):
    """Composes again what needs Hydra, in the planning process; blocks."""

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config.

        Raises:
            AutoexpError: it does not compose, or is not valid.
        """
        ...

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job as it would be with further overrides.

        Raises:
            AutoexpError: the overrides do not compose.
        """
        ...


class Errands(Protocol):
    """What rules do outside, each time once; blocks."""

    def run(
        self,
        command: Sequence[str],
        timeout: float,
        env: Mapping[str, str],
        cwd: str,
    ) -> CommandResult:
        """Run a command without a shell, `timeout` seconds at most.

        `env` is added to the engine's own; `cwd` empty: where the engine runs.
        """
        ...

    def append(self, path: str, text: str) -> None:
        """Add `text` as whole lines to a file, which is made if need be.

        Raises:
            OSError: it cannot be written.
        """
        ...


class Checkpoints(Protocol):
    """Looks at and moves what jobs go on from; blocks. Never leaves `output_dir`."""

    def find(self, look: LookForCheckpoint) -> FoundCheckpoint | None:
        """The checkpoint that is meant, and a free name to move it to; None: there is
        none.

        Raises:
            AutoexpError: it cannot be looked for, or lies where it must not.
        """
        ...

    def move(self, move: MoveCheckpoint) -> None:
        """Rename it, and let the pointer name the one before; repeatable.

        Raises:
            AutoexpError: it cannot be moved, or is not what was found.
        """
        ...


class Preparation(Protocol):
    """What is kept in output directories, before a submission and after success;
    blocks."""

    def prepare(
        self,
        submission: Submission,
        specs: Sequence[JobSpec],
        plans: Sequence[Plan | None],
    ) -> None:
        """Claim the output directories, write scripts and provenance; repeatable.

        `plans`: the one that each job came with.

        Raises:
            AutoexpError: the submission cannot be sent; the text says why.
        """
        ...

    def note_done(self, spec: JobSpec, work: DoneWork) -> None:
        """Keep that the job's work is done; nothing, where the directory has another
        owner by now. Repeatable.

        Raises:
            AutoexpError: it cannot be kept; the text says why.
        """
        ...


class Pool(Protocol):
    """A bounded set of daemon threads with one outstanding call a key."""

    def submit(
        self,
        key: str,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
    ) -> bool:
        """Run `call` elsewhere, then `done`; False when `key` is still running."""
        ...

    def close(self) -> None:
        """Accept nothing more; running calls are abandoned."""
        ...
