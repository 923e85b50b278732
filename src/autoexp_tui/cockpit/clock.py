"""Time, as the screens take it: an argument, so that tests own it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Snapshot


class Clock(Protocol):
    """What `engine.ports.Clock` offers too; screens do not import that."""

    def utc(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


class WallClock:
    """The machine's own."""

    def utc(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class PlayedClock:
    """The time that a replay shows; how fast the screens go is the machine's."""

    def __init__(self, machine: Clock, shown: Callable[[], Snapshot]) -> None:
        self._machine = machine
        self._shown = shown

    def utc(self) -> float:
        """The replay's moment; the machine's until there is one."""
        playback = self._shown().playback
        ahead = self._shown().wall_ahead
        return self._machine.utc() if playback is None else playback.at + ahead

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._machine.monotonic()
