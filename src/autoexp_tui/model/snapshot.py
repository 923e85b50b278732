"""What front ends see: one frozen value, compared by identity."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from autoexp_tui.model.states import Extremes, Verdict, Why
from autoexp_tui.text.spelling import Present

if TYPE_CHECKING:  # a first paint needs no events
    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.facts import MetricFact
    from autoexp_tui.model.specs import Plan
    from autoexp_tui.model.state import Ask, JobRecord, PendingEffect, Warned
    from autoexp_tui.model.states import JobState

Role: TypeAlias = Literal["plan", "live", "viewer", "replay"]
"""`plan`: nothing was submitted, no session exists on disk yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    gaps: tuple[int, ...] = ()
    """Steps at which it was nan or infinite: the first ones, and the newest."""

    def find_best(self, *, rising: bool) -> tuple[int, float] | None:
        """Step and value of the lowest point, or the highest; the first of equals."""
        points = zip(self.steps, self.values, strict=False)
        finite = (one for one in points if math.isfinite(one[1]))
        return (max if rising else min)(finite, key=itemgetter(1), default=None)

    def find_nearest(self, step: float) -> int:
        """The place of the point that is nearest to a step, of two the earlier; there
        has to be one."""
        after = bisect_left(self.steps, step)
        near = range(max(0, after - 1), min(after + 1, len(self.steps)))
        return min(near, key=lambda at: abs(self.steps[at] - step))


@dataclass(frozen=True, slots=True)
class InQueue:
    """What the executor says of a job that waits there, or has left it."""

    reason: str = ""
    expected_at: float | None = None
    """UTC at which the executor expects to start it; None: it does not say."""
    partition: str = ""
    leaving: bool = False
    """It is over; how it ended is not judged yet."""


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """What one GPU did at its last sample; None: it does not tell."""

    busy_percent: float | None = None
    used_mib: float | None = None
    total_mib: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class GpuView:
    gpus: tuple[GpuLoad, ...]
    seen_at: float
    """UTC at which the newest sample was read."""
    idle_seconds: float = 0.0
    """For how long every sample said that none of them did anything."""
    low_seconds: float = 0.0
    """For how long the mean of every sample was below 20 % of the time."""


