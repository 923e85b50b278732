"""What a fake cluster is told to do: scripts of runs and faults of calls, as data; and
its agenda."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Literal, TypeAlias

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.states import Cause


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
    """What may go wrong with one call."""

    ANSWER_LOST = "answer lost"  # taken, but the answer is Uncertain
    REQUEST_LOST = "request lost"  # Uncertain, and never taken
    ARRIVES_LATE = "arrives late"  # Uncertain, and taken only later
    TAKEN_TWICE = "taken twice"  # accepted, and a second copy lies in the queue
    BUSY = "busy"
    REJECTED = "rejected"
    POLL_FAILED = "poll failed"
    POLL_EMPTY = "poll empty"  # an answer without a single report
    POLL_STALE = "poll stale"  # the answer before this one, once more
    POLL_PARTIAL = "poll partial"  # every second report is missing
    CANCEL_LOST = "cancel lost"
    ADOPT_FAILED = "adopt failed"


Call: TypeAlias = Literal["submit", "poll", "cancel", "adopt"]
Faults: TypeAlias = Callable[[Call], Fault | None]
"""Asked at every call: what goes wrong with it."""
_OTHERS = ("poll", "cancel", "adopt")
FAULTS: Mapping[Call, tuple[Fault, ...]] = {
    "submit": tuple(fault for fault in Fault if not fault.startswith(_OTHERS)),
    "poll": tuple(fault for fault in Fault if fault.startswith("poll")),
    "cancel": (Fault.CANCEL_LOST,),
    "adopt": (Fault.ADOPT_FAILED,),
}


class PlannedFaults:
    """The next faults of each call, first come first served; then none."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._waiting = list(faults)

    def add(self, *faults: Fault) -> None:
        """Have these happen at the next calls they belong to."""
        self._waiting += faults

    def __call__(self, call: Call) -> Fault | None:
        for fault in self._waiting:
            if fault in FAULTS[call]:
                self._waiting.remove(fault)
                return fault
        return None


class SeededFaults:
    """Faults drawn from a seed, each at its own rate (0 to 1) a call."""

    def __init__(self, seed: int, rates: Mapping[Fault, float]) -> None:
        self._random = random.Random(seed)
        self._rates = rates
        self.enough = False
        """Set to end all faults, so that a campaign can come to its end."""

    def __call__(self, call: Call) -> Fault | None:
        rates = ((fault, self._rates.get(fault, 0.0)) for fault in FAULTS[call])
        drawn = [fault for fault, rate in rates if self._random.random() < rate]
        return drawn[0] if drawn and not self.enough else None


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

    def next_event_at(self) -> float | None:
        """When something happens next, monotonic seconds; None: nothing will."""
        return self._agenda[0][0] if self._agenda else None
