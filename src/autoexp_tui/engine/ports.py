"""What the engine asks of the outside, by role. Adapters and fakes implement these. All
may block and fail: pools call them, never the engine's own thread, but for `Journal`
and `Clock`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from autoexp_tui.effects.effects import (
    DoneNotes,
    Errands,
    LookForCheckpoint,
    MoveCheckpoint,
    PoolName,
)
from autoexp_tui.engine.executor_port import Executor, Submission, Task
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import SchedulingPolicy
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.facts import Fact, OutsideKey
from autoexp_tui.model.outputs import DoneWork, FoundCheckpoint
from autoexp_tui.model.snapshot import LiveDetail, Snapshot
from autoexp_tui.model.specs import JobSpec, Place, Plan
from autoexp_tui.model.state import SessionState


class Clock(Protocol):
    def utc(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""

    def boottime(self) -> float:
        """The same, going on while the machine sleeps where it can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationContext:
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
    directory: str
    """Empty: nothing could be written."""
    summary: str
    """What was obtained and what not, in one line."""


class EvidenceSource(Protocol):
    """Looks at what a run is doing before it is ended; blocks."""

    def capture(self, termination: TerminationContext) -> Kept:
        """Keep what can be seen of the run; what cannot is named in the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherPlan:
    """What is to be planned so that it may join a session."""

    base: Plan
    """Of the job whose rule asks: configs are found, and paths start, as there."""
    config_ref: str = ""
    config_path: str = ""
    """A file, absolute; then there is no `config_ref`."""
    overrides: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    """After those, where keys of its sweep may stand as its parameters are called."""
    prefix: str = ""
    """Put before the names of its jobs."""
    output_dir: str = ""
    """Below which they write, in place of its `project.base_output_dir`."""
    known: tuple[tuple[str, str, str], ...] = ()
    """Name, output and log directory of the session's jobs."""
    stage: str = ""
    family: str = ""
    families: int = 0
    now: float = 0.0
    """UTC at which it was ordered: asked again, the answer is the same."""


class Planner(Protocol):
    """Composes again what needs Hydra, in the planning process; blocks."""

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config; raises AutoexpError."""

    def plan_all(self, asked: Sequence[FurtherPlan]) -> Sequence[Plan | AutoexpError]:
        """The plans of several configs, each or why there is none, for little more than
        one costs; raises AutoexpError: none can be planned."""

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job with further overrides; raises AutoexpError."""


class Checkpoints(Protocol):
    """Looks at and moves what jobs go on from; blocks. Never leaves `output_dir`."""

    def find(self, look: LookForCheckpoint) -> FoundCheckpoint | None:
        """The checkpoint that is meant, with a free name to move it to; None: there is
        none; raises AutoexpError."""

    def move(self, move: MoveCheckpoint) -> None:
        """Rename it, and let the pointer name the one before; repeatable; raises
        AutoexpError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWork:
    """What lies in the output directories of a plan."""

    done: tuple[DoneWork, ...] = ()
    """Work of earlier sessions that need not be done again."""
    foreign: tuple[str, ...] = ()
    """Jobs in whose directories other work has left something."""


class Preparation(DoneNotes, Protocol):
    """What is kept in output directories, before a submission and after success."""

    def find_work(
        self, plan: Plan, upstream: Sequence[JobSpec], *, force: bool
    ) -> FoundWork:
        """What there is of a plan that is to join; `upstream`: jobs of the session that
        its own build on. Raises SessionOwned where a living session writes."""

    def prepare(
        self,
        submission: Submission,
        specs: Sequence[JobSpec],
        plans: Sequence[Plan | None],
    ) -> None:
        """Claim the output directories, write scripts and provenance; repeatable.
        `plans`: the one that each job came with; raises AutoexpError."""


class Pool(Protocol):
    """A bounded set of daemon threads with one outstanding call a key."""

    def submit(
        self,
        key: str,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
    ) -> bool:
        """Run `call` elsewhere, then `done`; False when `key` is still running."""

    def close(self) -> None:
        """Accept nothing more; running calls are abandoned."""


class FactSource(Protocol):
    """Looks outside for facts; blocks."""

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """The facts for `keys` in their order, each looked for when it is asked for; a
        path is asked about once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """New bytes of one run's log."""

    offset: int
    """Where `data` starts in the file."""
    data: bytes
    size: int
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


Stream: TypeAlias = tuple[str, str]
"""(job, which of its files): the log is the empty one."""
LOG: Final = ""
"""The source that is a run's log. Files of metrics are sources by their paths."""
SEARCH: Final = "?"
"""The search for files of metrics."""
GPU: Final = "gpu"
"""The samples of a run's GPUs."""
LOG_CHUNK: Final = 1 << 20
"""Bytes read from one log at a look."""
LOOK_WORK: Final = 25_000_000
"""Bytes times instructions of patterns at a look: half a second of searching."""


