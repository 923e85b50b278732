"""For how long something has held, counting only the time in which somebody looked."""

from __future__ import annotations

from collections.abc import Hashable


class HeldTimes:
    """By key. Two looks far apart, with the machine asleep between, say nothing about
    the time between them."""

    def __init__(self, most_between: float) -> None:
        """`most_between`: seconds that a stretch between two looks counts at most."""
        self._most_between = most_between
        self._held: dict[Hashable, tuple[float, float]] = {}
        """Seconds, and the newest look."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held

    def note(self, key: Hashable, *, holds: bool, now: float) -> float:
        """Seconds for which it has held at this look (monotonic); 0 when it does
        not."""
        if not holds:
            self._held.pop(key, None)
            return 0.0
        seconds, at = self._held.get(key, (0.0, now))
        seconds += min(now - at, self._most_between)
        self._held[key] = seconds, now
        return seconds

    def seconds(self, key: Hashable) -> float:
        return self._held.get(key, (0.0, 0.0))[0]
