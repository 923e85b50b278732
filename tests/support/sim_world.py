"""What survives the engines of a simulation: a clock, a cluster, files, a journal.

Everything is in memory and follows one seed. The engine under test is the real one;
only its ports are of this world.
"""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from autoexp_tui.conditions.jobs import JobStateIs
from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.engine.executor_port import Executor, Submission
from autoexp_tui.engine.loop import Engine
from autoexp_tui.engine.ports import (
    Clock,
    FactSource,
    FoundFile,
    FoundWork,
    FurtherPlan,
    Kept,
    LogChunk,
    LogCursor,
    LogSource,
    Parts,
    Pool,
    PoolKey,
    Search,
    TerminationContext,
)
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import SchedulingPolicy
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed, UsageError
from autoexp_tui.model.facts import (
    CommandKey,
    CommandResult,
    Fact,
    FileStat,
    FileText,
    GlobKey,
    LogFound,
    Matches,
    OutsideKey,
    StatKey,
    TextKey,
)
from autoexp_tui.model.outputs import (
    Checkpoint,
    DoneWork,
    FileIdentity,
    FoundCheckpoint,
)
from autoexp_tui.model.resubmission import done_before, is_of_attempt
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.planning.replan_job import join_plan
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.text.patterns import compile_text_pattern
from tests.support.fake_executor import FakeExecutor
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import MemoryLease, MemorySession

Watcher: TypeAlias = Callable[[Sequence[str]], None]
"""Told of paths that were written."""


@dataclass(slots=True)
class Files:
    """A file system of appended bytes; `current.log` leads to the newest log."""

    clock: Clock
    data: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    written: Counter[str] = field(default_factory=Counter)
    """How often each path was written."""
    watcher: Watcher = lambda _: None
    """Told of each write: by the newest engine, to be woken."""

    def append(self, path: str, data: bytes) -> None:
        """A run writes; a run's log also becomes the job's current one."""
        self.data[path] = self.data.get(path, b"") + data
        self.written[path] += 1
        directory, _, name = path.rpartition("/")
        if name.startswith("slurm-"):
            self.links[f"{directory}/current.log"] = path
        self.watcher((path,))

    def identity(self, path: str) -> FileIdentity | None:
        """Which file lies there: bytes are only ever added to it."""
        place = self.links.get(path, path)
        if place not in self.data:
            return None
        size, times = len(self.data[place]), self.written[place]
        inode = int(ids.digest(place), 16)
        return FileIdentity(
            path=path, inode=inode, size=size, mtime_ns=times, ctime_ns=times
        )

    def read(self, path: str) -> bytes | None:
        """A file's bytes through its link, None when there is none."""
        return self.data.get(self.links.get(path, path))

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        return (Fact(self._see(key), self.clock.monotonic()) for key in keys)

    def _see(
        self, key: OutsideKey
    ) -> FileStat | Matches | FileText | LogFound | CommandResult:
        match key:
            case GlobKey():
                paths = sorted(fnmatch.filter(self.data, key.pattern))
                largest = max((len(self.data[p]) for p in paths), default=0)
                files = tuple(file for p in paths if (file := self.identity(p)))
                return Matches(tuple(paths), largest, files)
            case CommandKey():
                return CommandResult(0)
        text, file = self.read(key.path), self.identity(key.path)
        if isinstance(key, StatKey):
            return FileStat(file is not None, len(text or b""), 0, file)
        if text is None or file is None:
            return FileText(None, file) if isinstance(key, TextKey) else LogFound()
        if isinstance(key, TextKey) and not key.pattern:
            return FileText(text.decode(), file)
        pattern = compile_text_pattern(key.pattern)
        if isinstance(key, TextKey):
            return FileText("", file, holds=pattern.search(text) is not None)
        match = pattern.search(text[dict(key.skip).get(file.inode, 0) :])
        line = (match[0] or b"").decode() if match else ""
        return LogFound(1, int(match is not None), line, key.path)


@dataclass(slots=True)
class FakeEvidence:
    """`ports.EvidenceSource` in memory."""

    partings: list[TerminationContext] = field(default_factory=list)
    """Every run that was looked at, oldest first."""
    summary: str = "log tail, 1 process"
    problem: OSError | None = None
    """Raised by each look; None: looks succeed."""

    def capture(self, termination: TerminationContext) -> Kept:
        self.partings.append(termination)
        if self.problem is not None:
            raise self.problem
        return Kept(directory=termination.directory, summary=self.summary)


