"""A session's state: containers, mutable, of one thread, with frozen records that a
snapshot shares. The decider works on a `fork()`; the journal's word comes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    cast,
)

from autoexp_tui.model.states import (
    NOT_STARTED,
    TERMINAL,
    Cause,
    JobState,
    Outcome,
    Result,
    Why,
)
from autoexp_tui.text.spelling import Present

if TYPE_CHECKING:  # a first paint needs no effects
    from autoexp_tui.model.effect import Effect
    from autoexp_tui.model.outputs import (
        DoneWork,
        NotedMetrics,
        SavedCheckpoint,
        SetAside,
    )
    from autoexp_tui.model.specs import Edge, JobSpec, Plan

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

GAPS: Final = 1000
"""Times without an engine that a state remembers."""


@cache
def _slots_of(kind: type[Any]) -> tuple[tuple[str, ...], Callable[[Any], Any]]:
    names = tuple(one.name for one in fields(kind))
    return names, attrgetter(*names)


def changed(record: T, /, *, in_place: bool = False, **changes: Any) -> T:
    """A record of several fields with `changes`, in a third of the time of `replace`.
    `in_place`: nobody has seen it, so that it may change itself, which takes a tenth:
    folding a long journal does little else."""
    if not in_place:
        kind: Any = type(record)
        names, read = _slots_of(kind)
        values, record = read(record), object.__new__(kind)
        deque(map(object.__setattr__, repeat(record), names, values), maxlen=0)
    for name, value in changes.items():
        object.__setattr__(record, name, value)
    return record


class Move(NamedTuple):
    job: str
    old: JobState
    new: JobState
    seq: int
    """Of the event before the one that moved it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    number: int
    token: str
    ordered_at: float
    ordered_why: Why | None = None
    """Why a rule ordered it; None: no rule did, or the journal is an old one's."""
    resume: bool = False
    anew: bool = False
    fingerprint: str = ""
    values: Mapping[str, object] | None = None
    noted: NotedMetrics | None = None
    executor_id: str = ""
    submitted_at: float | None = None
    run: int = -1
    """The newest begun run; -1 before the first."""
    began_at: float | None = None
    node: str = ""
    partition: str = ""
    pid: int = 0
    log_path: str = ""
    log_start: int = 0
    log_replaced: int = 0
    gpus: tuple[str, ...] = ()
    """Ids of those that its newest run was given; empty: it is not known which."""
    cancel_cause: Cause | None = None
    """Set when we ordered its end: our own cancels are our own record."""
    cancel_why: Why | None = None
    finished: bool = False
    """Set when a rule said that it is done: whatever its end, it completed."""
    outcome: Outcome | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    ended_at: float | None = None
    why: Why | None = None
    evidence: str = ""
    reached: int | None = None
    captures: tuple[str, ...] = ()
    """Directories with what was kept of it when a rule ended it, oldest first."""
    limit_seen: bool = False
    """Whether a person said to know that its time limit will cut it."""

    @property
    def is_told_to_end(self) -> bool:
        return self.finished or self.cancel_cause is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionStatus:
    result: Result
    why: Why
    since: float
    waived: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latched:
    """A pattern that was found in a log while its job waited."""

    line: str
    path: str


Mark: TypeAlias = tuple[str, int]
"""The id of a rule's newest match in a run, and its byte; -1: in a replaced text."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What rules have found, in the log's order, of a job's newest run."""

    attempt: int
    run: int
    marks: Mapping[str, Mark]


