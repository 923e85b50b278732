"""Wishes, in the imperative: what a person or a script asks of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.sender import Sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Let jobs run; the rest of the planned ones is held."""

    kind: Literal["submit"] = "submit"
    jobs: tuple[str, ...] = ()
    """Empty: all."""
    plan_id: str = ""
    """The plan whose jobs were shown: no other is submitted in its place. Empty: the
    sender names no plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End jobs that wait, queue or run."""

    kind: Literal["kill"] = "kill"
    jobs: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmit:
    """Bring back jobs that ended, and those that were skipped because of them."""

    kind: Literal["resubmit"] = "resubmit"
    jobs: tuple[str, ...]
    from_checkpoint: bool = True
    overrides: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    time_limit_seconds: float | None = None
    use_files: bool = False
    """Followers may use what lies there although the attempt begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Approve or refuse what an approval asked; bound to its digest."""

    kind: Literal["answer"] = "answer"
    job: str
    digest: str
    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Do not run jobs that have not started."""

    kind: Literal["skip"] = "skip"
    jobs: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waive:
    """Let one start condition of a waiting job count as passed."""

    kind: Literal["waive"] = "waive"
    job: str
    condition: int
    """Index into the job's start conditions."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Submit nothing more until `Resume`; what runs goes on."""

    kind: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Submit again."""

    kind: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """A warning was seen."""

    kind: Literal["acknowledge"] = "acknowledge"
    warnings: tuple[str, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    """Attempts, as (job, attempt), whose time limit is known to cut them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEngine:
    """End the engine at the next commit boundary, with or without its jobs."""

    kind: Literal["stop"] = "stop"
    cancel_jobs: bool = False
    hand_over: bool = False
    """A successor will take the lease: say so in the journal."""


LEAVING: Final = "front end"
"""Who orders a stop when an engine's own process ends."""

Command: TypeAlias = (
    Submit
    | Kill
    | Resubmit
    | Answer
    | Skip
    | Waive
    | Pause
    | Resume
    | Acknowledge
    | StopEngine
)


def is_personal(command: Command) -> bool:
    """Whether a person has to decide it, and no job may."""
    return isinstance(command, Answer | Waive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command on its way: who, and what they had seen."""

    command_id: str
    command: Command
    by: str = "person"
    """`cockpit`, `script`, `--approve` ..."""
    seen_seq: int = 0
    expected: Mapping[str, int] = field(default_factory=dict)
    """Job -> number of attempts that the sender saw; a stale one is refused."""
    sender: Sender | None = None
    """Which process sent it; only what a person has to decide names one."""
