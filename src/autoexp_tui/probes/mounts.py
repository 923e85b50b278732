"""On which file system a path lies, told without touching the path.

A look at a file system that hangs does not come back, so the kernel's table of mounts
is read instead. What a symbolic link leads to is not known this way: whoever looks
must also bear a look that hangs on a file system that it was not expected on.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Clock

TABLE: Final = Path("/proc/self/mountinfo")
FRESH_SECONDS: Final = 30.0
"""How long the table counts before it is read again."""
_MOST_KNOWN: Final = 50_000
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_MAGIC: Final = re.compile(r"[*?\[]")


class Mounts:
    """The mount point of any path, or of what a pattern surely begins with."""

    def __init__(self, clock: Clock, table: Path = TABLE) -> None:
        self._clock = clock
        self._table = table
        self._points: frozenset[str] = frozenset()
        self._known: dict[str, str] = {}
        self._read_at = float("-inf")
        self._cwd = os.getcwd()

    def find(self, path: str) -> str:
        """The mount point; `/` for everything where there is no table."""
        self._refresh()
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._find(path)
        return found

    def _refresh(self) -> None:
        now = self._clock.monotonic()
        if now - self._read_at < FRESH_SECONDS and len(self._known) < _MOST_KNOWN:
            return
        self._read_at = now
        points = mount_points(self._table)
        if points != self._points or len(self._known) >= _MOST_KNOWN:
            self._points = points
            self._known = {}

    def _find(self, path: str) -> str:
        place = posixpath.normpath(posixpath.join(self._cwd, _drop_pattern(path)))
        while place not in self._points:
            above = posixpath.dirname(place)
            if above == place:
                return "/"
            place = above
        return place


def mount_points(table: Path = TABLE) -> frozenset[str]:
    """Every mount point that the kernel tells; empty where it tells none."""
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    columns = (line.split(" ") for line in lines)
    return frozenset(_decode_point(parts[4]) for parts in columns if len(parts) > 4)


def _decode_point(point: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), point)


def _drop_pattern(path: str) -> str:
    """The directories before the first one that is a pattern."""
    match = _MAGIC.search(path)
    return path if match is None else posixpath.dirname(path[: match.start()])
