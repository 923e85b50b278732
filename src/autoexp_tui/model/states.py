"""States of jobs, why they ended, which steps are legal; reasons are codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias


class JobState(StrEnum):
    """The state of a job; an attempt has an `Outcome` instead."""

    PLANNED = "PLANNED"
    """In the plan; nobody asked for it to run yet."""
    HELD = "HELD"
    """Paused, or not among those that were chosen to run."""
    WAITING = "WAITING"
    """Asked for; a start condition, a slot or an approval is missing."""
    SUBMITTING = "SUBMITTING"
    """The intent is in the journal; the executor has not answered."""
    SUBMIT_UNKNOWN = "SUBMIT_UNKNOWN"
    """The executor may or may not have taken it."""
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    """It has begun, and the executor has stopped its processes for a while."""
    RETRYING = "RETRYING"
    """The last attempt failed and a reaction has ordered another."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    LOST = "LOST"
    """Gone without a trace for longer than the executor keeps traces."""


class Outcome(StrEnum):
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"


class Cause(StrEnum):
    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    NAN = "nan"
    STALL = "stall"
    KILL_CRITERION = "kill_criterion"
    CANCEL_CONDITION = "cancel_condition"
    START_TIMEOUT = "start_timeout"
    UPSTREAM = "upstream"
    USER = "user"
    REJECTED = "rejected"
    SUBMIT_ERROR = "submit_error"
    DUPLICATE = "duplicate"
    LOST = "lost"
    BUDGET = "budget"
    APPROVAL_REFUSED = "approval_refused"


_S = JobState

TERMINAL: Final = frozenset(
    {_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.SKIPPED, _S.LOST}
)

BEGUN: Final = frozenset({_S.RUNNING, _S.SUSPENDED})
"""A run has begun, and nobody has seen its end."""

ACTIVE: Final = frozenset({_S.SUBMITTING, _S.SUBMIT_UNKNOWN, _S.QUEUED, *BEGUN})
"""An attempt exists outside, or may exist."""

UNANSWERED: Final = frozenset({_S.SUBMITTING, _S.SUBMIT_UNKNOWN})
"""The executor has not said yet that it has the newest attempt."""

NOT_STARTED: Final = frozenset({_S.PLANNED, _S.HELD, _S.WAITING})

REVIVABLE: Final = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED, _S.LOST})

_STEPS: Final = """
PLANNED: HELD WAITING CANCELLED SKIPPED
HELD: WAITING CANCELLED SKIPPED
WAITING: HELD SUBMITTING COMPLETED FAILED CANCELLED SKIPPED
SUBMITTING: SUBMIT_UNKNOWN QUEUED RUNNING RETRYING WAITING HELD *
SUBMIT_UNKNOWN: SUBMITTING QUEUED RUNNING RETRYING *
QUEUED: SUBMITTING RUNNING RETRYING *
RUNNING: SUSPENDED QUEUED RETRYING *
SUSPENDED: RUNNING QUEUED RETRYING *
RETRYING: SUBMITTING HELD *
COMPLETED:
FAILED: WAITING
CANCELLED: WAITING
SKIPPED: WAITING
LOST: WAITING COMPLETED
""".replace("*", "COMPLETED FAILED CANCELLED LOST")

TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    _S(old): frozenset(map(_S, new.split()))
    for old, _, new in (line.partition(":") for line in _STEPS.split("\n") if line)
}


Extremes: TypeAlias = Mapping[str, tuple[float, int]]
"""Metric -> its lowest, or its highest, finite value, and the step of that."""

Topic: TypeAlias = Literal[
    "submit",
    "cancel",
    "state",
    "condition",
    "reaction",
    "warning",
    "approval",
    "person",
    "engine",
    "error",
    "",
]
"""What the Events screen filters by; empty: the event only notes numbers."""


class Result(StrEnum):
    PASS = "pass"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Why:
    """A reason as a code and its arguments; the sentence is made when shown."""

    code: str
    args: tuple[tuple[str, str | int | float], ...] = field(default=())

    def arg(self, name: str) -> str | int | float:
        return dict(self.args).get(name, "")

    def add_args(self, **args: str | float) -> Why:
        return Why(self.code, (*self.args, *args.items()))


def why(code: str, /, **args: str | float) -> Why:
    return Why(code, tuple(args.items()))


@dataclass(frozen=True, slots=True)
class Verdict:
    result: Result
    why: Why
