"""What a config asks for, after planning: conditions, actions, rules, jobs, the plan.

Every value is resolved (a job's own config, its siblings); what is known only at run
time stays as `{runtime.JOB.KEY}` text and is resolved when it is evaluated or fired.
`kind` tells members of a union apart in the journal and the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
"""A leaf of a config."""
Json: TypeAlias = object
"""Anything that YAML and JSON can both hold."""

EMPTY: Mapping[str, object] = MappingProxyType({})

Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


# ------------------------------------------------------------------- conditions
@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionBase:
    """The fields that every condition has."""

    timeout_seconds: float | None = None
    """FAIL after this long in WAITING, not counting time without an engine."""
    blocking: bool = True
    """False: a FAIL or WAIT of this one does not hold the job back, only shows."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExists(ConditionBase):
    """A path, or any match of a glob, exists (and is large enough)."""

    kind: Literal["file_exists"] = "file_exists"
    path: str
    glob: bool = False
    min_size: int = 0
    """Bytes."""
    writer: str = ""
    """The job that writes it, when planning knows: lets a doomed wait be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(ConditionBase):
    """A file's text contains, or matches, `pattern`."""

    kind: Literal["file_content"] = "file_content"
    path: str
    pattern: str
    mode: Literal["contains", "regex"] = "contains"
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataIs(ConditionBase):
    """A job's logged metadata compares to a value; numbers compare as numbers."""

    kind: Literal["metadata"] = "metadata"
    key: str
    """The metadata key (`base.` and `{runtime...}` forms are lowered by planning)."""
    job: str = ""
    """Empty: the job that has the condition."""
    op: Op = "=="
    value: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricIs(ConditionBase):
    """A job's last observed metric compares to a value, after a step."""

    kind: Literal["metric"] = "metric"
    name: str
    job: str = ""
    op: Op = "<"
    value: float
    after_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStateIs(ConditionBase):
    """Every named job is in a state; FAILs when one ended for good otherwise."""

    kind: Literal["job_state"] = "job_state"
    jobs: tuple[str, ...]
    state: str
    """One of ours, or a raw one of Slurm's that means FAILED with that cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPasses(ConditionBase):
    """A command, run without a shell, exits 0."""

    kind: Literal["command"] = "command"
    command: tuple[str, ...]
    timeout: float = 30.0
    """Seconds for one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPattern(ConditionBase):
    """A regex is found in a log (or all logs of a glob), in new bytes only."""

    kind: Literal["log_pattern"] = "log_pattern"
    log_path: str
    pattern: str
    glob: bool = False
    check_mode: Literal["any", "all"] = "any"
    tail_bytes: int = 1 << 20
    """How much of a file that was there before is read at the first look."""
    writer: str = ""
    """The job that writes it, when planning knows: lets a doomed wait be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReached(ConditionBase):
    """Seconds since WAITING was entered have passed, or a moment is reached."""

    kind: Literal["time"] = "time"
    after_seconds: float | None = None
    at: float | None = None
    """UTC, seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(ConditionBase):
    """A person says yes; bound to what will be done."""

    kind: Literal["approval"] = "approval"
    prompt: str = ""
    show_files: tuple[str, ...] = ()
    """Files whose text is shown with the prompt, when they exist."""
    on_timeout: Literal["hold", "reject"] = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxAttempts(ConditionBase):
    """The job has had fewer attempts than this."""

    kind: Literal["max_attempts"] = "max_attempts"
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown(ConditionBase):
    """So many seconds have passed since this action last fired for this job."""

    kind: Literal["cooldown"] = "cooldown"
    cooldown_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite(ConditionBase):
    """All, or any, of several conditions."""

    kind: Literal["composite"] = "composite"
    mode: Literal["all", "any"] = "all"
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(ConditionBase):
    """PASS and FAIL exchanged; WAIT passes (the thing is not so, as yet)."""

    kind: Literal["not"] = "not"
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCondition(ConditionBase):
    """A class of the user's, made of `fields`: `pkg.mod:Class`."""

    kind: Literal["own"] = "own"
    class_path: str
    fields: Mapping[str, object] = field(default_factory=dict)


Condition: TypeAlias = (
    FileExists
    | FileContent
    | MetadataIs
    | MetricIs
    | JobStateIs
    | CommandPasses
    | LogPattern
    | TimeReached
    | Approval
    | MaxAttempts
    | Cooldown
    | OwnCondition
    | Composite
    | Not
)


