"""From the engine's thread to the screen's: one message at a time, the newest wins.

The engine publishes up to ten snapshots a second; the screen shows two. Snapshots are
coalesced, never queued: what must not be lost is in the snapshot's own events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot


class Bridge:
    """Holds the newest snapshot until the screen takes it."""

    def __init__(self, handle: EngineHandle, post: Callable[[], None]) -> None:
        """Args:
        handle: of the engine.
        post: tells the screen, from any thread, that a snapshot waits.
        """
        self._handle = handle
        self._post = post
        self._lock = threading.Lock()
        self._newest: Snapshot | None = None
        self._told = False
        self._closed = False
        self.received = 0
        """Snapshots that came, taken or not."""

    def open(self) -> None:
        """Begin to listen."""
        self._handle.subscribe(self._on_snapshot)

    def close(self) -> None:
        """Tell nobody any more: the screen is going."""
        with self._lock:
            self._closed = True
            self._newest = None

    def take(self) -> Snapshot | None:
        """The newest snapshot that nobody took; None when there is none."""
        with self._lock:
            newest, self._newest = self._newest, None
            self._told = False
            return newest

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        with self._lock:
            self.received += 1
            if self._closed:
                return
            self._newest = snapshot
            if self._told:
                return
            self._told = True
        self._post()