@dataclass(slots=True)
class Logs:
    """Implements `ports.LogSource` over the world's files."""

    files: Files

    def read(self, at: LogCursor) -> LogChunk | None:
        whole = self.files.read(at.path) or b""
        data = whole[at.offset : at.offset + at.limit]
        if not (at.final or at.binary):
            data = data[: data.rfind(b"\n") + 1]
        if not data:
            return None
        return LogChunk(offset=at.offset, data=data, size=len(whole))

    def find(self, search: Search) -> Sequence[FoundFile]:
        found: dict[str, int] = {}
        for index, pattern in enumerate(search.patterns):
            for path in fnmatch.filter(self.files.data, pattern):
                found.setdefault(path, index)
        return [FoundFile(path, found[path]) for path in sorted(found)]

    def tail(self, path: str, limit: int) -> str:
        return (self.files.read(path) or b"")[-limit:].decode("utf-8", "replace")


@dataclass(slots=True)
class Mailbox:
    """Implements `ports.Inbox`: gives an order again until it is done."""

    orders: dict[str, Order] = field(default_factory=dict)

    def take(self) -> Sequence[Order]:
        return tuple(self.orders.values())

    def done(self, command_ids: Sequence[str]) -> None:
        for command_id in command_ids:
            self.orders.pop(command_id, None)


@dataclass(slots=True)
class Ready:
    """Implements `ports.Preparation`: no directories, words of success are kept."""

    done: dict[str, DoneWork] = field(default_factory=dict)
    """Job -> what it left."""

    def prepare(
        self,
        submission: Submission,
        specs: Sequence[JobSpec],
        plans: Sequence[Plan | None],
    ) -> None:
        for task, spec in zip(submission.tasks, specs, strict=True):
            left, session = self.done.get(spec.name), submission.session
            if left is None or not is_of_attempt(left, session, task.attempt):
                self.done.pop(spec.name, None)

    def find_work(
        self, plan: Plan, upstream: Sequence[JobSpec], *, force: bool
    ) -> FoundWork:
        found = {} if force else {**done_before(plan, self.done).done}
        return FoundWork(done=tuple(found.values()))

    def note_done(self, spec: JobSpec, work: DoneWork) -> None:
        self.done[spec.name] = work


@dataclass(slots=True)
class Shelf:
    """Implements `ports.Checkpoints`: those of each output directory, newest last."""

    saved: dict[str, list[Checkpoint]] = field(default_factory=dict)
    """Output directory -> what a job would go on from."""
    aside: list[str] = field(default_factory=list)
    """What was moved, as it is called now."""
    problem: str = ""
    """Why nothing can be moved."""

    def find(self, look: LookForCheckpoint) -> FoundCheckpoint | None:
        there = self.saved.get(look.output_dir, [])
        if not there:
            return None
        return FoundCheckpoint(
            newest=there[-1],
            target=f"{there[-1].path}.quarantined-1",
            before=there[-2] if len(there) > 1 else None,
            others=len(there) - 1,
        )

    def move(self, move: MoveCheckpoint) -> None:
        if self.problem:
            raise EnvironmentFailed(self.problem)
        there = self.saved[move.output_dir]
        if move.checkpoint in there:
            there.remove(move.checkpoint)
            self.aside.append(move.target)


@dataclass(slots=True)
class Recompose:
    """Implements `ports.Planner`: the same job with further overrides noted."""

    monitoring: Monitoring = field(default_factory=Monitoring)
    """Of plans that are to join."""

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        spec = next((spec for spec in plan.jobs if spec.name == job), None)
        if spec is None:
            raise UsageError("it has no config that overrides could change")
        return replace(spec, overrides=tuple(overrides))

    def plan_all(self, asked: Sequence[FurtherPlan]) -> Sequence[Plan | AutoexpError]:
        return [*map(self.plan, asked)]

    def plan(self, asked: FurtherPlan) -> Plan:
        """One job, named by `project.name=`, that runs the config's name; raises
        UsageError where the config is called `broken`."""
        ref = asked.config_ref or asked.config_path
        if ref == "broken":
            raise UsageError("there is no config `broken`")
        given = dict(text.partition("=")[::2] for text in asked.overrides)
        name, waits = given.get("project.name", ref), given.get("after", "")
        first, before = asked.base.jobs[0], (waits,) if waits else ()
        root = first.output_dir.removesuffix(f"/out/{first.name}")
        over = tuple(JobStateIs(jobs=(one,), state="COMPLETED") for one in before)
        job = JobSpec(
            name=name,
            index=0,
            stage=ref,
            family="f0",
            overrides=asked.overrides,
            command=("run", ref, *asked.overrides),
            fingerprint=name,
            output_dir=f"{root}/out/{name}",
            log_dir=f"{root}/logs/{name}",
            resources=first.resources,
            start_conditions=over,
            depends_on=before,
        )
        made = Plan(
            plan_id=f"further-{name}-{asked.now}",
            name=ref,
            config_ref=ref,
            state_dir=asked.base.state_dir,
            created_at=asked.now,
            jobs=(job,),
            monitoring=self.monitoring,
            edges=tuple(Edge(before=b, after=name, mode="waits") for b in before),
        )
        return join_plan(made, family=asked.family, families=asked.families)


