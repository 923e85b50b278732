"""How often each thing is looked at: often while it changes, seldom when it rests.

Cost follows change. A key that changed, or that somebody wants to know anew, is hot
and is looked at again after the shortest time; each look that shows nothing new makes
the next one later.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K")

UNDER_WAY: Final = math.inf
_LONG_SECONDS: Final = 2.0
_GOLDEN: Final = 0.618034
"""Multiples of it, whole parts left out, lie evenly between 0 and 1."""


@dataclass(slots=True)
class _Beat:
    """One key's rhythm; times are monotonic seconds."""

    number: int
    seconds: float
    """Until the next look."""
    due: float = UNDER_WAY
    looked_at: float | None = None
    seen: object = None


class Rhythm(Generic[K]):
    """Keys and when they are due."""

    def __init__(self) -> None:
        self._beats: dict[K, _Beat] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = 0
        self._pushes = 0

    def __len__(self) -> int:
        return len(self._beats)

    def want(self, keys: Iterable[K], now: float, shortest: float) -> None:
        """Somebody wants to know: at once, or `shortest` after the last look."""
        for key in keys:
            beat = self._beats.get(key)
            if beat is None:
                self._numbers += 1
                beat = self._beats[key] = _Beat(self._numbers, shortest)
                self._set(key, beat, now)
                continue
            beat.seconds = shortest
            last = now if beat.looked_at is None else beat.looked_at + shortest
            if beat.due is not UNDER_WAY and beat.due > max(now, last):
                self._set(key, beat, max(now, last))

    def hurry(self, now: float) -> None:
        """Something may have changed anywhere: everything is due."""
        for key, beat in self._beats.items():
            if beat.due is not UNDER_WAY and beat.due > now:
                self._set(key, beat, now)

    def take_due(self, now: float, is_wanted: Callable[[K], bool]) -> Iterator[K]:
        """Keys to look at now, under way from here on; unwanted ones are forgotten."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            beat = self._beats.get(key)
            if beat is None or beat.due != due:
                continue
            if is_wanted(key):
                beat.due = UNDER_WAY
                yield key
            else:
                del self._beats[key]

    def rest(
        self, key: K, seen: object, now: float, slower: Callable[[float, bool], float]
    ) -> None:
        """A look is over: `slower(seconds, changed)` says how long to leave it alone.

        Long rests are spread a little, so that what began together does not stay so.
        """
        beat = self._beats.get(key)
        if beat is None:
            return
        changed = beat.looked_at is None or beat.seen != seen
        beat.seen, beat.looked_at = seen, now
        beat.seconds = slower(beat.seconds, changed)
        self._set(key, beat, now + _spread(beat))

    def again(self, keys: Iterable[K], now: float) -> None:
        """Nobody looked after all: they are due again."""
        for key in keys:
            beat = self._beats.get(key)
            if beat is not None:
                self._set(key, beat, now)

    def next_at(self) -> float | None:
        """When the next key is due; None: none is, until an answer comes."""
        while self._heap:
            due, _, key = self._heap[0]
            beat = self._beats.get(key)
            if beat is not None and beat.due == due:
                return due
            heapq.heappop(self._heap)
        return None

    def _set(self, key: K, beat: _Beat, due: float) -> None:
        beat.due = due
        self._pushes += 1
        heapq.heappush(self._heap, (due, self._pushes, key))


def _spread(beat: _Beat) -> float:
    if beat.seconds < _LONG_SECONDS:
        return beat.seconds
    return beat.seconds * (1.0 - 0.25 * (beat.number * _GOLDEN % 1.0))
