"""On which file system a path lies, by the kernel's table, without touching the path.

A look at a file system that hangs does not come back. What a symbolic link leads to is
not known this way.
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
        now = self._clock.monotonic()
        if now - self._read_at >= FRESH_SECONDS:
            self._read_at, points = now, mount_points(self._table)
            if points != self._points or len(self._known) >= _MOST_KNOWN:
                self._points, self._known = points, {}
        if path in self._known:
            return self._known[path]
        # The directories before the first one that is a pattern.
        match = _MAGIC.search(path)
        plain = path if match is None else posixpath.dirname(path[: match.start()])
        place = posixpath.normpath(posixpath.join(self._cwd, plain))
        while place not in self._points and place != posixpath.dirname(place):
            place = posixpath.dirname(place)
        self._known[path] = place if place in self._points else "/"
        return self._known[path]


def mount_points(table: Path = TABLE) -> frozenset[str]:
    """Every mount point that the kernel tells; empty where it tells none."""
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    columns = (line.split(" ") for line in lines)
    points = (parts[4] for parts in columns if len(parts) > 4)
    return frozenset(map(unescape, points))


def unescape(point: str) -> str:
    """A path of the kernel's tables, where blanks and the like are octal numbers."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)
