"""Where and when the jobs of a made-up cluster run: its nodes and its time."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from autoexp_tui.engine.ports import Clock
from tests.support.fake_slurm_jobs import Job


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
        """Now, for people."""
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


class Nodes:
    """Equal nodes, `n1` and on, some of which may be lost."""

    def __init__(self, number: int, jobs_each: int) -> None:
        self.down: set[str] = set()
        self._names = tuple(f"n{n + 1}" for n in range(number))
        self._jobs_each = jobs_each

    def places(self, job: Job, others: Sequence[Job]) -> tuple[str, ...] | None:
        """As many nodes as the job wants; None: there is no room for it."""
        crowds = self._crowds(others)
        free = [name for name in self._names if self._has_room(job, name, crowds)]
        return tuple(free[: job.order.nodes]) if len(free) >= job.order.nodes else None

    def _crowds(self, jobs: Sequence[Job]) -> Mapping[str, int]:
        """Node -> jobs on it; one that is alone there counts as many as fit."""
        crowds: Counter[str] = Counter()
        for job in jobs:
            if job.nodes and job.live:
                weight = self._jobs_each if job.order.exclusive else 1
                crowds.update(dict.fromkeys(job.nodes, weight))
        return crowds

    def _has_room(self, job: Job, node: str, crowds: Mapping[str, int]) -> bool:
        crowd = crowds.get(node, 0)
        fits = not crowd if job.order.exclusive else crowd < self._jobs_each
        return fits and node not in self.down
