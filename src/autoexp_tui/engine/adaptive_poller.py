"""When each thing outside is looked at again: often while it changes, else ever more
seldom. What is due is found on a heap. Times are monotonic seconds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K")

BACKOFF: Final = 1.5
"""How much longer the wait is after a look that showed nothing new."""
UNDER_WAY: Final = math.inf


@dataclass(slots=True)
class Entry:
    """One key's schedule."""

    wait: float
    """Seconds between the last look and the next."""
    due: float = UNDER_WAY
    looked_at: float = -math.inf
    outcome: object = None


class AdaptivePoller(Generic[K]):
    """Keys and when they are due. Each is under way from `take_due` to `settle`."""

    def __init__(self) -> None:
        self.entries: dict[K, Entry] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._pushes = 0

    def want(self, key: K, now: float, shortest: float) -> None:
        """Somebody wants to know: at once, or `shortest` after the last look."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(shortest)
            self._set_due(key, now)
        entry.wait = shortest
        if entry.due < UNDER_WAY:
            soonest = max(now, entry.looked_at + shortest)
            self._set_due(key, min(soonest, entry.due))

    def hurry(self, now: float, key: K) -> None:
        """It is due at once, unless a look is under way."""
        entry = self.entries.get(key)
        if entry is not None and entry.due < UNDER_WAY:
            self._set_due(key, min(now, entry.due))

    def take_due(
        self,
        now: float,
        is_wanted: Callable[[K], bool] = lambda _: True,
        *,
        slack: float = 0.0,
        most: float = math.inf,
    ) -> Iterator[K]:
        """At `most` so many keys to look at now, longest due first, with what is due
        within `slack` of the first; unwanted ones are forgotten."""
        first = self.next_at()
        until = now if first is None or first > now else now + slack
        while most > 0 and first is not None and first <= until:
            key = heapq.heappop(self._heap)[2]
            if is_wanted(key):
                self.entries[key].due = UNDER_WAY
                most -= 1
                yield key
            else:
                del self.entries[key]
            first = self.next_at()

    def is_news(self, key: K, outcome: object) -> bool:
        """Whether a look shows something else than the one before it."""
        entry = self.entries.get(key)
        if entry is None:
            return False
        old, entry.outcome = entry.outcome, outcome
        return entry.looked_at == -math.inf or old != outcome

    def settle(
        self,
        key: K,
        now: float,
        *,
        changed: bool,
        shortest: float,
        longest: float,
        factor: float = BACKOFF,
    ) -> None:
        """A look is over: the next one comes `shortest` to `longest` seconds later."""
        entry = self.entries.get(key)
        if entry is not None:
            slower = max(shortest, min(entry.wait * factor, longest))
            entry.wait = shortest if changed else slower
            entry.looked_at = now
            self._set_due(key, now + entry.wait)

    def next_at(self) -> float | None:
        """When the next key is due; None: none is, until an answer comes."""
        while self._heap:
            due, _, key = self._heap[0]
            entry = self.entries.get(key)
            if entry is not None and entry.due == due:
                return due
            heapq.heappop(self._heap)
        return None

    def _set_due(self, key: K, due: float) -> None:
        entry = self.entries[key]
        if due != entry.due:
            entry.due = due
            self._pushes += 1
            heapq.heappush(self._heap, (due, self._pushes, key))
