"""Reads what was appended to a log since the last look.

Whole lines only; a state of a progress bar (up to its carriage return) is a line too.
Opening the file at each look also makes network file systems tell its real size.

A log that was rotated (renamed, or copied and truncated) is first read to its end
where it lies now, and then from the start of the new one. Renamed logs are known by
their inode, copies by their name and by the bytes before the place where the reading
stood. Not seen: a file that was cut and grew past where we stood, with the same bytes
before that place.

Which files of metrics a job has, and how much of each is not of its present attempt.

A run may append to the file of an earlier one, also of an earlier session. So the
lengths are kept, beside the attempt's records, before it is sent; a file that is not
the same any more has no earlier part.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.engine.ports import FoundFile, LogChunk, LogCursor, Search
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.probes.globbing import expand
from autoexp_tui.storage.atomic import write_atomic
from autoexp_tui.storage.trust import open_regular, read_checked
from autoexp_tui.telemetry.metric_files import is_pattern

MOST_FILES: Final = 32
"""Of one job."""
_NAME: Final = "files_before.json"

_Length: TypeAlias = tuple[int, int]
"""(inode, bytes)."""


def note_lengths(attempt_dir: Path, patterns: Sequence[str]) -> None:
    """Keep, once, how long the files are before an attempt is sent."""
    path = attempt_dir / _NAME
    if not patterns or path.exists():
        return
    lengths = dict(_list_lengths(_find_matching(patterns)))
    with suppress(EnvironmentFailed):
        write_atomic(path, json.dumps(lengths).encode(), durable=False)


def find_files(patterns: Sequence[str], first: str, present: str) -> list[FoundFile]:
    """The files that match, with their earlier parts; see `LogSource.find`."""
    paths = _find_matching(patterns)
    if not paths:
        return []
    now = dict(_list_lengths(paths))
    at_first, at_present = _read_lengths(first), _read_lengths(present)
    return [
        FoundFile(
            path=path,
            pattern=paths[path],
            foreign=_count_earlier(at_first, now, path),
            before=_count_earlier(at_present, now, path),
            is_new=path not in at_present,
        )
        for path in now
    ]


def _find_matching(patterns: Sequence[str]) -> dict[str, int]:
    """Path -> the first of the patterns that it matches, in their order."""
    found: dict[str, int] = {}
    for index, pattern in enumerate(patterns):
        if is_pattern(pattern):
            paths = sorted(expand(pattern).paths)
        else:
            paths = [pattern] if os.path.exists(pattern) else []
        for path in paths:
            found.setdefault(path, index)
    return dict(islice(found.items(), MOST_FILES))


def _list_lengths(paths: Iterable[str]) -> Iterator[tuple[str, _Length]]:
    for path in paths:
        with suppress(OSError):
            found = os.stat(path)
            yield path, (found.st_ino, found.st_size)


def _read_lengths(attempt_dir: str) -> Mapping[str, object]:
    try:
        found = json.loads(read_checked(Path(attempt_dir, _NAME), "own"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _count_earlier(
    noted: Mapping[str, object], now: Mapping[str, _Length], path: str
) -> int:
    match noted.get(path):
        case [int(inode), int(size)]:
            same = now[path][0] == inode and now[path][1] >= size
            return size if same else 0
    return 0


MOST_BYTES = 1 << 20
"""Of one read: a commit must stay short."""
_MEMORY = 64
"""Bytes that are compared, before the cursor and at the start of the file."""

_MOST_ENTRIES = 1000

_Key: TypeAlias = tuple[str, int, int, str]


class Place(NamedTuple):
    """Where a reading stands, and how to tell that the file is still the same."""

    offset: int
    identity: tuple[int, int]
    before: bytes
    head: bytes


class LogReader:
    """`ports.LogSource` over files. One call at a time for each log."""

    def __init__(self) -> None:
        self._places: dict[_Key, Place] = {}

    def read(self, at: LogCursor) -> LogChunk | None:
        """At most `at.limit` bytes (and 1 MiB) up to the last whole line.

        A line longer than that comes in pieces. After a truncation or replacement the
        chunk starts a new file with `reset`, and may be empty. Raises OSError.
        """
        attempt, run = (0, -1) if at.outlives else (at.attempt, at.run)
        key = (at.job, attempt, run, at.path)
        look = _Look(key, at.offset, min(at.limit, MOST_BYTES), final=at.final)
        try:
            chunk = self._read(look)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            chunk = self._read(look)  # replaced on the server: a second open finds it
        if chunk is None and at.final and not at.outlives:
            self._places.pop(key, None)
        return chunk

    def find(self, search: Search) -> Sequence[FoundFile]:
        return find_files(search.patterns, search.first, search.present)

    def _read(self, look: _Look) -> LogChunk | None:
        place = self._places.get(look.key)
        if place is not None and place.offset != look.offset:
            place = None
        with open_regular(look.path) as (handle, found):
            if handle is None or found is None:
                return self._read_rest(look, place, closed=False)
            data = _read_on(handle, found, place, look)
            if data is None:
                moved = self._read_rest(look, place, closed=True)
                return moved or self._read_anew(look, handle, found)
            return self._make_chunk(look, handle, found, place, data)

    def _make_chunk(
        self,
        look: _Look,
        handle: int,
        found: os.stat_result,
        place: Place | None,
        data: bytes,
    ) -> LogChunk | None:
        start = look.offset
        if data and not data.strip(b"\0"):
            start = _skip_hole(handle, found.st_size, look.offset + len(data))
            data = os.pread(handle, look.limit, start)
        end = start + len(data)
        head = place.head if place else b""
        if len(head) < _MEMORY:
            head = data[:_MEMORY] if look.offset == 0 else _read_head(handle)
        data = look.take_whole(data, at_end=end >= found.st_size)
        before = place.before if place else b""
        self._places[look.key] = Place(
            offset=start + len(data),
            identity=_make_identity(found),
            before=data[-_MEMORY:] or (b"" if start > look.offset else before),
            head=head,
        )
        if not data and start == look.offset:
            return None
        midline = before != b"" and not before.endswith((b"\n", b"\r"))
        hole = start - look.offset
        return look.make_chunk(start, data, found.st_size, midline=midline, hole=hole)

    def _read_anew(
        self, look: _Look, handle: int, found: os.stat_result
    ) -> LogChunk | None:
        """The start of a file that took the place of the one that was read."""
        start = _skip_hole(handle, found.st_size)
        data = os.pread(handle, look.limit, start)
        stripped = data.lstrip(b"\0")
        start += len(data) - len(stripped)
        data = look.take_whole(stripped, at_end=start + len(stripped) >= found.st_size)
        self._places[look.key] = Place(
            offset=start + len(data),
            identity=_make_identity(found),
            before=data[-_MEMORY:],
            head=_read_head(handle) if start else stripped[:_MEMORY],
        )
        return look.make_chunk(start, data, found.st_size, reset=True)

    def _read_rest(
        self, look: _Look, place: Place | None, *, closed: bool
    ) -> LogChunk | None:
        """What is left of the log where it was moved or copied to.

        `closed`: another file stands in its place, so that its last line is whole.
        """
        if place is None:
            return None
        paths = _list_candidates(look.path, place)
        opened = (_open_rest(path, place) for path in paths)
        handle = next((one for one in opened if one is not None), None)
        if handle is None:
            return None
        try:
            size = os.fstat(handle).st_size
            data = os.pread(handle, look.limit, look.offset)
        finally:
            os.close(handle)
        end = look.offset + len(data)
        data = look.take_whole(data, at_end=end >= size, ended=closed)
        if not data:
            return None
        self._places[look.key] = place._replace(
            offset=look.offset + len(data), before=data[-_MEMORY:]
        )
        return look.make_chunk(look.offset, data, size)

    def tail(self, path: str, limit: int) -> str:
        return read_tail(path, limit)


def read_tail(path: str, limit: int) -> str:
    """The last `limit` bytes as text, or empty; raises OSError: it cannot be read."""
    with open_regular(path) as (handle, _):
        if handle is None:
            return ""
        size = os.fstat(handle).st_size
        data = os.pread(handle, limit, max(0, size - limit))
    if size > limit:  # do not begin within a character
        data = data.lstrip(bytes(range(0x80, 0xC0)))
    return data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Look:
    """What is asked of one read."""

    key: _Key
    offset: int
    limit: int
    final: bool = field(kw_only=True)

    @property
    def path(self) -> str:
        return self.key[3]

    def take_whole(self, data: bytes, *, at_end: bool, ended: bool = False) -> bytes:
        """`data` without a last line that may still grow."""
        if (self.final or ended) and at_end:
            return data
        whole = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        return data[: whole or (len(data) if len(data) == self.limit else 0)]

    def make_chunk(
        self,
        offset: int,
        data: bytes,
        size: int,
        *,
        reset: bool = False,
        midline: bool = False,
        hole: int = 0,
    ) -> LogChunk:
        job, attempt, run, _ = self.key
        return LogChunk(
            job=job,
            attempt=attempt,
            run=run,
            offset=offset,
            data=data,
            size=size,
            reset=reset,
            midline=midline,
            hole=hole,
        )


def _read_on(
    handle: int, found: os.stat_result, place: Place | None, look: _Look
) -> bytes | None:
    """What follows the cursor; None: what came before it is no longer in the file."""
    if found.st_size < look.offset:
        return None
    if place is None:
        return os.pread(handle, look.limit, look.offset)
    if place.identity != _make_identity(found):
        return None
    back = len(place.before)
    data = os.pread(handle, back + look.limit, look.offset - back)
    if data[:back] != place.before:
        return None
    if look.offset == 0:
        head = data[:_MEMORY]
    else:  # without anything new, perhaps written anew to the same length
        head = _read_head(handle) if len(data) == back else place.head
    if not head.startswith(place.head):
        return None
    return data[back:]


def _read_head(handle: int) -> bytes:
    return os.pread(handle, _MEMORY, 0)


def _skip_hole(handle: int, size: int, offset: int = 0) -> int:
    """Where the first data from `offset` on lies, past the hole of a truncated file."""
    try:
        return os.lseek(handle, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        return offset  # the file system knows of no holes


def _make_identity(found: os.stat_result) -> tuple[int, int]:
    return (found.st_dev, found.st_ino)


def _list_candidates(path: str, place: Place) -> list[str]:
    """Files beside the log, or beside what it links to: the same file before copies."""
    name = os.path.basename(path)
    same: list[str] = []
    copies: list[str] = []
    places = {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
    for directory in sorted(places):
        with suppress(OSError), os.scandir(directory or ".") as entries:
            for entry in islice(entries, _MOST_ENTRIES):
                if entry.inode() == place.identity[1]:
                    same.append(entry.path)
                elif entry.name.startswith(name) and entry.name != name:
                    copies.append(entry.path)
    return same + sorted(copies)


def _open_rest(path: str, place: Place) -> int | None:
    """A file that begins as the log did up to the place, and has more."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    back = len(place.before)
    with suppress(OSError):  # gone again, or not for us
        handle = os.open(path, flags)
        with suppress(OSError):
            if (
                os.fstat(handle).st_size > place.offset
                and place.head != b""
                and os.pread(handle, len(place.head), 0) == place.head
                and os.pread(handle, back, place.offset - back) == place.before
            ):
                return handle
        os.close(handle)
    return None