@dataclass(slots=True)
class Errands:
    """Implements `ports.Errands`: notes what was done, and does as it is told."""

    ran: list[tuple[str, ...]] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = 0
    problem: str = ""
    """Why nothing can be appended."""

    def run(
        self, command: Sequence[str], timeout: float, env: Mapping[str, str], cwd: str
    ) -> CommandResult:
        self.ran.append(tuple(command))
        return CommandResult(self.exit_code, "as told")

    def append(self, path: str, text: str, below: str = "") -> None:
        if self.problem:
            raise OSError(self.problem)
        self.written[path] = self.written.get(path, "") + f"{text}\n"


@dataclass(slots=True)
class Nobody:
    """Implements `ports.LiveSink`: nobody watches."""

    def publish(self, snapshot: object) -> None:
        """Nothing."""


def first_events(
    state: SessionState, sha: str, seal: Any, gap_seconds: float = 0.0
) -> list[events.Event]:
    """What an engine tells as it takes a session, whose first plan has that name."""
    sealed = {"sealed_part": seal.part, "sealed_bytes": seal.bytes}
    started = events.EngineStarted(host="h", pid=1, gap_seconds=gap_seconds, **sealed)
    if state.session:
        return [started]
    versions = {"engine_version": "0", "wrapper_version": "0"}
    opened = events.SessionStarted(session="s", name="s", plan_sha=sha, **versions)
    return [opened, started, events.PlanAdded(sha=sha)]


@dataclass(slots=True)
class House:
    """All that outlives an engine, whatever runs its jobs."""

    clock: Clock
    """The engine's."""
    executor: Executor
    files: FactSource
    logs: LogSource
    session: MemorySession = field(default_factory=MemorySession)
    inbox: Mailbox = field(default_factory=Mailbox)
    evidence: FakeEvidence = field(default_factory=FakeEvidence)
    evidence_pool: InlinePool | None = None
    """None: the one of everything else."""
    faults: list[str] = field(default_factory=list)
    """Tracebacks that engines logged: bugs."""
    auto_approve: frozenset[str] = frozenset({"*"})
    slots: int = 0
    beside: Executor | None = None
    beside_slots: int = 0
    errands: Errands = field(default_factory=Errands)
    planner: Recompose = field(default_factory=Recompose)
    has_nodes: bool = False
    ready: Ready = field(default_factory=Ready)
    shelf: Shelf = field(default_factory=Shelf)
    place_of: Callable[[str], str] = lambda _path: "/"
    """The file system of a path."""

    attempt_dir: Callable[[str, int], Path] = lambda job, number: Path(
        "/attempts", job, str(number)
    )
    adapters: Mapping[str, Any] = field(default_factory=dict)
    joins: Callable[[Plan], None] = lambda _plan: None
    """Told of a plan that is about to join; maybe again of the same."""

    def load_plan(self, sha: str) -> Plan:
        """A plan that lies beside the journal; raises EnvironmentFailed."""
        if sha not in self.session.plans:
            raise EnvironmentFailed(f"plan {sha} is not there")
        return self.session.plans[sha]

    def parts(self, lease: MemoryLease, pool: InlinePool) -> Parts:
        pools: dict[PoolKey, Pool] = defaultdict(lambda: pool)
        pools["evidence"] = self.evidence_pool or pool
        policy = SchedulingPolicy(
            auto_approve=self.auto_approve,
            slots=self.slots,
            beside_slots=self.beside_slots,
            has_nodes=self.has_nodes,
        )

        def store_plan(plan: Plan) -> str:
            self.joins(plan)
            return self.session.open(lease).add_plan(plan)

        return Parts(
            clock=self.clock,
            journal=self.session.open(lease),
            lease=lease,
            inbox=self.inbox,
            live_sink=Nobody(),
            executor=self.executor,
            beside=self.beside,
            facts=self.files,
            logs=self.logs,
            planner=self.planner,
            preparation=self.ready,
            checkpoints=self.shelf,
            errands=self.errands,
            adapters=self.adapters,
            pools=pools,
            attempt_dir=self.attempt_dir,
            store_plan=store_plan,
            load_plan=self.load_plan,
            evidence=self.evidence,
            place_of=self.place_of,
            policy=policy,
            log_fault=self.faults.append,
        )

    def engine(self, lease: MemoryLease, pool: InlinePool) -> Engine:
        return Engine(self.session.load(), self.parts(lease, pool))


@dataclass(slots=True)
class World(House):
    """All that outlives an engine, in memory."""

    clock: ManualClock
    executor: FakeExecutor
    files: Files
