"""Which logs a job has; a log file of any size, read around where a person looks.

A place is a byte offset; each look reads the blocks of whole lines around one. Nothing
is mapped: files on shared disks are truncated under readers. Of a progress bar, whose
line may have megabytes, only what follows its last `\\r` is shown.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.text.patterns import Pattern, compile_line_pattern, make_readable
from autoexp_tui.text.sanitize import clean, escape_hidden
from autoexp_tui.text.spelling import clock_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.event import Event

CHUNK: Final = 1 << 14
"""Bytes read at a time."""
LONGEST: Final = 1 << 16
"""Bytes of one line that are looked at, from its last state on."""
MOST: Final = 1 << 24
"""Bytes that are read on end for one line, and upwards for a page: what is longer is
cut there."""
SEARCH_CHUNK: Final = 1 << 20
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


_Row: TypeAlias = tuple[int, bytes]
"""Where a line begins; its bytes, as far as they count."""


MOST_SHOWN: Final = 1 << 16
"""Bytes of a file that are shown beside other things."""


def read_clean(
    path: str,
    most: int = MOST_SHOWN,
    *,
    end: bool = False,
    missing: str = "not there yet",
    escapes: bool = False,
) -> str:
    """The beginning, or the end, of a regular file as clean text; one that cannot be
    read says why. `escapes`: what a clean text leaves out is written out."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most) if end else 0)
            data = file.read(most)
    except FileNotFoundError:
        return f"({missing})"
    except OSError as error:
        return f"(cannot be read: {error.strerror or error})"
    text = data.decode("utf-8", "replace")
    text = clean(escape_hidden(text) if escapes else text, keep_newlines=True)
    is_cut = size > most and not end
    return f"{text}\n({size - most} further bytes are not shown)" if is_cut else text


