"""Order and rings among jobs that wait for one another.

Works on positions, so that it is the same for jobs without a name yet.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final


def topological(count: int, edges: Iterable[tuple[int, int]]) -> Sequence[int]:
    """The positions 0 .. `count` - 1, each after those it waits for, ties by position.

    `edges`: (before, after) pairs. Positions in a ring, or behind one, are left out.
    """
    after: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for before, follower in set(edges):
        after[before].append(follower)
        missing[follower] += 1
    ready = [at for at in range(count) if not missing[at]]
    order: list[int] = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for follower in after[at]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)
    return order


def rings(count: int, edges: Iterable[tuple[int, int]]) -> Sequence[list[int]]:
    """Rings among the edges, no two of which share a position; each in waiting order.

    A ring starts at its lowest position; every position waits for the one after it,
    the last for the first.
    """
    pairs = set(edges)
    left = set(range(count)) - set(topological(count, pairs))
    waits_for: dict[int, list[int]] = {}
    for before, follower in pairs:
        if before in left and follower in left:
            waits_for.setdefault(follower, []).append(before)
    found: list[list[int]] = []
    seen: set[int] = set()
    for start in sorted(waits_for):
        ring = _ring_from(start, waits_for, seen)
        if ring:
            lowest = ring.index(min(ring))
            found.append([*ring[lowest:], *ring[:lowest]])
    return sorted(found)


def _ring_from(
    start: int, waits_for: dict[int, list[int]], seen: set[int]
) -> Sequence[int]:
    """The first ring on the way from `start` through what was not seen before."""
    path: list[int] = []
    on_path: dict[int, int] = {}
    stack = [(start, iter(sorted(waits_for[start])))] if start not in seen else []
    while stack:
        at, others = stack[-1]
        if at not in on_path:
            on_path[at] = len(path)
            path.append(at)
            seen.add(at)
        for other in others:
            if other in on_path:
                return path[on_path[other] :]
            if other not in seen:
                stack.append((other, iter(sorted(waits_for.get(other, ())))))
                break
        else:
            stack.pop()
            path.pop()
            del on_path[at]
    return ()


_MOST_NAMED: Final = 12
"""Members of a ring of which each is named."""


def spelled_ring(names: Sequence[str]) -> str:
    """`a -> b -> a`; of a long ring the first and the last, and how many between."""
    shown = [*names, names[0]]
    if len(names) > _MOST_NAMED:
        half = _MOST_NAMED // 2
        rest = len(names) - 2 * half
        between = f"({rest:,} more)"
        shown = [*names[:half], between, *names[-half:], names[0]]
    return " -> ".join(shown)
