"""The machine's own clocks; the only place that reads them for the engine."""

from __future__ import annotations

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """`ports.Clock` over the operating system."""

    def utc(self) -> float:
        """Seconds since the epoch; an administrator may set it back."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        return time.monotonic()

    def boottime(self) -> float:
        """The same, going on while the machine sleeps (Linux)."""
        return time.clock_gettime(_BOOTTIME)
