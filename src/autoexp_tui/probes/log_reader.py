"""Reads what was appended to a log since the last look: whole lines only; a state of a
progress bar (up to its carriage return) is a line too. A file that was replaced, cut or
written anew is read from its start. Opening it at each look makes network file systems
tell its real size.

And which files of metrics a job has. A run may append to the file of an earlier one, so
their lengths are kept, beside the attempt's records, before it is sent; a file that is
not the same any more has no earlier part."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.engine.ports import FoundFile, LogChunk, LogCursor, Search
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.probes.globbing import Expansion
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


def _find_matching(patterns: Sequence[str]) -> dict[str, int]:
    """Path -> the first of the patterns that it matches, in their order."""
    found: dict[str, int] = {}
    for index, pattern in enumerate(patterns):
        if is_pattern(pattern):
            paths = sorted(Expansion(pattern).paths)
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


_MEMORY = 64
"""Bytes before the cursor that are compared."""


class _Place(NamedTuple):
    """Where a reading stands, and how to tell that the file is still the same."""

    offset: int
    identity: tuple[int, int]
    before: bytes


class LogReader:
    """`ports.LogSource` over files. One call at a time for each log."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int, int, str], _Place] = {}

    def read(self, at: LogCursor) -> LogChunk | None:
        """At most `at.limit` bytes up to the last whole line. A line longer
        than that comes in pieces, a binary file as it is. After a truncation or
        replacement the chunk starts a new file with `reset`, and may be empty. Raises
        OSError."""
        try:
            return self._read(at)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            return self._read(at)  # replaced on the server: a second open finds it

    def find(self, search: Search) -> Sequence[FoundFile]:
        paths = _find_matching(search.patterns)
        if not paths:
            return []
        now = dict(_list_lengths(paths))
        at_first, at_present = map(_read_lengths, (search.first, search.present))
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

    def _read(self, at: LogCursor) -> LogChunk | None:
        attempt, run = (0, -1) if at.outlives else (at.attempt, at.run)
        key, limit = (at.job, attempt, run, at.path), at.limit
        place = self._places.get(key)
        if place is not None and place.offset != at.offset:
            place = None
        with open_regular(at.path) as (handle, found):
            if handle is None or found is None:
                return None
            start, data = at.offset, _read_on(handle, found, place, at.offset, limit)
            is_same = data is not None
            if data is None:
                start, data, place = 0, os.pread(handle, limit, 0), None
        is_whole = at.binary or (at.final and start + len(data) >= found.st_size)
        if not is_whole:  # a last line without its end may still grow
            whole = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            data = data[: whole or (len(data) if len(data) == limit else 0)]
        before = place.before if place else b""
        identity = (found.st_dev, found.st_ino)
        last = data[-_MEMORY:] or before
        self._places[key] = _Place(start + len(data), identity, last)
        if is_same and not data:
            if at.final and not at.outlives:
                del self._places[key]
            return None
        return LogChunk(
            offset=start,
            data=data,
            size=found.st_size,
            reset=not is_same,
            midline=not at.binary
            and before != b""
            and not before.endswith((b"\n", b"\r")),
        )

    def tail(self, path: str, limit: int) -> str:
        return read_tail(path, limit)


def read_tail(path: str, limit: int) -> str:
    """The last `limit` bytes as text, or empty; raises OSError: it cannot be read."""
    with open_regular(path) as (handle, found):
        if handle is None or found is None:
            return ""
        data = os.pread(handle, limit, max(0, found.st_size - limit))
    if found.st_size > limit:  # do not begin within a character
        data = data.lstrip(bytes(range(0x80, 0xC0)))
    return data.decode("utf-8", "replace")


def _read_on(
    handle: int, found: os.stat_result, place: _Place | None, offset: int, limit: int
) -> bytes | None:
    """What follows the cursor; None: what came before it is no longer in the file."""
    identity, before = (found.st_dev, found.st_ino), place.before if place else b""
    if found.st_size < offset or (place and place.identity != identity):
        return None
    data = os.pread(handle, len(before) + limit, offset - len(before))
    return data.removeprefix(before) if data.startswith(before) else None
