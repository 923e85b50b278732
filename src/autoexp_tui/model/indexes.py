"""Who must be looked at again: a reverse index from facts to jobs, a timer heap.
Volatile."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from autoexp_tui.model.facts import (
    CommandKey,
    FactKey,
    GlobKey,
    LogKey,
    MetricKey,
    OutsideKey,
    StatKey,
    TextKey,
)

K = TypeVar("K")
C = TypeVar("C", bound=Collection[FactKey])
_OUTSIDE = (StatKey, GlobKey, TextKey, LogKey, CommandKey)


class Watch:
    """Which jobs' conditions read which facts."""

    def __init__(self) -> None:
        self._jobs: dict[FactKey, set[str]] = {}
        self._keys: dict[str, frozenset[FactKey]] = {}
        self._outside: dict[str, tuple[OutsideKey, ...]] = {}
        """Of a job's keys those looked up outside, in an order that every process
        has."""
        self._wanted: dict[OutsideKey, None] = {}
        self._dropped: dict[OutsideKey, None] = {}
        self._measured: Counter[str] = Counter()

    def set(self, job: str, keys: frozenset[FactKey]) -> None:
        """`job`, judged just now, reads exactly `keys`; those outside are wanted."""
        old = self._keys.get(job, frozenset())
        if keys != old:
            for key in _in_order(old - keys):
                self._drop(key, job)
            for key in keys - old:
                if isinstance(key, MetricKey) and key not in self._jobs:
                    self._measured[key.job] += 1
                self._jobs.setdefault(key, set()).add(job)
            outside = tuple(_in_order(key for key in keys if isinstance(key, _OUTSIDE)))
            _keep(self._keys, job, keys)
            _keep(self._outside, job, outside)
        self._wanted.update(dict.fromkeys(self._outside.get(job, ())))

    def _drop(self, key: FactKey, job: str) -> None:
        readers = self._jobs[key]
        readers.discard(job)
        if not readers:
            del self._jobs[key]
            if isinstance(key, MetricKey):
                self._measured[key.job] -= 1
                if not self._measured[key.job]:
                    del self._measured[key.job]
            if isinstance(key, _OUTSIDE):
                self._dropped[key] = None

    def jobs(self, key: FactKey) -> Iterable[str]:
        return self._jobs.get(key, ())

    def is_measured(self, job: str) -> bool:
        return self._measured[job] > 0

    def is_read(self, key: FactKey) -> bool:
        return key in self._jobs

    def take_wanted(self) -> Iterable[OutsideKey]:
        wanted, self._wanted = self._wanted, {}
        return wanted

    def take_dropped(self) -> Iterable[OutsideKey]:
        """Outside keys that lost their last reader since the last call."""
        dropped, self._dropped = self._dropped, {}
        return [key for key in dropped if key not in self._jobs]


def _in_order(keys: Iterable[K]) -> Sequence[K]:
    found = list(keys)
    return sorted(found, key=repr) if len(found) > 1 else found


def _keep(kept: dict[str, C], job: str, keys: C) -> None:
    """Nothing is kept of a job that reads nothing."""
    if keys:
        kept[job] = keys
    else:
        kept.pop(job, None)


class Timers:
    """When to look at a job again although nothing happened."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}

    def set(self, job: str, at: float | None) -> None:
        """Look at `job` at `at` (lived); None forgets it."""
        if at is None:
            self._due.pop(job, None)
        elif self._due.get(job) != at:
            self._due[job] = at
            heapq.heappush(self._heap, (at, job))

    def pop_due(self, lived: float) -> Iterator[str]:
        while self._heap and self._heap[0][0] <= lived:
            at, job = heapq.heappop(self._heap)
            if self._due.get(job) == at:
                del self._due[job]
                yield job

    def next_at(self) -> float | None:
        """The next moment at which somebody is due."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
