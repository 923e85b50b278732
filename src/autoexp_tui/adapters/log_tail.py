"""Reads what was appended to a log since the last look.

Whole lines only, so that whoever scans them never sees half of one; a state of a
progress bar (up to its carriage return) is a line too. Opening the file at each look
also makes network file systems tell its real size. Meaning is not looked for here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autoexp_tui.engine.ports import LogChunk

MOST_BYTES = 1 << 20
"""Of one read: a commit must stay short."""
_MEMORY = 64
"""Bytes before the cursor that are compared, to notice a file written anew."""

_Key = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a reading stands, and how to tell that the file is still the same."""

    offset: int
    identity: tuple[int, int]
    before: bytes


class LogReader:
    """`ports.LogSource` over files. One call at a time for each log."""

    def __init__(self) -> None:
        self._places: dict[_Key, _Place] = {}

    def read(
        self,
        job: str,
        attempt: int,
        run: int,
        path: str,
        offset: int,
        limit: int,
        *,
        final: bool = False,
    ) -> LogChunk | None:
        """At most `limit` bytes (and 1 MiB) from `offset` up to the last whole line.

        A line longer than that comes in pieces. After a truncation or replacement the
        chunk starts at 0 with `reset`, and may be empty.

        Raises:
            OSError: it cannot be read, for another reason than that it is not there.
        """
        key = (job, attempt, run, path)
        with opened(path) as handle:
            if handle is None:
                return None
            found = os.fstat(handle)
            reset = self._is_another(key, handle, found, offset)
            start = 0 if reset else offset
            data = os.pread(handle, min(limit, MOST_BYTES), start)
        if not (final and start + len(data) >= found.st_size):
            cut = len(data) == min(limit, MOST_BYTES)
            data = data[: _whole(data) or (len(data) if cut else 0)]
        if not data and not reset:
            if final:
                self._places.pop(key, None)
            return None
        self._remember(key, found, start, data)
        return LogChunk(
            job=job,
            attempt=attempt,
            run=run,
            offset=start,
            data=data,
            size=found.st_size,
            reset=reset,
        )

    def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes as text; empty when there is no file.

        Raises:
            OSError: it cannot be read, for another reason than that it is not there.
        """
        with opened(path) as handle:
            if handle is None:
                return ""
            size = os.fstat(handle).st_size
            data = os.pread(handle, limit, max(0, size - limit))
        if size > limit:  # do not begin within a character
            data = data.lstrip(bytes(range(0x80, 0xC0)))
        return data.decode("utf-8", "replace")

    def _is_another(
        self, key: _Key, handle: int, found: os.stat_result, offset: int
    ) -> bool:
        """Whether what was read up to `offset` is no longer what the file holds."""
        if found.st_size < offset:
            return True
        place = self._places.get(key)
        if place is None or place.offset != offset:
            return False
        before = os.pread(handle, len(place.before), offset - len(place.before))
        return place.identity != _identity(found) or place.before != before

    def _remember(
        self, key: _Key, found: os.stat_result, start: int, data: bytes
    ) -> None:
        before = data[-_MEMORY:]
        self._places[key] = _Place(start + len(data), _identity(found), before)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return (found.st_dev, found.st_ino)


def _whole(data: bytes) -> int:
    """The bytes up to the end of the last whole line."""
    return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1


@contextmanager
def opened(path: str) -> Iterator[int | None]:
    """A regular file to read; None when there is none.

    Raises:
        OSError: it is there, or may be, and cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield handle
    finally:
        os.close(handle)
