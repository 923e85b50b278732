"""Whether a pattern was found in a growing file, by its new bytes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoexp_tui.probes.stat_cache import Glance, OpenFile
from autoexp_tui.text.patterns import Pattern, readable_text

_CHUNK = 1 << 20
_MOST_OVERLAP = 1 << 16
"""Bytes read again, so that a match across two reads or two lines is not missed."""
_MOST_LINE = 500
"""Characters of a found line that are kept."""
LOOK_BYTES = 16 << 20
"""Read of one file at one look; the rest follows at the next."""
LOOK_WORK = 100_000_000
"""Bytes times instructions of the pattern that one look takes at most: about a second
of searching at worst, so that a look never seems to hang."""


@dataclass(slots=True)
class LogWatch:
    """The search for one pattern in one file; a found pattern stays found.

    A file that was replaced or cut short is another file: the search begins anew.
    """

    path: str
    pattern: Pattern
    tail_bytes: int
    """Of what was there before the first look, so much is read."""
    started: bool = False
    """Whether the search was on before the file came: then all of it is new."""
    skip: Mapping[int, int] = field(default_factory=dict)
    """Inode -> bytes at its beginning in which nothing is looked for."""
    exists: bool = False
    line: str | None = None
    """The line in which the pattern was found; None: not found."""
    _identity: tuple[int, int] | None = None
    _offset: int = 0
    """Where the next search starts."""
    _end: int = 0
    """Up to here everything was searched."""

    def look(self, at: Glance) -> None:
        """Search what is new; other searches of the same file share its reading.

        Raises:
            OSError: it cannot be read, for another reason than that it is not there.
        """
        file = at.open(self.path)
        self.exists = file is not None
        if file is None:
            self._start_over(None)
        else:
            self._look_into(file)
        self.started = True

    def _look_into(self, file: OpenFile) -> None:
        found = file.stat
        identity = (found.st_dev, found.st_ino)
        if identity != self._identity or found.st_size < self._end:
            self._start_over(identity)
            if not self.started:
                self._offset = self._first_offset(file, found.st_size)
            skipped = self.skip.get(found.st_ino, 0)
            if skipped <= found.st_size:  # else it was cut short: all of it is new
                self._offset = self._end = max(self._offset, skipped)
        if self.line is not None:
            self._end = found.st_size
        elif found.st_size != self._end:
            self._search(file)

    def _start_over(self, identity: tuple[int, int] | None) -> None:
        self._identity = identity
        self.line = None
        self._offset = self._end = 0

    def _first_offset(self, file: OpenFile, size: int) -> int:
        if size <= self.tail_bytes:
            return 0
        start = size - self.tail_bytes
        data = file.pread(_MOST_OVERLAP, start - 1)
        return start + data.find(b"\n")  # not within a line, if that line ends soon

    def _search(self, file: OpenFile) -> None:
        most = min(LOOK_BYTES, LOOK_WORK // self.pattern.size)
        chunk = min(_CHUNK, max(2 * _MOST_OVERLAP, most))
        stop = self._offset + most
        while self.line is None and self._offset < stop:
            data = file.pread(chunk, self._offset)
            self.line = self._found_in(data)
            self._end = self._offset + len(data)
            self._offset = self._end - _overlap(data)
            if len(data) < chunk:
                return

    def _found_in(self, data: bytes) -> str | None:
        text = readable_text(data)
        match = self.pattern.search(text)
        if match is None:
            return None
        start = text.rfind(b"\n", 0, match.start()) + 1
        line = text[start : start + 4 * _MOST_LINE].split(b"\n", 1)[0]
        return line.decode("utf-8", "replace")[:_MOST_LINE].strip()


def _overlap(data: bytes) -> int:
    """The bytes of the last whole line and what follows it."""
    last = data.rfind(b"\n")
    before = data.rfind(b"\n", 0, max(0, last))
    return min(len(data) - (before + 1), _MOST_OVERLAP)
