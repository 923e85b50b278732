"""How jobs are watched: rules over logs and ends, metrics, anomalies, storms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import Kind, KindTable
from autoexp_tui.model.states import BEGUN

RARE: Final = {"rare": True}
"""Metadata of a field that is written only where it is not the usual one."""
JoinMode: TypeAlias = Literal["queue", "now"]
"""Where jobs stand that join: behind all that wait for a slot, or before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Kind):
    kinds: ClassVar[KindTable[Action]] = KindTable(
        "action",
        {
            "actions.kinds": "restart:Restart cancel:Cancel finish:Finish log:Log "
            "notify:Notify append_to_file:AppendToFile command:RunCommand "
            "quarantine_checkpoint:QuarantineCheckpoint new_job:NewJob "
            "run_autoexp:RunAutoexp",
        },
    )

    restarts: ClassVar[bool] = False
    """Whether the job may run again because of it."""
    is_of_run: ClassVar[bool] = False
    """Whether it acts on the job's own run: nothing is to do once that is over."""
    follows_run: ClassVar[bool] = False
    """Whether it waits for the end of the run that made it due."""
    needs_values: ClassVar[bool] = False
    makes_jobs: ClassVar[bool] = False

    conditions: tuple[Condition, ...] = ()
    """All must pass; one that WAITs defers the action, it is not dropped."""

    def execute(self, firing: Any) -> bool:
        """Carry it out for an `actions.orders.Firing`; False: put off, or dropped."""
        raise NotImplementedError(type(self).__name__)

    def can_fire_late(self, job: Any) -> bool:
        """Whether it may be carried out now although it was put off before."""
        return not self.follows_run and (not self.is_of_run or job.state in BEGUN)


@dataclass(frozen=True, slots=True)
class Armed:
    key: str
    action: Action
    trigger: str
    line: str = ""

    @property
    def rule(self) -> str:
        return self.key.rpartition("/")[0]


PatternType: TypeAlias = Literal["substring", "regex", "inactivity", "progress"]
QUIET_TYPES: Final = ("inactivity", "progress")
"""Rules that apply when for some time nothing has moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """A rule over the new bytes of every job's log, or over their absence."""

    name: str
    pattern: str = ""
    """Empty: any output (`inactivity`), or the progress metric (`progress`)."""
    pattern_type: PatternType = "substring"
    after_seconds: float | None = None
    """Of the types in `QUIET_TYPES`; None: the monitoring's `stall_after_seconds`."""
    extract_groups: Mapping[str, str] = field(default_factory=dict)
    """Metadata key -> regex group (a name, or a number as text)."""
    match_once: bool = False
    actions: tuple[Action, ...] = ()
    stages: tuple[str, ...] = ()
    """Only jobs of these stages; empty: all."""


StateClass: TypeAlias = Literal[
    "crash", "stall", "timeout", "oom", "node_fail", "preempted", "success"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvent:
    name: str
    state: StateClass | None = None
    transition: tuple[str | None, str] | None = None
    """(old or None for any, new): our state names."""
    actions: tuple[Action, ...] = ()
    stages: tuple[str, ...] = ()


def arm(rule: LogEvent | StateEvent, trigger: str, line: str = "") -> Iterator[Armed]:
    for index, action in enumerate(rule.actions):
        yield Armed(f"{rule.name}/{index}", action, trigger, line)


def is_for_stage(rule: LogEvent | StateEvent, stage: str) -> bool:
    return not rule.stages or stage in rule.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    metric: str = "iteration"
    total: str = ""
    """A config path that holds the last step; empty: taken from the log, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSpec:
    metric: str = ""
    """Empty: the monitoring's `loss`, else `loss`."""
    mode: Literal["min", "max", "last"] = "last"
    over: tuple[str, ...] | None = None
    """Keys in which runs of one result may differ: the seed; None: those that are
    called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    nan: Literal["kill", "warn", "off"] = "kill"
    flat_share: float | None = None
    """Of the run's steps, in which the loss must fall; None: it need not."""
    flat_steps: int | None = field(default=None, metadata=RARE)
    """The same as a number of steps, which wins."""
    plateau_percent: float = 1.0
    plateau_steps: int = 500
    plateau: Literal["warn", "off"] = "off"
    """This and `plateau_steps` are read in older plans, and without effect."""
    divergence_percent: float = 50.0
    divergence: Literal["warn", "off"] = "warn"
    min_points: int = 20
    """Observations before a flat or rising loss is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """When so many attempts fail one after the other that sending more is waste."""

    failures: int = 5
    quick_seconds: float = 120.0
    """An attempt that failed within this after its run began failed quickly."""
    per: tuple[Literal["session", "stage", "node"], ...] = ("session", "stage", "node")
    action: Literal["pause", "exclude_node"] = "pause"
    """`exclude_node`: a node alone is left out; whatever else it is pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Where a job's program keeps what it goes on from."""

    glob: str = ""
    """Each match is one checkpoint; relative to `output_dir`. Empty: not known."""
    pointer: str = ""
    """A file or link beside them that names the newest; empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPattern:
    name: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFile:
    """A file of a job's from which metrics are read, beside its log."""

    path: str
    """Or a glob, below the job's output directory; `{name}` is replaced."""
    format: Literal["jsonl", "csv", "tensorboard"]
    step: str = ""
    """The key or column of the step; empty: one that is called like it."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric -> its key or column; empty: every number, by its own name."""


MOST_EVIDENCE_SECONDS: Final = 20.0
LOCK_STALE_SECONDS: Final = 600.0
SHORTEST_LOCK_STALE_SECONDS: Final = 90.0
"""Three heartbeats of an engine: one that is late by less is not dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """How the engine watches the jobs of a plan, or those with rules of their own."""

    poll_seconds: float = 1.0
    """Between looks at files that something waits for; one for the whole session."""
    log_events: tuple[LogEvent, ...] = ()
    state_events: tuple[StateEvent, ...] = ()
    metrics: tuple[MetricPattern, ...] = ()
    """Further patterns; loss, learning rate, step and speed are known already."""
    metrics_files: tuple[MetricFile, ...] = ()
    """Their metrics win over those of the same name in the log."""
    loss: str = "loss"
    result: ResultSpec = field(default_factory=ResultSpec)
    progress: Progress = field(default_factory=Progress)
    anomalies: Anomalies = field(default_factory=Anomalies)
    stall_after_seconds: float = 1800.0
    evidence_seconds: float = MOST_EVIDENCE_SECONDS
    """How long a run that a rule ends may live on to be looked at; 0: not at all."""
    doomed: Literal["skip", "hold"] = "skip"
    doomed_grace_seconds: float = 60.0
    notify_command: tuple[str, ...] = ()
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    storm: Storm = field(default_factory=Storm)
    lock_stale_seconds: float = LOCK_STALE_SECONDS
    """An engine elsewhere is dead once its heartbeat stood still so long."""