@dataclass(frozen=True, slots=True)
class Search:
    """For files of metrics; see `LogSource.find`."""

    patterns: tuple[str, ...]
    first: str
    """Directory of the job's first attempt, which tells how long the files were."""
    present: str
    """The same of its present attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """Where the reading of one run's log stands."""

    job: str
    attempt: int
    run: int
    path: str
    offset: int
    final: bool = False
    limit: int = LOG_CHUNK
    cost: int = 1
    """Instructions of patterns that each byte is searched with."""
    source: str = LOG
    """Which file of the job's."""
    outlives: bool = False
    """The file is of the job, and not of the run alone."""
    search: Search | None = None
    """Files are looked for; none is read."""
    binary: bool = False
    """It has no lines: whatever is there is read."""


class LogSource(Protocol):
    """Reads new bytes of logs; blocks."""

    def read(self, at: LogCursor) -> LogChunk | None:
        """At most `at.limit` bytes from `at.offset` up to the last whole line, or, with
        `at.final`, a last line without its end. None: nothing new, or no file yet."""

    def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes as text; empty when there is no file."""

    def find(self, search: Search) -> Sequence[FoundFile]:
        """The files that match any of the patterns, in order, each once."""


class Journal(Protocol):
    """The durable order of events. One writer."""

    def append(self, records: Sequence[Recorded]) -> None:
        """Write the records and sync once. Raises EnvironmentFailed: nothing counts.
        SessionOwned: a successor has the session."""

    def add_plan(self, plan: Plan) -> str:
        """Store a plan beside the journal, durable; returns its sha."""

    def close(self) -> None:
        """Release the file; appending ends."""


HEARTBEAT_SECONDS: Final = 30.0
"""Between heartbeats of an owner, where nothing else is asked for."""


class Lease(Protocol):
    """The right to write one session."""

    epoch: int

    def heartbeat(self) -> bool:
        """Touch one's own file; False when a successor has taken the session."""

    def release(self) -> None:
        """Give it back so that a successor need not wait."""


class Inbox(Protocol):
    """Commands that other processes left for the session's engine."""

    def take(self) -> Sequence[Order]:
        """Commands since the last call, oldest first; rubbish is set aside."""

    def done(self, command_ids: Sequence[str]) -> None:
        """The commands' events are synced: forget them."""


class LiveSink(Protocol):
    """Volatile detail for viewers, written only while one is watching."""

    def publish(self, snapshot: Snapshot) -> None:
        """Write it if a viewer's heartbeat is fresh."""


class SessionWatcher(Protocol):
    """Another process's session as it grows; blocks."""

    def load(self) -> tuple[SessionState, Sequence[Recorded]]:
        """The session as its journal tells it, and its newest records; raises
        AutoexpError."""

    def news(self) -> Sequence[Recorded] | None:
        """Records since the last call, in order; None: load the session anew."""

    def live(self) -> LiveDetail | None:
        """The owner's volatile detail, the same object while it has not moved."""

    def owner_alive(self) -> bool:
        """Whether an engine owns the session just now."""

    def halted_pid(self) -> int:
        """The engine's process on this host, when it was found stopped; else 0."""

    def leave(self, order: Order) -> None:
        """Put a command into the session's inbox; raises EnvironmentFailed."""

    def beat(self) -> bool:
        """Show the owner that somebody watches; False: it is not told."""

    def close(self) -> None:
        """Stop watching."""


PoolKey: TypeAlias = PoolName | Literal["poll", "files", "logs", "house", "evidence"]
"""`house`: for the session's own directory, its inbox and its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is made of: its session on disk, and all that is outside."""

    clock: Clock
    journal: Journal
    lease: Lease
    inbox: Inbox
    live_sink: LiveSink
    executor: Executor
    facts: FactSource
    logs: LogSource
    planner: Planner
    preparation: Preparation
    checkpoints: Checkpoints
    errands: Errands
    pools: Mapping[PoolKey, Pool]
    attempt_dir: Callable[[str, int], Path]
    store_plan: Callable[[Plan], str]
    """Keeps a plan beside the journal, durable; gives its sha. Blocks."""
    load_plan: Callable[[str], Plan]
    """The plan of that sha beside the journal. Blocks; raises AutoexpError."""
    beside: Executor | None = None
    """Which `executor` hands jobs to that run beside; None: it runs them itself."""
    adapters: Mapping[str, Any] = field(default_factory=dict)
    """What policies reach outside, by their own names."""
    evidence: EvidenceSource | None = None
    """None: runs that a rule ends are not looked at."""
    place_of: Callable[[str], str] = lambda _path: "/"
    """The file system of a path, told without touching it."""
    policy: SchedulingPolicy = field(default_factory=SchedulingPolicy)
    log_fault: Callable[[str], None] = lambda _text: None
    close: Callable[[], None] = lambda: None
    """Called when the engine has ended: lets go of whatever else it was given."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """Between heartbeats of the lease."""
    directory: Path = Path()
    log_file: str = ""
    gpus: int | None = None
    """Of the machine that runs the jobs, for people; None: not known."""

    def find_executor(self, place: Place) -> Executor:
        """Whose rhythm and patience count for jobs of a place."""
        return self.beside if place == "beside" and self.beside else self.executor
