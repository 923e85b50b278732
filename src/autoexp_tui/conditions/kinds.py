"""What a job may wait for, or be ended by: every condition that a config can ask for.

`kind` tells members of the union apart in the journal and the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from autoexp_tui.model.scalars import Scalar

Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


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
    fresh: bool = True
    """Whether what an earlier attempt left does not count when the writer begins
    anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(ConditionBase):
    """A file's text contains, or matches, `pattern`."""

    kind: Literal["file_content"] = "file_content"
    path: str
    pattern: str
    mode: Literal["contains", "regex"] = "contains"
    writer: str = ""
    fresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataIs(ConditionBase):
    """A job's logged metadata compares to a value; numbers compare as numbers."""

    kind: Literal["metadata"] = "metadata"
    key: str
    """The metadata key (`base.` and `{runtime...}` forms are lowered by planning)."""
    job: str = ""
    """Empty: the job that has the condition."""
    op: Op | Literal["known"] = "=="
    """`known`: whatever the value is."""
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
    skip: tuple[tuple[int, int], ...] = ()
    """Set while jobs run: (inode, bytes) of texts that earlier attempts left."""


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
