"""A log file of any size, read around where a person looks.

A *window* of the file is indexed: the offsets of line starts, 8 bytes each, in one
array. It begins at the end of the file, grows upwards as a person scrolls, and is
given up for another when they jump. Nothing is mapped: files on shared disks are
truncated under readers. Blocks; the screen calls it from a background thread.

A progress bar overwrites its line with `\\r`, for megabytes without a line break. Such
a line is one row, however long: only what follows its last `\\r` is ever shown.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from autoexp_tui.text.patterns import Pattern, compile_line_pattern, make_readable
from autoexp_tui.text.sanitize import clean

CHUNK: Final = 1 << 18
"""Bytes read at a time."""
LONGEST: Final = 1 << 16
"""Bytes of one line; what is longer, and overwrites nothing, is shown as several."""
MOST_FRUITLESS: Final = 64
"""Chunks read on end without a further line: the rest waits for the next look."""
SEARCH_CHUNK: Final = 1 << 20
MOST_LINES: Final = 1 << 21
"""Lines of a window: 16 MB of offsets; it is then begun anew."""
SHOWN: Final = 4000
"""Characters of a line that are ever shown."""

SEARCH_STEPS: Final = 1 << 26
"""Bytes that are searched at a time, times the pattern's instructions: a search whose
text is made to be slow can be given up soon all the same."""

_ERRORS: Final = (
    r"error|exception|traceback|fatal|panic|killed|out of memory|oom|segfault"
    r"|\bnan\b|cannot|failed"
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


def open_regular(path: str) -> int:
    """A handle to read a regular file; no pipe is waited for.

    Raises:
        OSError: it is none, or cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise OSError(errno.EINVAL, f"{kind}, not a regular file", path)


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
        self._fd = open_regular(self.path)
        seen = os.fstat(self._fd)
        self._identity = (seen.st_dev, seen.st_ino)
        self.size = seen.st_size
        self._start_window(self.size)

    def close(self) -> None:
        """Let the file go."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._identity = (0, 0)
        self._start_window(0)

    def _start_window(self, offset: int) -> None:
        """An empty window at `offset`, which must begin a line or end the file."""
        self._starts = array("Q")
        self._end = offset

    # ----------------------------------------------------------------- the window
    @property
    def first(self) -> int:
        """Where the window begins."""
        return self._starts[0] if self._starts else self._end

    @property
    def is_at_beginning(self) -> bool:
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
        starts = array("Q", _find_line_starts(data, start))
        if start > 0:
            starts = _drop_first_line(starts, data, start)
        if data[-1:] != b"\n" and self._is_overwriting(0):
            starts = self._join_to_first(starts, start + data.rfind(b"\n") + 1)
        starts.extend(self._starts)
        self._starts = starts
        if len(self._starts) > MOST_LINES:
            self._end = self._starts[MOST_LINES]
            del self._starts[MOST_LINES:]
        return True

    def _join_to_first(self, starts: array[int], line_start: int) -> array[int]:
        """`starts` whose last line goes on in the window's first row: one row."""
        if self._starts:
            del self._starts[0]
        return array("Q", [*(one for one in starts if one < line_start), line_start])

    def _is_overwriting(self, place: int) -> bool:
        """Whether a row of the window holds states that were overwritten."""
        if not self._starts:
            return False
        start, stop = self._starts[place], self._find_row_end(place)
        if _is_long(start, stop):
            return True
        return find_last_state(self._read(start, stop - start)) > 0

    def _find_row_end(self, place: int) -> int:
        return self._starts[place + 1] if place + 1 < len(self._starts) else self._end

    def _extend_down(self) -> bool:
        """Index the chunk after the window; False when it holds no whole line."""
        known = bool(self._starts)
        at = max(self._starts[-1], self._end - LONGEST) if known else self._end
        data = self._read(self._end, CHUNK)
        if not data:
            return False
        joined = self._read(at, self._end - at) + data
        first_line = joined[: joined.find(b"\n") + 1] or joined
        if known and find_last_state(first_line):
            self._forget_overwritten()
        fresh = (one for one in _find_line_starts(joined, at) if one > at or not known)
        self._starts.extend(fresh)
        self._end += len(data)
        return True

    def _forget_overwritten(self) -> None:
        """Make one row of the last line, whose beginning was cut up as if it stayed."""
        while len(self._starts) > 1 and self._read(self._starts[-1] - 1, 1) != b"\n":
            self._starts.pop()

    def _extend_to_end(self) -> None:
        while self._end < self.size and self._extend_down():
            if len(self._starts) > MOST_LINES:
                self._start_window(self.size)
                self._extend_up()
                return

    # ---------------------------------------------------------------------- lines
    def last(self, count: int) -> list[LogLine]:
        """The file's last `count` lines."""
        if not self._starts or self.size - self._end > 8 * CHUNK:
            self._start_window(self.size)
            self._extend_up()
        self._extend_to_end()
        self._extend_until(self._extend_up, lambda: len(self._starts) >= count)
        return list(self._read_lines(max(0, len(self._starts) - count), count))

    def at(self, offset: int, count: int) -> list[LogLine]:
        """`count` lines from the one that holds `offset` on."""
        return self.move(offset, 0, count, to_end=False)

    def move(
        self, offset: int, lines: int, count: int, *, to_end: bool = True
    ) -> list[LogLine]:
        """`count` lines, beginning `lines` after (before) the one at `offset`.

        With `to_end` no fewer than `count` where the file has them.
        """
        self._load_window(offset)
        self._extend_until(self._extend_up, lambda: self._find_row(offset) + lines >= 0)
        place = max(0, self._find_row(offset) + lines)
        self._extend_until(
            self._extend_down, lambda: len(self._starts) - place >= count
        )
        if to_end:
            place = min(place, max(0, len(self._starts) - count))
        return list(self._read_lines(place, count))

    def after(self, offset: int) -> int:
        """Where the line after the one that holds `offset` begins, or the end."""
        self._load_window(offset)
        return self._find_row_end(self._find_row(offset)) if self._starts else self._end

    def _load_window(self, offset: int) -> None:
        """A window that holds `offset`."""
        if not self.first <= offset <= self._end or not self._starts:
            self._load_at(offset)

    def _extend_until(
        self, extend: Callable[[], bool], enough: Callable[[], bool]
    ) -> None:
        """Extend the window until it is enough, or no line comes for long."""
        rows, fruitless = len(self._starts), 0
        while not enough() and fruitless < MOST_FRUITLESS and extend():
            fruitless = fruitless + 1 if len(self._starts) == rows else 0
            rows = len(self._starts)

    def _find_row(self, offset: int) -> int:
        return max(0, bisect_right(self._starts, offset) - 1)

    def _load_at(self, offset: int) -> None:
        """A new window at the line that holds `offset`."""
        start = max(0, min(offset, self.size) - LONGEST)
        data = self._read(start, min(offset, self.size) - start)
        cut = data.rfind(b"\n")
        begin = start + cut + 1 if cut >= 0 else start
        self._start_window(begin)
        self._extend_down()

    def _read_lines(self, place: int, count: int) -> Iterator[LogLine]:
        for number in range(place, min(place + count, len(self._starts))):
            start, stop = self._starts[number], self._find_row_end(number)
            seen = stop - _SEEN if _is_long(start, stop) else start
            yield LogLine(start, decode_line(self._read(seen, stop - seen)))

    # --------------------------------------------------------------------- search
    def find(
        self,
        pattern: Pattern,
        offset: int,
        *,
        forward: bool,
        here: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Where the next line that matches begins, from `offset` on (or before it).

        The line at `offset` itself counts only forwards, and only with `here`.
        `stopped` is asked between chunks.
        """
        chunk = max(LONGEST, min(SEARCH_CHUNK, SEARCH_STEPS // pattern.size))
        walk = (
            self._read_ahead(offset, chunk)
            if forward
            else self._read_behind(offset, chunk)
        )
        least = offset if here else offset + 1
        for base, data in walk:
            if stopped():
                return None
            if forward:
                found = next(_find_matches(pattern, base, data, least), None)
            else:
                found = max(_find_matches(pattern, base, data, 0, offset), default=None)
            if found is not None:
                return found
        return None

    def _read_ahead(self, offset: int, chunk: int) -> Iterator[tuple[int, bytes]]:
        """Chunks of whole lines from `offset` to the end."""
        at = offset
        while at < self.size:
            data = self._read(at, chunk)
            cut = data.rfind(b"\n") + 1
            if not data:
                return
            whole = data[:cut] if cut and at + len(data) < self.size else data
            yield at, whole
            at += len(whole)

    def _read_behind(self, offset: int, chunk: int) -> Iterator[tuple[int, bytes]]:
        """Chunks of whole lines from before `offset` back to the beginning."""
        end = offset
        while end > 0:
            start = max(0, end - chunk)
            data = self._read(start, end - start)
            skip = data.find(b"\n") + 1 if start > 0 else 0
            yield start + skip, data[skip:]
            end = start + skip if skip < len(data) and skip else start


def _find_matches(
    pattern: Pattern,
    base: int,
    data: bytes,
    least: int,
    below: int | None = None,
) -> Iterator[int]:
    """Where lines of `data` that match begin, from `least` on and before `below`.

    A state of a progress bar that was overwritten is no match.
    """
    text, at = make_readable(data), 0
    while at < len(text) and (match := pattern.search(text, at)) is not None:
        start = data.rfind(b"\n", 0, match.start()) + 1
        cut = data.find(b"\n", match.start())
        line_end = len(data) if cut < 0 else cut + 1
        state = start + find_last_state(data[start:line_end])
        at = line_end if match.start() >= state else state
        line = base + start
        if at == line_end and line >= least and (below is None or line < below):
            yield line


def _find_line_starts(data: bytes, base: int) -> list[int]:
    """Where lines begin in `data`, which begins a line; long ones are cut up."""
    starts = [0]
    starts += [match.end() for match in re.finditer(rb"\n", data)]
    if starts[-1] == len(data):
        starts.pop()
    if any(
        after - before > LONGEST
        for before, after in zip(starts, [*starts[1:], len(data)], strict=True)
    ):
        starts = list(_split_rows(starts, data))
    return [base + start for start in starts]


def _split_rows(starts: list[int], data: bytes) -> Iterator[int]:
    for before, after in zip(starts, [*starts[1:], len(data)], strict=True):
        yield before
        if after - before > LONGEST:
            state = before + find_last_state(data[before:after])
            yield from range(state + LONGEST, after - 1, LONGEST)


def find_last_state(raw: bytes) -> int:
    """Where the last text of a line begins that no further one overwrote."""
    return raw.rstrip().rfind(b"\r") + 1


_SEEN: Final = LONGEST + 2
"""Bytes of a longer row that are read: from the `\\r` before its last state on."""


def _is_long(start: int, stop: int) -> bool:
    """Whether a row is longer than what is not cut up: it overwrote itself."""
    return stop - start > _SEEN


def _drop_first_line(starts: array[int], data: bytes, base: int) -> array[int]:
    """Without a first line that may begin earlier, unless there is no other."""
    cut = data.find(b"\n")
    if cut < 0 or cut + 1 >= len(data):
        return starts
    return array("Q", [start for start in starts if start > base + cut])


def decode_line(raw: bytes) -> str:
    """A line's bytes as safe text; of a progress bar only its last state."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return clean(text.expandtabs(8), limit=SHOWN)


def compile_errors() -> Pattern:
    """What a line that looks like an error has in it."""
    return compile_line_pattern(_ERRORS, ignore_case=True)


def compile_search(text: str) -> Pattern:
    """A pattern for what a person typed; lower case finds both cases.

    Raises:
        PatternRefused: it is none that is searched.
    """
    return compile_line_pattern(text, ignore_case=text == text.lower())
