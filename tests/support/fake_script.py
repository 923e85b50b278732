"""What a fake cluster is told to do: scripts of runs, as data; and its agenda."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final, Literal, TypeAlias

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.states import Cause

FOREVER: Final = 1e7
"""Seconds of what never ends by itself."""
SOUND: Final = "sound"
"""The fate of what ends well by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Bytes that a run appends to a file, `at` seconds after it began."""

    at: float
    data: bytes
    path: str = ""
    """Empty: the run's log."""


Ends: TypeAlias = Literal["exit", "requeue", "vanish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScript:
    """What one run does. Times in seconds."""

    begin_delay: float = 0.0
    """In the queue, before it may take a slot."""
    seconds: float = 1.0
    exit_code: int | None = 0
    signal: int | None = None
    writes: tuple[Write, ...] = ()
    ends: Ends = "exit"
    """`requeue`: the next run script follows; `vanish`: no exit record, ever."""
    cause: Cause | None = None
    """What the executor says ended it."""
    record_lag: float = 0.0
    """How much later than its end the exit record appears."""
    ignores_term: bool = False
    node: str = "fakehost"


Script: TypeAlias = Callable[[Task], Sequence[RunScript]]
"""The runs of an attempt, in order."""


def by_job(
    attempts: Mapping[str, Sequence[Sequence[RunScript]]],
    default: Sequence[RunScript] = (RunScript(),),
) -> Script:
    """Scripts by job name and attempt; a job's last one serves for all further."""

    def script(task: Task) -> Sequence[RunScript]:
        known = attempts.get(task.job)
        return known[min(task.attempt, len(known)) - 1] if known else default

    return script


class Fault(StrEnum):
    """What may go wrong with a submission."""

    ANSWER_LOST = "answer lost"  # taken, but the answer is Uncertain
    REQUEST_LOST = "request lost"  # Uncertain, and never taken


class Timeline:
    """What is to happen, in order, as the clock is let on."""

    def __init__(self, clock: Clock) -> None:
        self.now = clock.monotonic()
        """The time of what happens just now."""
        self._clock = clock
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._tickets = count()

    def at(self, delay: float, action: Callable[[], object]) -> None:
        """Have something happen `delay` seconds from now."""
        heapq.heappush(self._agenda, (self.now + delay, next(self._tickets), action))

    def utc(self) -> float:
        return self._clock.utc() - (self._clock.monotonic() - self.now)

    def settle(self) -> None:
        """Let everything happen that is due by the clock's time."""
        until = self._clock.monotonic()
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = until


AGENT: Final = "agent:"
"""Before the name of a call's job, where it writes that it begins, and its fate."""


def script_call(
    task: Task, fate: str, seconds: float, cause: Cause | None = None
) -> RunScript:
    """What an attempt at a call of an agent does; `cause`: of the end of one that is
    lost."""
    is_first, path = task.attempt == 1, f"{AGENT}{task.job}"
    begins = Write(at=0.0, data=b"begins", path=path)
    ends = Write(at=0.9 * seconds, data=fate.encode(), path=path)
    match fate:
        case "never":
            return RunScript(seconds=FOREVER, writes=(begins,))
        case "lost" | "lost_always" if is_first or fate == "lost_always":
            return RunScript(seconds=seconds, writes=(begins,), cause=cause, signal=9)
        case "twice" if is_first:  # it has done its work, and nobody says so
            return RunScript(seconds=seconds, writes=(begins, ends), ends="vanish")
    return RunScript(seconds=seconds, writes=(begins, ends))