# ---------------------------------------------------------------------- actions
@dataclass(frozen=True, slots=True, kw_only=True)
class ActionBase:
    """The fields that every action has."""

    conditions: tuple[Condition, ...] = ()
    """All must pass; one that WAITs defers the action, it is not dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(ActionBase):
    """Run the job again, as a further attempt."""

    kind: Literal["restart"] = "restart"
    reason: str = ""
    overrides: tuple[str, ...] = ()
    exclude_node: bool = False
    from_checkpoint: bool = True
    quarantine_after: int = 0
    """Failures in a row of attempts that went on from one checkpoint and came no
    further, before it is moved aside; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(ActionBase):
    """End the job."""

    kind: Literal["cancel"] = "cancel"
    reason: str = ""
    cause: Literal["cancel_condition", "nan", "stall", "kill_criterion"] = (
        "cancel_condition"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(ActionBase):
    """Write a line to the session's events."""

    kind: Literal["log"] = "log"
    message: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify(ActionBase):
    """Tell the person: a warning in the cockpit, and `notify.command` if set."""

    kind: Literal["notify"] = "notify"
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(ActionBase):
    """The job is done: end what runs of it, and count it as completed."""

    kind: Literal["finish"] = "finish"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFile(ActionBase):
    """Add a line of text to a file, which is made when it is not there."""

    kind: Literal["append_to_file"] = "append_to_file"
    path: str
    """A relative one starts where the job runs."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(ActionBase):
    """Run a command, without a shell, once."""

    kind: Literal["command"] = "command"
    command: tuple[str, ...]
    timeout: float = 60.0
    """Seconds until it is killed, with whatever it started."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the engine's own environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCheckpoint(ActionBase):
    """Move the job's newest checkpoint aside, so that the one before it is used."""

    kind: Literal["quarantine_checkpoint"] = "quarantine_checkpoint"
    path: str = ""
    """A certain one; empty: the newest. A relative one starts in `output_dir`."""
    keep: int = 0
    """Nothing is moved when fewer than this would be left."""


JoinMode: TypeAlias = Literal["queue", "now"]
"""Where jobs stand that join: behind all that wait for a slot, or before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob(ActionBase):
    """Let one further job join the session; what is not given is the trigger's."""

    kind: Literal["new_job"] = "new_job"
    command: tuple[str, ...]
    name: str = ""
    """Empty: `<job>_<rule>`, counted on where that is taken."""
    stage: str = ""
    """Empty: the rule's name."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the variables of the job that triggered it."""
    cwd: str = ""
    start_conditions: tuple[Condition, ...] = ()
    cancel_conditions: tuple[Condition, ...] = ()
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """The executor's own options that differ."""
    time_limit_seconds: float | None = None
    gpus: int | None = None
    mode: JoinMode = "queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAutoexp(ActionBase):
    """Plan a config, and let its jobs join the session."""

    kind: Literal["run_autoexp"] = "run_autoexp"
    config_ref: str = ""
    """As on the command line; this or `config_path`."""
    config_path: str = ""
    """A YAML file; a relative one starts where the job runs."""
    overrides: tuple[str, ...] = ()
    mode: JoinMode = "queue"
    script: str = ""
    """Accepted for old configs, never run: planning is the engine's own work."""


Action: TypeAlias = (
    Restart
    | Cancel
    | Log
    | Notify
    | Finish
    | AppendToFile
    | RunCommand
    | QuarantineCheckpoint
    | NewJob
    | RunAutoexp
)


# ------------------------------------------------------------------------ rules
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
    """Once for each run, not for each match."""
    actions: tuple[Action, ...] = ()
    stages: tuple[str, ...] = ()
    """Only jobs of these stages; empty: all."""


StateClass: TypeAlias = Literal[
    "crash", "stall", "timeout", "oom", "node_fail", "preempted", "success"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvent:
    """A rule over how attempts end, or over a transition of states."""

    name: str
    state: StateClass | None = None
    transition: tuple[str | None, str] | None = None
    """(old or None for any, new): our state names."""
    actions: tuple[Action, ...] = ()
    stages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a job's step counter stands and ends."""

    metric: str = "iteration"
    total: str = ""
    """A config path that holds the last step; empty: taken from the log, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    """What counts as ill, and what is done about it."""

    nan: Literal["kill", "warn", "off"] = "kill"
    plateau_percent: float = 1.0
    plateau_steps: int = 500
    plateau: Literal["warn", "off"] = "warn"
    divergence_percent: float = 50.0
    """Above the minimum so far."""
    divergence: Literal["warn", "off"] = "warn"
    min_points: int = 20
    """Observations before plateau and divergence are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """When so many attempts fail one after the other that sending more is waste."""

    failures: int = 5
    """Quick failures in a row; 0: nothing is counted."""
    quick_seconds: float = 120.0
    """An attempt that failed within this after its run began failed quickly."""
    per: tuple[Literal["session", "stage", "node"], ...] = ("session", "stage", "node")
    """Where they are counted, each for itself."""
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
    """A regex with one group that yields a metric from a log line."""

    name: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFile:
    """A file of a job's from which metrics are read, beside its log."""

    path: str
    """Or a glob; below the job's output directory unless absolute. `{name}`, `{stage}`
    and further fields of the job stand for their values."""
    format: Literal["jsonl", "csv"]
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
    """The metric of trends and anomalies."""
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
    """One for the whole session."""
    lock_stale_seconds: float = LOCK_STALE_SECONDS
    """An engine on another host is taken for dead once its heartbeat has been seen
    still for so long; one for the whole session."""


# ------------------------------------------------------------------------- plan
@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one job asks of its executor."""

    time_limit_seconds: float | None = None
    gpus: int = 0
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """The executor's own options (for Slurm: sbatch's)."""

    @property
    def key(self) -> str:
        """The same text for jobs that ask for the same."""
        options = sorted(self.options.items())
        return repr((self.time_limit_seconds, self.gpus, options))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSpec:
    """Which executor runs the jobs, and its settings."""

    class_name: str = "LocalClient"
    max_parallel: int = 0
    """Tasks at a time; 0: the executor's own number (local: the CPU cores)."""
    settings: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job of a plan, everything resolved."""

    name: str
    index: int
    stage: str = ""
    family: str = ""
    """Jobs at the same coordinates, stage apart, share it: `f0`, `f1` ..."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """As written in the sweep."""
    overrides: tuple[str, ...] = ()
    command: tuple[str, ...]
    """What runs; never passes through a shell."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    output_dir: str
    log_dir: str
    """Of this job: holds `slurm-%j.out` and `current.log`."""
    fingerprint: str = ""
    start_conditions: tuple[Condition, ...] = ()
    cancel_conditions: tuple[Condition, ...] = ()
    depends_on: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    progress_total: int | None = None
    """The last step, when the config tells."""
    rules: str = ""
    """Key in the plan's `rule_sets`; empty: the plan's own `monitoring`."""
    own_rules: Monitoring | None = None
    """Of a job that was planned anew with other rules: they win over `rules`."""
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def log_path_current(self) -> str:
        """The stable path of the newest run's log."""
        return f"{self.log_dir}/current.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`after` waits for, or reads from, `before`."""

    before: str
    after: str
    mode: Literal["waits", "reads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFinding:
    """A warning of planning, kept with the plan."""

    message: str
    where: str = ""
    job: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a session runs: the content of a manifest."""

    version: int = 1
    plan_id: str
    name: str
    config_ref: str = ""
    config_dir: str = ""
    overrides: tuple[str, ...] = ()
    cwd: str = ""
    """Where it was composed, and its relative paths start; empty: not known."""
    search_dirs: tuple[str, ...] = ()
    """Further directories that were searched for config groups."""
    created_at: float = 0.0
    """UTC, seconds since the epoch."""
    state_dir: str
    base_output_dir: str = ""
    jobs: tuple[JobSpec, ...]
    edges: tuple[Edge, ...] = ()
    monitoring: Monitoring = field(default_factory=Monitoring)
    rule_sets: Mapping[str, Monitoring] = field(default_factory=dict)
    """What jobs with rules of their own refer to; equal sets are there once."""
    executor: ExecutorSpec = field(default_factory=ExecutorSpec)
    ui: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[PlanFinding, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Names of the variables that were read -> digest of the value."""

    def rules_of(self, job: JobSpec) -> Monitoring:
        """How a job is watched; by the plan's own rules when it names none known."""
        return job.own_rules or self.rule_sets.get(job.rules, self.monitoring)