VOID: Final = "void: "
"""What a line of a question begins with that cannot be done any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a person is asked: of a job, or by a policy of the session."""

    digest: str
    prompt: str
    asked_at: float
    asked_lived: float
    approved: bool | None = None
    by: str = ""
    reason: str = ""
    lines: tuple[str, ...] = ()
    """What may be approved in part, line by line."""
    dropped: tuple[int, ...] = ()
    """Places, from 0, of the lines that an approval left out."""

    def list_kept(self, dropped: Collection[int]) -> tuple[str, ...]:
        """The lines that remain without those at these places."""
        return tuple(one for at, one in enumerate(self.lines) if at not in dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    lived: float
    """Not before the session has lived so many seconds."""
    from_checkpoint: bool
    why: Why
    held: bool = False
    """It is not decided yet: a condition of the reaction is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A rule's action that waits for one of its conditions."""

    trigger: str
    since_lived: float
    why: Why
    until_lived: float | None = None
    """When it is decided at the latest; None: nobody knows."""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    spec: JobSpec
    plan_sha: str = ""
    parent: str = ""
    """The job whose rule asked for it; empty: a person did."""
    parent_action: str = ""
    asked_by: str = ""
    """Who had it join; empty: it was there from the start, or a rule asked for it."""
    policy: str = ""
    """The policy that made it, on account of `asked_by`; empty: none did."""
    state: JobState = JobState.PLANNED
    since: float = 0.0
    since_lived: float = 0.0
    cause: Cause | None = None
    why: Why | None = None
    """Why it ended, or why it waits although its conditions pass."""
    waiting_lived: float | None = None
    """Start of the waiting clock, in seconds that engines lived."""
    resume: bool = False
    ahead: bool = False
    attempts: tuple[Attempt, ...] = ()
    start: tuple[ConditionStatus | None, ...] = ()
    cancel: tuple[ConditionStatus | None, ...] = ()
    latched: Mapping[str, Latched] = field(default_factory=dict)
    """What this wait has found in logs, by the search; it stays found."""
    ask: Ask | None = None
    retry: Retry | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    noted: NotedMetrics | None = None
    noted_at: float = 0.0
    fired: Mapping[str, float] = field(default_factory=dict)
    firings: Mapping[str, int] = field(default_factory=dict)
    deferred: Mapping[str, Deferred] = field(default_factory=dict)
    """Action -> what it was deferred for; some outlive the job's end."""
    saved: SavedCheckpoint | None = None
    done: DoneWork | None = None
    """An earlier session's, which this job need not do again."""
    foreign_files: bool = False
    """Whether what lies in its directory before its first attempt is of other work."""
    use_files: bool = False
    look_ordered: int = 0
    """The attempt before which the files of its followers were to be looked at."""
    looked_before: int = 0
    found: Mapping[str, SetAside] = field(default_factory=dict)
    """By path, what that look has found; it is set aside when the attempt is sent."""
    aside: Mapping[str, SetAside] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_planned(self) -> bool:
        """Whether a person's plan has it, and neither a rule nor a policy made it."""
        return not (self.parent or self.policy)

    @property
    def origin(self) -> str:
        """Who asked for it to join, in words; empty: it was there from the start."""
        if self.parent:
            return f"the action {self.parent_action} of {self.parent}"
        return self.asked_by

    @property
    def is_over_as_trial(self) -> bool:
        """Whether it ended as a trial: a policy judges that, and no person need."""
        return self.spec.trial and self.ended

    @property
    def done_before(self) -> bool:
        """Whether it completed by an earlier session's work, without a run here."""
        return self.done is not None and self.state is JobState.COMPLETED

    @property
    def is_doing_other_work(self) -> bool:
        """Whether its next attempt will do other work than its newest did."""
        newest = self.attempt.fingerprint if self.attempt else ""
        return newest not in ("", self.spec.fingerprint)

    @property
    def list_planned_values(self) -> Mapping[str, object]:
        """The plan's values, of its parameters and of what was changed since."""
        planned = self.spec.planned
        return self.spec.parameters if planned is None else planned

    def values_of(self, attempt: Attempt) -> Mapping[str, object]:
        return self.list_planned_values if attempt.values is None else attempt.values

    @property
    def list_changed_keys(self) -> tuple[str, ...]:
        """The keys of which an attempt has, or had, another value than the plan's."""
        planned = self.list_planned_values
        runs = (self.spec.own_values, *(one.values or {} for one in self.attempts))
        return tuple(
            dict.fromkeys(
                key
                for values in runs
                for key, value in values.items()
                if key not in planned or planned[key] != value
            )
        )

    def find_noted(self, attempt: Attempt) -> NotedMetrics | None:
        own = self.noted is not None and self.noted.attempt == attempt.number
        return self.noted if own else attempt.noted

    @property
    def started(self) -> bool:
        return self.state not in NOT_STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEffect:
    effect_id: str
    effect: Effect
    seq: int
    ordered_utc: float
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    warning_id: str
    why: Why
    job: str
    severity: str
    evidence: str
    raised_at: float

    @property
    def is_stall(self) -> bool:
        """Whether it says that the job's counter stands still."""
        return self.why.code.startswith(("stall", "no_step"))


class Overlay(MutableMapping[K, V]):
    """A mapping as it would be with changes, which are kept apart; while it is used the
    one below does not change. Nothing of that is removed."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: Mapping[K, V]) -> None:
        self._own: dict[K, V] = {}
        self._below = below

    def __getitem__(self, key: K) -> V:
        return self._own[key] if key in self._own else self._below[key]

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self._below

    def __setitem__(self, key: K, value: V) -> None:
        self._own[key] = value

    def __delitem__(self, key: K) -> None:
        del self._own[key]

    def __iter__(self) -> Iterator[K]:
        yield from self._below
        yield from (key for key in self._own if key not in self._below)

    def __reversed__(self) -> Iterator[K]:
        yield from (key for key in reversed(self._own) if key not in self._below)
        yield from reversed(cast(dict[K, V], self._below))

    def __len__(self) -> int:
        return len(self._below) + sum(key not in self._below for key in self._own)


Growing: TypeAlias = dict[K, V] | Overlay[K, V]
"""A mapping of which nothing ever goes, in the order in which it has grown."""


def list_newer(growing: Growing[K, V], known: int) -> list[K]:
    """The keys behind the first `known`, at the cost of those alone."""
    return [*islice(reversed(growing), len(growing) - known)][::-1]


class Joined(NamedTuple):
    """What a plan brought that was not there, as it is in the session."""

    jobs: tuple[JobSpec, ...]
    edges: tuple[Edge, ...]


@dataclass(slots=True)
class SessionState:
    """The fold of a journal. `plans` must hold every sha that `PlanAdded` names."""

    plans: MutableMapping[str, Plan] = field(default_factory=dict)
    session: str = ""
    name: str = ""
    seq: int = 0
    epoch: int = 0
    t: float = 0.0
    """Of the newest record, on the scale of `model.facts`, as times here."""
    utc: float = 0.0
    lived: float = 0.0
    started_at: float = 0.0
    engine_host: str = ""
    engine_pid: int = 0
    engine_stopped: bool = False
    engine_stopping: bool = False
    """Whether it stops when no job is active any more."""
    wrapper_sha256: str = ""
    paused: Why | None = None
    excluded_nodes: tuple[str, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()
    base: Plan | None = None
    """The session's first plan, with the rules of all that joined."""
    joined: Growing[str, Joined] = field(default_factory=dict)
    """By the sha of the plan."""
    refused_joins: MutableMapping[str, Why] = field(default_factory=dict)
    """On whose account a policy asked for jobs that could not join -> why not."""
    asked: str = ""
    """Sha of the newest plan that a person asked for; empty: before the first."""
    highest: int = -1
    """The highest index of a job."""
    jobs: Growing[str, JobRecord] = field(default_factory=dict)
    """In the order in which they joined."""
    tokens: Growing[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    pending: MutableMapping[str, PendingEffect] = field(default_factory=dict)
    warnings: MutableMapping[str, Warned] = field(default_factory=dict)
    matches: MutableMapping[str, Matched] = field(default_factory=dict)
    """Job -> what its rules have found, while its newest attempt goes on."""
    commands: Growing[str, int] = field(default_factory=dict)
    """Command id -> seq of its first event: what was carried out already."""
    streaks: MutableMapping[str, int] = field(default_factory=dict)
    """Key of `events.runs` -> quick failures in a row, up to now."""
    parts: MutableMapping[str, Any] = field(default_factory=dict)
    asks: MutableMapping[str, Ask] = field(default_factory=dict)
    """Name -> the newest question of that name that is no job's, answered or not."""
    unseen: bool = field(default=False, compare=False, repr=False)
    """Nobody looks at its records: they change in place (`event.unseen`)."""
    touched: set[str] = field(default_factory=set, compare=False, repr=False)
    """Jobs that are no longer what they were when this was emptied last."""
    moves: list[Move] | None = field(default=None, compare=False, repr=False)
    """Of a draft: moves that rules have not been asked about, oldest first."""
    _whole: tuple[int, Plan | None] = field(
        default=(0, None), compare=False, repr=False
    )
    """Of how many plans `plan` was made last, and what it was."""

    @property
    def order(self) -> tuple[str, ...]:
        """The names of its jobs."""
        return tuple(self.jobs)

    @property
    def plan(self) -> Plan | None:
        """`base` with the jobs and edges of all that joined: it costs those when it is
        asked for after one has."""
        known, whole = self._whole
        if self.base is not None and len(self.joined) > known:
            new = [] if whole is None else [Joined(whole.jobs, whole.edges)]
            new += [self.joined[sha] for sha in list_newer(self.joined, known)]
            (jobs, *more), (edges, *behind) = zip(*new, strict=True)
            # The first are long, and taken over whole.
            jobs += tuple(chain.from_iterable(more))
            edges += tuple(chain.from_iterable(behind))
            whole = replace(self.base, jobs=jobs, edges=edges)
            self._whole = len(self.joined), whole
        return whole

    @property
    def wall_ahead(self) -> float:
        """Seconds by which the wall clock showed more than `t` at the newest record."""
        return self.utc - self.t

    def present(self, utc: float) -> Present:
        """What `utc`, by the wall clock, is in the session's time."""
        return Present(max(utc - self.wall_ahead, self.t), self.wall_ahead)

    def measure_seconds_until(self, utc: float) -> float:
        """How long nothing was recorded, by the wall clock; 0 if that was set back."""
        return max(0.0, utc - self.utc)

    def plan_of(self, job: str) -> Plan | None:
        """The plan that has a job; of a policy's, the first one's settings."""
        record = self.jobs[job]
        if record.plan_sha:
            return self.plans[record.plan_sha]
        return self.base.blank() if record.policy and self.base else self.plan

    def list_origins(self, job: JobRecord) -> Iterator[JobRecord]:
        """A job, the one whose rule made it, and so on up to a person's."""
        found: JobRecord | None = job
        while found is not None:
            yield found
            found = self.jobs.get(found.parent)

    def mark_of(self, job: str, attempt: int, run: int, rule: str) -> Mark | None:
        """A rule's newest match in a run; None: it has none, or the run is over."""
        found = self.matches.get(job)
        if found is None or (found.attempt, found.run) != (attempt, run):
            return None
        return found.marks.get(rule)

    def fork(self, *, briefly: bool = False) -> SessionState:
        """A draft: what is applied to it leaves this state as it is. `briefly`: it is
        used while this state does not change, and costs the same however large it is.
        """
        draft = changed(self)
        for name in _CONTAINERS:
            setattr(draft, name, dict(getattr(self, name)))
        draft.parts = fork_parts(self.parts, briefly=briefly)
        for name in _GROWING:
            setattr(draft, name, (Overlay if briefly else dict)(getattr(self, name)))
        draft.unseen, draft.touched, draft.moves = False, set(), []
        return draft


class PolicyPart:
    """The part of a session's state that is a policy's. Its records are frozen: forks
    share them."""

    __slots__ = ()
    growing: ClassVar[tuple[str, ...]] = ()
    """Fields with mappings of which nothing ever goes, and which may be long."""
    short: ClassVar[tuple[str, ...]] = ()
    """The other fields with mappings that change."""

    def fork(self) -> Self:
        """A copy of which the changes are its own."""
        return self._fork(dict)

    def fork_briefly(self) -> Self:
        """The same, used while this one does not change: `SessionState.fork`."""
        return self._fork(Overlay)

    def _fork(self, kind: type[Any]) -> Self:
        made = changed(self)
        for name in self.short:
            setattr(made, name, dict(getattr(self, name)))
        for name in self.growing:
            setattr(made, name, kind(getattr(self, name)))
        return made


def fork_parts(parts: Mapping[str, Any], *, briefly: bool = False) -> dict[str, Any]:
    """The parts of policies, each a copy of its own; one without `fork` is frozen.
    `briefly`: by its `fork_briefly`, where it has one."""

    def fork(part: Any) -> Any:
        made = getattr(part, "fork_briefly", None) if briefly else None
        made = made or getattr(part, "fork", None)
        return made() if made else part

    return {name: fork(part) for name, part in parts.items()}


_CONTAINERS: Final = (
    *("pending", "warnings", "matches", "streaks", "refused_joins", "asks"),
)
"""What a draft has copies of; `plans` only ever grows."""
_GROWING: Final = ("jobs", "tokens", "commands", "joined")
"""Of which a brief one holds what is new or another: nothing of them ever goes."""
