"""Where the rest of a log lies once another file stands in its place.

Renamed logs are known by their inode, copies (copytruncate) by their name and by the
bytes before the place where the reading stood. Compressed ones are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple, TypeAlias

_MOST_ENTRIES = 1000
"""Of a directory that are looked at."""


Stamp: TypeAlias = tuple[int, int, int, int]
"""(device, inode, size, mtime in ns)."""


class Ended(NamedTuple):
    """The state of a file at which nothing was left to read."""

    stamp: Stamp
    since: float
    """When it was first seen so, monotonic seconds."""
    is_settled: bool
    """Whether it was looked into so long after that a later write shows in it."""


class Place(NamedTuple):
    """Where a reading stands, and how to tell that the file is still the same."""

    offset: int
    identity: tuple[int, int]
    """(device, inode)."""
    before: bytes
    """What stands before `offset`."""
    head: bytes
    """How the file begins."""
    ended: Ended | None = None
    """None: something is left to read."""

    def is_settled_at(self, stamp: Stamp) -> bool:
        """Whether a file in this state need not be looked into again."""
        ended = self.ended
        return ended is not None and ended.is_settled and ended.stamp == stamp


def identity_of(found: os.stat_result) -> tuple[int, int]:
    """What two names of one file share."""
    return (found.st_dev, found.st_ino)


@contextmanager
def find_rest(path: str, place: Place) -> Iterator[tuple[int | None, int]]:
    """The file that holds more of what was read at `path`, open, and its size."""
    handle, size = None, 0
    for candidate in _candidates(path, place):
        handle, size = _open_rest(candidate, place)
        if handle is not None:
            break
    try:
        yield handle, size
    finally:
        if handle is not None:
            os.close(handle)


def _candidates(path: str, place: Place) -> list[str]:
    """Files beside the log, or beside what it links to: the same file before copies."""
    name = os.path.basename(path)
    same: list[str] = []
    copies: list[str] = []
    places = {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
    for directory in sorted(places):
        for entry in _entries(directory):
            if entry.inode() == place.identity[1]:
                same.append(entry.path)
            elif entry.name.startswith(name) and entry.name != name:
                copies.append(entry.path)
    return same + sorted(copies)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory or ".") as entries:
        return list(islice(entries, _MOST_ENTRIES))
    return []


def _open_rest(path: str, place: Place) -> tuple[int | None, int]:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags)
    except OSError:
        return None, 0  # gone again, or not for us
    size = os.fstat(handle).st_size
    if size > place.offset and _holds(handle, place):
        return handle, size
    os.close(handle)
    return None, 0


def _holds(handle: int, place: Place) -> bool:
    """Whether a file begins as the log did up to the place; never for nothing known."""
    back = len(place.before)
    with suppress(OSError):
        return (
            place.head != b""
            and os.pread(handle, len(place.head), 0) == place.head
            and os.pread(handle, back, place.offset - back) == place.before
        )
    return False