class LiveRun(Protocol):
    """What a job's newest run has told by now, as policies read it: no copy, the next
    commit moves it on. What runs before it told, and what is still read of a backlog,
    is left out."""

    @property
    def number(self) -> tuple[int, int]:
        """(attempt, run within it)."""

    @property
    def reached(self) -> int | None:
        """Its newest step; None: it told none."""

    @property
    def step(self) -> int | None:
        """Of its log and files the furthest; until it told one, of the run before."""

    @property
    def first_step(self) -> int | None:
        """Where its attempt began."""

    @property
    def total(self) -> int | None:
        """Its last step, as far as its log tells."""

    @property
    def tail(self) -> str:
        """The end of its log, of one that has failed; empty: it has not, or an engine
        before saw its end."""

    def find_value(self, metric: str) -> MetricFact | None:
        """The newest value of a metric (canonical name), of GPUs the mean."""

    def find_curve(self, metric: str) -> Curve | None:
        """A metric over its steps, thinned; with those of the runs that it goes on
        from. The same object as long as nothing was added."""

    def find_gpus(self) -> GpuView | None:
        """Its GPUs; None: no sample was read."""


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """The volatile side of a job: what its log said last."""

    step: int | None = None
    first_step: int | None = None
    total: int | None = None
    rate: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Newest value of each metric; may be nan or inf."""
    result: float | None = None
    """The number that the job is for; may be nan or inf. None: not known."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    trend: Sequence[float] = ()
    """The metric of the result, thinned to at most 32 points, for a sparkline."""
    lows: Extremes = field(default_factory=dict)
    """The lowest value of each metric that a log told, and its step."""
    highs: Extremes = field(default_factory=dict)
    last_step_at: float | None = None
    start: tuple[Verdict | None, ...] = ()
    """The newest verdicts of the start conditions, arguments as of now."""
    queue: InQueue | None = None
    """Where it stands in the executor's queue; None: it runs, or is not there."""
    gpu: GpuView | None = None

    @property
    def reached(self) -> int | None:
        """As of `LiveRun`, and so are the next two."""
        return self.step

    def find_value(self, metric: str) -> MetricFact | None:
        value, curve = self.metrics.get(metric), self.find_curve(metric)
        if value is None:
            return None
        from autoexp_tui.model.facts import MetricFact  # a first paint needs none

        steps = curve.steps if curve is not None and math.isfinite(value) else ()
        return MetricFact(value, steps[-1] if steps else self.step or 0)

    def find_curve(self, metric: str) -> Curve | None:
        return self.curves.get(metric)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineView:
    role: Role
    epoch: int = 0
    host: str = ""
    pid: int = 0
    owner_alive: bool = True
    """Viewer: whether the owner's heartbeat still moves."""
    halted_pid: int = 0
    """Viewer: the owner's process here while Ctrl-Z or SIGSTOP keeps it; else 0."""
    stopped: bool = False
    committed_at: float = 0.0
    executor: str = ""
    executor_answered_at: float | None = None
    executor_error: str = ""
    slots: int = 0
    gpus: int | None = None
    """GPUs of the machine that runs the jobs; None: not known, or a cluster's."""
    doing: str = ""
    """What keeps the front end waiting just now (`planning exp`); usually empty."""
    holding: str = ""
    """Why nothing is written just now (a full disk), empty when all is well."""
    log_file: str = ""
    directory: str = ""
    user: str = ""
    """Viewer and replay: the other user whose session it is; empty: one's own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveDetail:
    """What live.json holds: the volatile side of a snapshot."""

    seq: int
    """The newest record when it was made."""
    t: float
    """UTC of the snapshot."""
    engine: EngineView
    jobs: Mapping[str, Live] = field(default_factory=dict)
    """Job name -> its volatile detail; jobs without one are left out."""


LandmarkKind: TypeAlias = Literal["failed", "asked", "gone"]
"""A job failed or was lost; a person was asked; no engine lived for a while."""


@dataclass(frozen=True, slots=True)
class Landmark:
    t: float
    kind: LandmarkKind
    until: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Playback:
    """Where a replay stands in the journal that it plays. Times are UTC seconds."""

    begin: float
    end: float
    at: float
    """The moment that is shown; between two events the later one is not yet so."""
    position: int
    length: int
    speed: float
    playing: bool
    landmarks: tuple[Landmark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """Everything a front end shows, as of one commit."""

    seq: int = 0
    t: float = 0.0
    """Time of the commit on the session's own scale, as all here: see `model.facts`."""
    session: str = ""
    name: str = ""
    plan: Plan | None = None
    """None while it is still being read."""
    asked: Plan | None = None
    """The newest plan that a person asked for, the first one or one that joined."""
    started_at: float = 0.0
    paused: Why | None = None
    engine: EngineView
    jobs: tuple[JobRecord, ...] = ()
    live: tuple[Live | None, ...] = ()
    warnings: tuple[Warned, ...] = ()
    pending: tuple[PendingEffect, ...] = ()
    events: tuple[Recorded, ...] = ()
    open: bool = True
    """Whether work is left."""
    open_ends: tuple[str, ...] = ()
    """What may still add jobs once all have ended, in words: `depth 2 of 3`."""
    gaps: tuple[tuple[float, float], ...] = ()
    playback: Playback | None = None
    wall_ahead: float = 0.0

    parts: Mapping[str, Any] = field(default_factory=dict)
    asks: Mapping[str, Ask] = field(default_factory=dict)
    """By name the questions that are no job's, answered or not."""
    absent: float = 0.0
    """Seconds that `t` counts and `lived` does not: see `model.facts`."""

    def convert_to_t(self, lived: float) -> float:
        """The `t` of a moment to come, should an engine live until then."""
        return lived + self.absent

    @property
    def now(self) -> Present:
        """`t`, which tells the time of day as well."""
        return Present(self.t, self.wall_ahead)


class BestResult(NamedTuple):
    """The best row of a session's results."""

    measure: str
    """`loss`, `accuracy:max`."""
    value: float
    """Finite; the mean of runs that differ in their seed alone."""
    settings: str
    """What the sweep set for it: `lr=1e-3 bsz=64`."""
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBrief:
    """What a session says of itself before it is opened."""

    id: str
    name: str = ""
    counts: Mapping[JobState, int] = field(default_factory=dict)
    """Only states that some job has."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """How many jobs need a person, by how they look: `failed`, `stalled`, `asks`,
    `cannot start`; what no job is, is left out."""
    best: BestResult | None = None
    """None: no job has told a result."""
    last_event_at: float = 0.0
    """UTC."""
    owner: str = "no"
    """Whether an engine runs it: `yes`, `no`, `unknown` on another host."""
    host: str = ""
    """Where the newest engine ran."""
    halted_pid: int = 0
    """That engine's process on this host while Ctrl-Z or SIGSTOP keeps it; else 0."""
    user: str = ""
    """The other user whose it is; empty: one's own."""
    problem: str = ""
    """Why it cannot be read; then the rest is empty."""
    open: bool = True
    """Whether work is left; True also of one that cannot be read."""
