"""What came back from the outside: the answers to what the engine asked for."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TypeAlias

from autoexp_tui.engine.executor_port import PollAnswer
from autoexp_tui.engine.ports import FoundFile, LogChunk, LogCursor
from autoexp_tui.model.commands import Order
from autoexp_tui.model.facts import Fact, OutsideKey, Silence


@dataclass(frozen=True, slots=True)
class Problem:
    """Why what an effect was to find or to make is not there."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectAnswered:
    effect_id: str
    answer: object


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsSeen:
    facts: tuple[tuple[OutsideKey, Fact], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceHeard:
    """A file system answered, or has been silent for a while."""

    place: str
    silence: Silence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    at: LogCursor
    chunk: LogChunk | None
    tail: str = ""
    """With `at.final`: the last lines, for evidence."""
    problem: str = ""
    found: tuple[FoundFile, ...] | None = None
    """The files of metrics that are there, where those were looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsRead:
    reads: tuple[LogRead, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersTaken:
    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Whether the lease is still ours."""

    ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFailed:
    """An outside call raised something it should not: a fault of ours."""

    what: str
    problem: str
    trace: str
    effect_id: str = ""
    """The effect that was being sent, when it was one."""


Observation: TypeAlias = (
    EffectAnswered
    | PollAnswer
    | FactsSeen
    | PlaceHeard
    | LogsRead
    | OrdersTaken
    | Heartbeat
    | CallFailed
)


def call_failed(what: str, problem: BaseException, effect_id: str = "") -> Observation:
    """The observation of an outside call that raised what it should not."""
    return CallFailed(
        what=what,
        effect_id=effect_id,
        problem=f"{type(problem).__name__}: {problem}",
        trace="".join(traceback.format_exception(problem)),
    )
