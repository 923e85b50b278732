"""What jobs leave behind: files, checkpoints, metrics, work that is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoexp_tui.model.states import Extremes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    path: str
    step: int | None = None
    """None: its name holds no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """The newest at one look, and what moving it aside would mean."""

    newest: Checkpoint
    target: str
    before: Checkpoint | None = None
    """The newest of the others; None: it is the only one."""
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlace:
    """Where a job that runs keeps what its next attempt would go on from."""

    job: str
    output_dir: str
    glob: str
    since: float | None = None
    """UTC: what is older is of other work; None: all of it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCheckpoint:
    """The newest checkpoint of a job that runs, at one look."""

    step: int | None
    age: float
    """Seconds since it was written, by the file system's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    checkpoint: Checkpoint
    strikes: int = 0
    """Attempts in a row that went on from it and failed before they came further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """A file as stat tells it from every other, and from itself once it is written."""

    path: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A file that lay there before an attempt began anew."""

    file: FileIdentity
    attempt: int = 0
    """The newest attempt that may have written it; 0: none of this session."""
    values: str = ""
    """What that attempt ran with, where it is not what the next one runs with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedMetrics:
    """A job's newest metrics, as they were recorded last."""

    attempt: int
    """0: an earlier session's."""
    run: int = 0
    step: int
    total: int | None
    values: Mapping[str, float | str]
    """Finite numbers as numbers; `nan`, `inf`, `-inf` as text (JSON has none)."""
    judged: Mapping[str, int] = field(default_factory=dict)
    """File (the log: empty) -> the bytes of it of which all anomalies were noted."""
    result: float | str | None = None
    """The number that the job is for; None: not known."""
    lows: Extremes = field(default_factory=dict)
    """Of the run and of those that it goes on from, once its log was read to the end;
    empty before, and in records of older programs."""
    highs: Extremes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneWork:
    """What is known of a job that completed, for sessions to come."""

    job: str
    session: str
    mark: str
    """Names the session among all that ever were, also those with the same id."""
    fingerprint: str
    at: float
    attempts: int = 0
    upstream: Mapping[str, str] = field(default_factory=dict)
    """Job that it depends on -> the mark of the session whose results it used."""
    upstream_work: Mapping[str, str] = field(default_factory=dict)
    """Job that it depends on -> fingerprint of the work it used; absent in
    records of older programs."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    step: int | None = None
    """Its newest metrics; None: none were noted."""
    seconds: float | None = None
    """How long it ran, when it did all its steps in one attempt."""
    total: int | None = None
    values: Mapping[str, float | str] = field(default_factory=dict)
    result: float | str | None = None
    lows: Extremes = field(default_factory=dict)
    """As `NotedMetrics` has them; absent in records of older programs."""
    highs: Extremes = field(default_factory=dict)
