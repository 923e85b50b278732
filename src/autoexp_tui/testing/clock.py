"""A clock that moves only when told."""

from __future__ import annotations


class ManualClock:
    """`ports.Clock` for tests. UTC may jump either way; monotonic time may not."""

    def __init__(self, utc: float = 1_700_000_000.0, monotonic: float = 1000.0) -> None:
        self._utc = utc
        self._monotonic = monotonic

    def utc(self) -> float:
        return self._utc

    def monotonic(self) -> float:
        return self._monotonic

    def boottime(self) -> float:
        """The same: this machine never sleeps."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks; raises ValueError."""
        if seconds < 0:
            raise ValueError("time does not go back; see set_utc")
        self._utc += seconds
        self._monotonic += seconds

    def set_utc(self, utc: float) -> None:
        """Set the wall clock, as an administrator might; no time passes."""
        self._utc = utc
