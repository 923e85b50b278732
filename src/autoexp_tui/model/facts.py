"""What can be known about the world, and when: keys, facts, moments.

A fact may be *unknown*; it is never *absent* because of an error. Of the three time
scales `t` orders events and never goes back: by the machine's clocks while nobody sets
them, between two engines by the wall clock; ages and spans that people read are its
differences. `utc` is what the wall clock showed: only `Time.at` asks it. `lived` counts
the seconds for which an engine lived: whatever lasts is stored and judged in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from autoexp_tui.model.outputs import FileIdentity, SetAside
from autoexp_tui.model.states import Cause, JobState


@dataclass(frozen=True, slots=True)
class Moment:
    t: float
    utc: float
    lived: float

    def convert_to_t(self, lived: float) -> float:
        """The `t` of a moment of `lived`, for people: whole seconds."""
        return round(self.t + lived - self.lived)

    def convert_to_lived(self, utc: float) -> float:
        """The moment of `lived` at which the wall clock shows `utc`."""
        return self.lived + utc - self.utc


@dataclass(frozen=True, slots=True)
class StatKey:
    path: str


@dataclass(frozen=True, slots=True)
class GlobKey:
    pattern: str


@dataclass(frozen=True, slots=True)
class TextKey:
    path: str
    pattern: str = ""
    """A regex; empty: the text is asked for."""


@dataclass(frozen=True, slots=True)
class LogKey:
    """Whether a pattern was found in a log (or the logs of a glob)."""

    path: str
    pattern: str
    glob: bool
    check_mode: str
    tail_bytes: int
    skip: tuple[tuple[int, int], ...] = ()
    """(inode, bytes) of texts in which nothing is looked for."""


@dataclass(frozen=True, slots=True)
class CommandKey:
    command: tuple[str, ...]
    timeout: float


@dataclass(frozen=True, slots=True)
class JobKey:
    job: str


@dataclass(frozen=True, slots=True)
class MetadataKey:
    job: str
    key: str


@dataclass(frozen=True, slots=True)
class MetricKey:
    job: str
    name: str


@dataclass(frozen=True, slots=True)
class ApprovalKey:
    """What a person said about a job's start."""

    job: str


@dataclass(frozen=True, slots=True)
class FiredKey:
    job: str
    action: str


OutsideKey: TypeAlias = StatKey | GlobKey | TextKey | LogKey | CommandKey
InsideKey: TypeAlias = JobKey | MetadataKey | MetricKey | ApprovalKey | FiredKey
FactKey: TypeAlias = OutsideKey | InsideKey


@dataclass(frozen=True, slots=True)
class FileStat:
    """A path as stat saw it; `exists` False means the look worked and found none."""

    exists: bool
    size: int = 0
    mtime: float = 0.0
    file: FileIdentity | None = None


@dataclass(frozen=True, slots=True)
class Matches:
    paths: tuple[str, ...] = ()
    largest: int = 0
    files: tuple[FileIdentity, ...] = ()


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text, None when there is no file."""

    text: str | None
    """Empty where a pattern was asked for: it may be long."""
    file: FileIdentity | None = None
    holds: bool = False


@dataclass(frozen=True, slots=True)
class LogFound:
    """Which files of a log condition held the pattern, and one line that did."""

    files: int = 0
    matched: int = 0
    line: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A finished command; `exit_code` None when it could not start or ran too long."""

    exit_code: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class JobFact:
    state: JobState
    cause: Cause | None = None
    attempts: int = 0
    step: int | None = None
    ended_lived: float | None = None
    aside: Mapping[str, SetAside] | None = field(default_factory=dict)
    """By path, its files that do not count; None: nothing counts yet."""


@dataclass(frozen=True, slots=True)
class MetricFact:
    value: float
    step: int


@dataclass(frozen=True, slots=True)
class ApprovalFact:
    approved: bool | None
    by: str = ""
    reason: str = ""


FactValue: TypeAlias = (
    FileStat
    | Matches
    | FileText
    | LogFound
    | CommandResult
    | JobFact
    | MetricFact
    | ApprovalFact
    | str
    | float
    | None
)
"""`str`: metadata; `float` (lived): FiredKey; None: there is none."""


@dataclass(frozen=True, slots=True)
class Silence:
    place: str
    """A mount point, or a command."""
    since: float


@dataclass(frozen=True, slots=True)
class Fact:
    """A value, and when somebody looked; `error` says why it is not known."""

    value: FactValue
    observed_at: float
    """When the look began: monotonic by its source, lived as conditions read it."""
    error: str = ""
    silence: Silence | None = None
    """The look has not come back; `error` is set too."""


class Facts(Protocol):
    """Where evaluation reads facts; None means nobody has looked yet."""

    def get(self, key: FactKey) -> Fact | None: ...