def open_regular(path: str) -> int:
    """A handle to read a regular file; raises OSError for a pipe, at once."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise OSError(errno.EINVAL, f"{kind}, not a regular file", path)


class LogFile:
    """An open log."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._fd = -1
        self._identity: tuple[int, int] = (0, 0)

    def poll(self) -> Change:
        """Did the file grow, was it replaced, is it there? Raises OSError."""
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

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._identity = (0, 0)

    def _read(self, offset: int, count: int) -> bytes:
        return os.pread(self._fd, count, offset) if self._fd >= 0 else b""

    def _read_down(
        self, start: int, chunk: int, most: int
    ) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines from `start` on; a line longer than `most` is cut."""
        while start < self.size:
            size = chunk
            data = self._read(start, min(size, self.size - start))
            while b"\n" not in data and size < min(most, self.size - start):
                size = min(most, size * 4)
                data = self._read(start, min(size, self.size - start))
            cut = data.rfind(b"\n") + 1
            if not data:
                return
            whole = data[:cut] if cut and start + len(data) < self.size else data
            yield start, whole
            start += len(whole)

    def _read_up(self, end: int, chunk: int, most: int) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines before `end`, the last one first; cut in the same way.

        The first block may end within a line, where `end` does.
        """
        while end > 0:
            size = chunk
            data = self._read(max(0, end - size), min(size, end))
            while b"\n" not in data[:-1] and size < min(most, end):
                size = min(most, size * 4)
                data = self._read(max(0, end - size), min(size, end))
            if not data:
                return
            start = max(0, end - size)
            skip = data.find(b"\n", 0, -1) + 1 if start else 0
            yield start + skip, data[skip:]
            end = start + skip

    def _list_up(self, end: int) -> Iterator[_Row]:
        """The rows before where a line, or the file, ends; the last one first."""
        for base, data in self._read_up(end, CHUNK, MOST):
            yield from reversed(list(_split_rows(base, data)))
            if end - base >= MOST:
                return

    def read_last(self, count: int) -> list[LogLine]:
        return _decode_rows(list(islice(self._list_up(self.size), count))[::-1])

    def read_around(self, offset: int, lines: int, count: int) -> list[LogLine]:
        """`count` lines, `lines` after the one at `offset`; no fewer if there are."""
        found = _decode_rows(self._load(offset, lines, count))
        return (
            found if len(found) >= count else max(found, self.read_last(count), key=len)
        )

    def _load(self, offset: int, lines: int, count: int) -> Sequence[_Row]:
        above = self._read_up(min(offset, self.size), CHUNK, MOST)
        base, data = next(above, (0, b""))
        begin = base + data.rfind(b"\n") + 1
        rows = list(islice(self._list_up(begin), max(0, -lines)))[::-1]
        here = len(rows) - 1
        blocks = self._read_down(begin, CHUNK, MOST)
        for row in (row for block in blocks for row in _split_rows(*block)):
            rows.append(row)
            here += row[0] <= offset
            if row[0] > offset and len(rows) >= max(0, here + lines) + count:
                break
        top = max(0, here + lines)
        return rows[top : top + count]

    def find_end(self, offset: int) -> int:
        """Where the line after the one that holds `offset` begins, or the end."""
        return next((row for row, _ in self._load(offset, 1, 1)), self.size)

    def find_match(
        self,
        pattern: Pattern,
        offset: int,
        *,
        forward: bool,
        here: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Where the next match begins; one at `offset` counts forwards, with `here`."""
        chunk = max(LONGEST, min(SEARCH_CHUNK, SEARCH_STEPS // pattern.size))
        read = self._read_down if forward else self._read_up
        least = offset if here else offset + 1
        for base, data in read(offset, chunk, chunk):
            if stopped():
                return None
            if forward:
                found = next(_find_matches(pattern, base, data, least), None)
            else:
                found = max(_find_matches(pattern, base, data, 0, offset), default=None)
            if found is not None:
                return found
        return None


def _find_matches(
    pattern: Pattern, base: int, data: bytes, least: int, below: int | None = None
) -> Iterator[int]:
    """Where lines of `data` match, unless overwritten, from `least`, before `below`."""
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


def _split_rows(base: int, data: bytes) -> Iterator[_Row]:
    """The rows of whole lines; of a long one the beginning of its last state."""
    for match in re.finditer(rb"[^\n]*\n|[^\n]+", data):
        line = match[0]
        if len(line) > LONGEST:
            line = line[find_last_state(line) :][:LONGEST]
        yield base + match.start(), line


def find_last_state(raw: bytes) -> int:
    """Where the last text of a line begins that no further one overwrote."""
    return raw.rstrip().rfind(b"\r") + 1


def _decode_rows(rows: Sequence[_Row]) -> list[LogLine]:
    return [LogLine(offset, decode_line(raw)) for offset, raw in rows]


def decode_line(raw: bytes) -> str:
    """A line's bytes as safe text; of a progress bar only its last state."""
    text = raw[find_last_state(raw) :].decode("utf-8", "replace").rstrip()
    return clean(text.expandtabs(8), limit=SHOWN)


def compile_errors() -> Pattern:
    return compile_line_pattern(_ERRORS, ignore_case=True)


def compile_search(text: str) -> Pattern:
    """A pattern for what a person typed, lower case for both; raises PatternRefused."""
    return compile_line_pattern(text, ignore_case=text == text.lower())


class Source(NamedTuple):
    """A file that can be read: the log of an attempt, stdout and stderr in one."""

    label: str
    path: str
    trailer: str = ""
    """Said below its last line: that the attempt has ended, and how."""


def find_logs(
    jobs: Sequence[JobView], now: float
) -> tuple[tuple[Source, ...], str, str]:
    """The log of each attempt of the first job that has begun, the newest last; words
    for where there is none, but of one job that has not begun; the job's name."""
    job = next((job for job in jobs if job.attempt is not None), None)
    attempt = job.attempt if job is not None else None
    if job is None or attempt is None:
        several = "none of these jobs has begun" if len(jobs) > 1 else ""
        return (), several if jobs else "no job is shown", ""
    if attempt.began_at is None and attempt.ended_at is not None:
        return (), "nothing was started", job.name
    newest = attempt.log_path or job.record.spec.log_path_current
    logs = [(one, one.log_path) for one in job.record.attempts[:-1] if one.log_path]
    sources = []
    for one, path in (*logs, (attempt, newest)):
        code = f", exit {one.exit_code}" if one.exit_code is not None else ""
        if one.signal is not None:
            code = f", signal {one.signal}"
        ended = one.ended_at
        trailer = "" if ended is None else f"end of log {clock_time(ended, now)}{code}"
        sources.append(Source(f"attempt {one.number}", path, trailer))
    return tuple(sources), "", job.name


class LogSpot(NamedTuple):
    """A place in the log of an attempt."""

    job: str
    source: Source
    offset: int | None = None
    """Byte offset of the line; None: the end."""
    words: str = ""
    """With the end: what to look for, upwards."""


def find_evidence(event: Event, session: SessionView) -> LogSpot | None:
    """Where to look; None where the event's own words are all there is."""
    from autoexp_tui.events import events  # a first paint needs none

    match event:
        case events.LogMatched(job=job, attempt=number, offset=offset):
            return _find_spot(session, job, number, offset)
        case events.AttemptEnded(job=job, attempt=number, evidence=words):
            return _find_spot(session, job, number, None, words)
        case events.EvidenceCaptured(job=job, directory=path) if path:
            return LogSpot(job, Source("evidence", f"{path}/summary.txt"))
        case events.RunBegan(job=job, attempt=number):
            return _find_spot(session, job, number, 0)
        case events.JobEnded(job=job) | events.RetryOrdered(job=job):
            return _find_spot(session, job, 0, None)
        case events.WarningRaised(job=job, evidence=words) if job:
            return _find_spot(session, job, 0, None, words)
    return None


def _find_spot(
    session: SessionView, name: str, number: int, offset: int | None, words: str = ""
) -> LogSpot | None:
    """A place in the log of attempt `number`, 0 for the newest; None without one."""
    job = session.find_job(name)
    attempts = job.record.attempts if job is not None else ()
    found = [one for one in attempts if number in (0, one.number)]
    if job is None or not found or found[-1].began_at is None:
        return None
    path = found[-1].log_path or job.record.spec.log_path_current
    return LogSpot(name, Source("out", path), offset, words)
