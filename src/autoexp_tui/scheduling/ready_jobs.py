"""Jobs of which everything passed: who goes next, and who has to be told why not.

A campaign may keep thousands of jobs ready behind a few slots; looking at them costs
only what came, went or is told something new since the last look.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Set
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ready:
    """A set of job names that gives its lowest indexes first."""

    _index: dict[str, int] = field(default_factory=dict)
    _heap: list[tuple[int, str]] = field(default_factory=list)
    """May hold jobs that have gone, and one twice; `first` sees to that."""
    _untold: set[str] = field(default_factory=set)
    _told: str = ""
    """What everybody else was told last."""

    def add(self, name: str, index: int) -> None:
        """`name` may start; `index` is its place in line."""
        if self._index.get(name) != index:
            self._index[name] = index
            self._untold.add(name)
            heapq.heappush(self._heap, (index, name))

    def discard(self, name: str) -> None:
        """`name` may not start any more, or has started."""
        if self._index.pop(name, None) is not None:
            self._untold.discard(name)

    def first(self, most: int | None, without: Set[str]) -> list[str]:
        """At most `most` of them (None: all), lowest index first, none of `without`."""
        chosen: list[str] = []
        seen: dict[tuple[int, str], None] = {}
        while self._heap and (most is None or len(chosen) < most):
            index, name = entry = heapq.heappop(self._heap)
            if self._index.get(name) != index or entry in seen:
                continue
            seen[entry] = None
            if name not in without:
                chosen.append(name)
        for entry in seen:
            heapq.heappush(self._heap, entry)
        return chosen

    def untold(self, code: str, without: Set[str]) -> list[str]:
        """Who was not told `code` yet, lowest index first; now they were.

        Those of `without` are neither named nor told.
        """
        if code != self._told:
            self._told = code
            self._untold = set(self._index)
        names = sorted(self._untold - without, key=self._index.__getitem__)
        self._untold &= without
        return names

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)
