"""Wakes the engine early when records or logs change; polling stays the truth.

inotify is blind to other nodes and may be missing or full: then nothing is lost but a
second for a record, a quarter of a minute for a log that was quiet.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

_LOG = logging.getLogger(__name__)
_DEBOUNCE_MS = 100
_LOG_DEBOUNCE_MS = 400
"""Logs change all the time."""
_COME_SECONDS = 5.0
"""Between two looks whether a directory of logs has come into being."""
_MOST_PLACES = 16
"""Directories that logs are watched below."""
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


class LogNudger:
    """Calls `nudge` with the paths of files that changed below any of `directories`.

    A directory may come later. Those beyond the first few are not watched.
    """

    def __init__(
        self, directories: Iterable[str], nudge: Callable[[Iterable[str]], None]
    ) -> None:
        self._nudge = nudge
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run, args=(place,), name="log-nudge", daemon=True
            )
            for place in roots(directories)[:_MOST_PLACES]
        ]

    def start(self) -> None:
        """Watch from now on, on threads of its own."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()

    def _run(self, place: str) -> None:
        while not os.path.isdir(place):
            if self._stop.wait(_COME_SECONDS):
                return
        try:
            self._watch(place)
        except OSError as problem:
            _LOG.info("no early wake-ups by logs below %s: %s", place, problem)

    def _watch(self, place: str) -> None:
        from watchfiles import watch

        for changes in watch(
            place,
            watch_filter=None,
            stop_event=self._stop,
            debounce=_LOG_DEBOUNCE_MS,
            step=100,
            rust_timeout=1000,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            self._nudge({path for _, path in changes})


def roots(directories: Iterable[str]) -> list[str]:
    """The directories that no other one of them lies above, in order."""
    found: list[str] = []
    for directory in sorted(set(directories)):
        if not found or not f"{directory}/".startswith(f"{found[-1]}/"):
            found.append(directory)
    return found


def _has_record(paths: Iterable[str]) -> bool:
    """Whether a begin, exit or duplicate record is among the changed files."""
    names = (path.rpartition("/")[2] for path in paths)
    return any(name.startswith(_RECORDS) and name.endswith(".json") for name in names)
