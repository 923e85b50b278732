"""Wakes the engine early when records change; polling stays the truth.

inotify is blind to other nodes and may be missing or full: then nothing is lost but a
second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

_LOG = logging.getLogger(__name__)
_DEBOUNCE_MS = 100
_RECORDS = ("begin.", "exit.", "duplicate.")


class Nudger:
    """Calls `nudge` soon after a record below `directory` was written."""

    def __init__(self, directory: Path, nudge: Callable[[], None]) -> None:
        self._directory = directory
        self._nudge = nudge
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nudge", daemon=True)

    def start(self) -> None:
        """Watch from now on, on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._watch()
        except OSError as problem:
            _LOG.info("no early wake-ups below %s: %s", self._directory, problem)

    def _watch(self) -> None:
        from watchfiles import watch

        for changes in watch(
            self._directory,
            stop_event=self._stop,
            debounce=_DEBOUNCE_MS,
            step=20,
            rust_timeout=1000,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if _has_record(path for _, path in changes):
                self._nudge()


def _has_record(paths: Iterable[str]) -> bool:
    """Whether a begin, exit or duplicate record is among the changed files."""
    names = (path.rpartition("/")[2] for path in paths)
    return any(name.startswith(_RECORDS) and name.endswith(".json") for name in names)
