"""A log file of any size, read around where a person looks.

A *window* of the file is indexed: the offsets of line starts, 8 bytes each, in one
array. It begins at the end of the file, grows upwards as a person scrolls, and is
given up for another when they jump. Nothing is mapped: files on shared disks are
truncated under readers. Blocks; the screen calls it from a background thread.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from autoexp_tui.core.clean import clean

CHUNK: Final = 1 << 18
"""Bytes read at a time."""
LONGEST: Final = 1 << 16
"""Bytes of one line; what is longer is shown as several."""
SEARCH_CHUNK: Final = 1 << 20
MOST_LINES: Final = 1 << 21
"""Lines of a window: 16 MB of offsets; it is then begun anew."""
SHOWN: Final = 4000
"""Characters of a line that are ever shown."""

_ERRORS: Final = re.compile(
    rb"error|exception|traceback|fatal|panic|killed|out of memory|oom|segfault"
    rb"|\bnan\b|cannot|failed",
    re.IGNORECASE,
)


class Change(StrEnum):
    """What a look at the file found."""

    NONE = "none"
    GREW = "grew"
    REPLACED = "replaced"
    """Truncated, or another file under this name."""
    MISSING = "missing"


class LogLine(NamedTuple):
    """One line: where it begins, and its clean text."""

    offset: int
    text: str


class LogFile:
    """An open log and the window of it that is indexed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._fd = -1
        self._identity: tuple[int, int] = (0, 0)
        self._starts: array[int] = array("Q")
        self._end = 0
        """Where the window ends: all before it, from `_starts[0]` on, is indexed."""

    # ------------------------------------------------------------------- the file
    def poll(self) -> Change:
        """Look at the file: did it grow, was it replaced, is it there?

        Raises:
            OSError: it is there and cannot be read.
        """
        try:
            seen = os.stat(self.path)
        except FileNotFoundError:
            self.close()
            self.size = 0
            return Change.MISSING
        if (seen.st_dev, seen.st_ino) != self._identity or seen.st_size < self.size:
            self._open()
            return Change.REPLACED
        if seen.st_size == self.size:
            return Change.NONE
        self.size = seen.st_size
        return Change.GREW

    def _open(self) -> None:
        self.close()
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        seen = os.fstat(self._fd)
        self._identity = (seen.st_dev, seen.st_ino)
        self.size = seen.st_size
        self._begin_at(self.size)

    def close(self) -> None:
        """Let the file go."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._identity = (0, 0)
        self._begin_at(0)

    def _begin_at(self, offset: int) -> None:
        """An empty window at `offset`, which must begin a line or end the file."""
        self._starts = array("Q")
        self._end = offset

    # ----------------------------------------------------------------- the window
    @property
    def first(self) -> int:
        """Where the window begins."""
        return self._starts[0] if self._starts else self._end

    @property
    def at_beginning(self) -> bool:
        """Whether the window reaches the file's first line."""
        return self.first == 0

    def _read(self, offset: int, count: int) -> bytes:
        return os.pread(self._fd, count, offset) if self._fd >= 0 else b""

    def _extend_up(self) -> bool:
        """Index the chunk before the window; False at the file's beginning."""
        if self.first == 0:
            return False
        top = self.first
        start = max(0, top - CHUNK)
        data = self._read(start, top - start)
        starts = array("Q", _line_starts(data, start))
        if start > 0:
            starts = _after_first_break(starts, data, start)
        starts.extend(self._starts)
        self._starts = starts
        if len(self._starts) > MOST_LINES:
            self._end = self._starts[MOST_LINES]
            del self._starts[MOST_LINES:]
        return True

    def _extend_down(self) -> bool:
        """Index the chunk after the window; False when it holds no whole line."""
        at = self._starts[-1] if self._starts else self._end
        data = self._read(self._end, CHUNK)
        if not data:
            return False
        tail = self._end if self._end > at else at
        joined = self._read(at, tail - at) + data if at < tail else data
        known = bool(self._starts)
        found = _line_starts(joined, at)
        fresh = [start for start in found if start > at or not known]
        self._starts.extend(fresh)
        self._end += len(data)
        return True

    def _follow(self) -> None:
        while self._end < self.size and self._extend_down():
            if len(self._starts) > MOST_LINES:
                self._begin_at(self.size)
                self._extend_up()
                return

    # ---------------------------------------------------------------------- lines
    def last(self, count: int) -> list[LogLine]:
        """The file's last `count` lines."""
        if not self._starts or self.size - self._end > 8 * CHUNK:
            self._begin_at(self.size)
            self._extend_up()
        self._follow()
        while len(self._starts) < count and self._extend_up():
            continue
        return list(self._lines(max(0, len(self._starts) - count), count))

    def at(self, offset: int, count: int) -> list[LogLine]:
        """`count` lines from the one that holds `offset` on."""
        if not self.first <= offset <= self._end or not self._starts:
            self._jump(offset)
        place = self._place(offset)
        while len(self._starts) - place < count and self._extend_down():
            place = self._place(offset)
        return list(self._lines(place, count))

    def moved(self, offset: int, lines: int, count: int) -> list[LogLine]:
        """`count` lines, beginning `lines` after (before) the one at `offset`."""
        if not self.first <= offset <= self._end or not self._starts:
            self._jump(offset)
        while self._place(offset) + lines < 0 and self._extend_up():
            continue
        place = max(0, self._place(offset) + lines)
        while len(self._starts) - place < count and self._extend_down():
            continue
        place = min(place, max(0, len(self._starts) - count))
        return list(self._lines(place, count))

    def _place(self, offset: int) -> int:
        return max(0, bisect_right(self._starts, offset) - 1)

    def _jump(self, offset: int) -> None:
        """A new window at the line that holds `offset`."""
        start = max(0, min(offset, self.size) - LONGEST)
        data = self._read(start, min(offset, self.size) - start)
        cut = data.rfind(b"\n")
        begin = start + cut + 1 if cut >= 0 else start
        self._begin_at(begin)
        self._extend_down()

    def _lines(self, place: int, count: int) -> Iterator[LogLine]:
        starts = self._starts[place : place + count]
        after = place + len(starts)
        end = self._starts[after] if after < len(self._starts) else self._end
        if not starts:
            return
        data = self._read(starts[0], end - starts[0])
        for number, start in enumerate(starts):
            stop = starts[number + 1] if number + 1 < len(starts) else end
            yield LogLine(start, shown_text(data[start - starts[0] : stop - starts[0]]))

    # --------------------------------------------------------------------- search
    def find(
        self,
        pattern: re.Pattern[bytes],
        offset: int,
        *,
        forward: bool,
        stopped: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Where the next line that matches begins, from `offset` on (or before it).

        The line at `offset` itself does not count. `stopped` is asked between chunks.
        """
        walk = self._ahead(offset) if forward else self._behind(offset)
        for base, data in walk:
            if stopped():
                return None
            found = self._in_chunk(pattern, base, data, offset, forward=forward)
            if found is not None:
                return found
        return None

    def _in_chunk(
        self,
        pattern: re.Pattern[bytes],
        base: int,
        data: bytes,
        offset: int,
        *,
        forward: bool,
    ) -> int | None:
        newest: int | None = None
        for match in pattern.finditer(data):
            line = base + data.rfind(b"\n", 0, match.start()) + 1
            if forward and line > offset:
                return line
            if not forward and line < offset:
                newest = line
        return newest

    def _ahead(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Chunks of whole lines from `offset` to the end."""
        at = offset
        while at < self.size:
            data = self._read(at, SEARCH_CHUNK)
            cut = data.rfind(b"\n") + 1
            if not data:
                return
            whole = data[:cut] if cut and at + len(data) < self.size else data
            yield at, whole
            at += len(whole)

    def _behind(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Chunks of whole lines from before `offset` back to the beginning."""
        end = offset
        while end > 0:
            start = max(0, end - SEARCH_CHUNK)
            data = self._read(start, end - start)
            skip = data.find(b"\n") + 1 if start > 0 else 0
            yield start + skip, data[skip:]
            end = start + skip if skip < len(data) and skip else start


def _line_starts(data: bytes, base: int) -> list[int]:
    """Where lines begin in `data`, which begins a line; long ones are cut up."""
    starts = [0]
    starts += [match.end() for match in re.finditer(rb"\n", data)]
    if starts[-1] == len(data):
        starts.pop()
    if any(
        after - before > LONGEST
        for before, after in zip(starts, [*starts[1:], len(data)], strict=True)
    ):
        starts = list(_cut_up(starts, len(data)))
    return [base + start for start in starts]


def _cut_up(starts: list[int], end: int) -> Iterator[int]:
    for before, after in zip(starts, [*starts[1:], end], strict=True):
        yield from range(before, max(before + 1, after - 1), LONGEST)


def _after_first_break(starts: array[int], data: bytes, base: int) -> array[int]:
    """Without a first line that may begin earlier, unless there is no other."""
    cut = data.find(b"\n")
    if cut < 0 or cut + 1 >= len(data):
        return starts
    return array("Q", [start for start in starts if start > base + cut])


def shown_text(raw: bytes) -> str:
    """A line's bytes as safe text; of a progress bar only its last state."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return clean(text.expandtabs(8), limit=SHOWN)


def error_pattern() -> re.Pattern[bytes]:
    """What a line that looks like an error has in it."""
    return _ERRORS


def search_pattern(text: str) -> re.Pattern[bytes]:
    """A pattern for what a person typed: a regular expression, else as written.

    Lower case finds both cases.
    """
    flags = re.IGNORECASE if text == text.lower() else 0
    try:
        return re.compile(text.encode(), flags)
    except re.error:
        return re.compile(re.escape(text.encode()), flags)
