"""The machine's own clocks; the only place that reads them for the engine."""

from __future__ import annotations

import time


class SystemClock:
    """`ports.Clock` over the operating system."""

    def utc(self) -> float:
        """Seconds since the epoch; an administrator may set it back."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        return time.monotonic()
