"""Wakes the engine early when records or logs change; polling stays the truth. inotify
is blind to other nodes and may be missing or full: then nothing is lost but a second
for a record, a quarter of a minute for a log that was quiet."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final

_LOG = logging.getLogger(__name__)
RECORD_DEBOUNCE_MS: Final = 100
LOG_DEBOUNCE_MS: Final = 400
"""Logs change all the time."""
_COME_SECONDS = 5.0
"""Between two looks whether a directory has come into being."""
_MOST_DIRECTORIES = 16
_RECORDS = ("begin.", "exit.", "duplicate.")


class FileWatcher:
    """Calls `on_change` with paths of files that changed below any of `directories`. A
    directory may come later. Those beyond the first few are not watched."""

    def __init__(
        self,
        directories: Iterable[str],
        on_change: Callable[[Collection[str]], object],
        *,
        debounce_ms: int,
    ) -> None:
        self._on_change = on_change
        self._debounce_ms = debounce_ms
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(path,), name="watch", daemon=True)
            for path in find_outermost(directories)[:_MOST_DIRECTORIES]
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self, directory: str) -> None:
        while not os.path.isdir(directory):
            if self._stop.wait(_COME_SECONDS):
                return
        from watchfiles import watch

        try:
            for changes in watch(
                directory,
                watch_filter=None,
                stop_event=self._stop,
                debounce=self._debounce_ms,
                step=self._debounce_ms // 4,
                rust_timeout=1000,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self._on_change({path for _, path in changes})
        except OSError as problem:
            _LOG.info("no early wake-ups below %s: %s", directory, problem)


def find_outermost(directories: Iterable[str]) -> list[str]:
    """The directories that no other one of them lies above, in order."""
    found: list[str] = []
    for directory in sorted(set(directories)):
        if not found or not f"{directory}/".startswith(f"{found[-1]}/"):
            found.append(directory)
    return found


def has_record(paths: Iterable[str]) -> bool:
    """Whether a begin, exit or duplicate record is among the changed files."""
    names = (path.rpartition("/")[2] for path in paths)
    return any(name.startswith(_RECORDS) and name.endswith(".json") for name in names)
