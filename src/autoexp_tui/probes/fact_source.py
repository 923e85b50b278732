"""Looks outside for the facts that conditions ask for.

A look that fails is an error, and the fact stays unknown; only a file system that
*answered* "no such file" makes something absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.facts import (
    CommandKey,
    Fact,
    FactValue,
    FileStat,
    FileText,
    GlobKey,
    LogFound,
    LogKey,
    Matches,
    OutsideKey,
    StatKey,
    TextKey,
)
from autoexp_tui.model.outputs import FileIdentity
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.probes.globbing import expand
from autoexp_tui.probes.stat_cache import Glance, OpenFile, open_glance
from autoexp_tui.text.patterns import (
    Pattern,
    compile_text_pattern,
    make_text_readable,
    read_text,
)

MOST_TEXT = 1 << 20
"""Bytes of a file whose text a condition may look at."""
_SETTLED_SECONDS = 2.0
"""A file this old cannot change again with the same times."""
_MOST_TEXTS = 10_000
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


class OutsideFacts:
    """`ports.FactSource` over this machine. One call at a time for each key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: dict[LogKey, dict[str, LogWatch]] = {}
        self._texts: dict[TextKey, _Text] = {}

    def observe(self, key: OutsideKey) -> Fact:
        """The fact for `key`; a failed look has `error` and no value."""
        return next(self.observe_all([key]))

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """The facts for `keys`, one after another; shared paths are asked once."""
        began = self._clock.monotonic()  # of all: what they share was looked at first
        with open_glance() as at:
            for key in keys:
                yield self._observe(key, at, began)

    def _observe(self, key: OutsideKey, at: Glance, began: float) -> Fact:
        try:
            value = self._look(key, at)
        except OSError as error:
            return Fact(None, began, error=_format_error(error))
        except ValueError as error:
            return Fact(None, began, error=str(error))
        return Fact(value, began)

    def _look(self, key: OutsideKey, at: Glance) -> FactValue:
        match key:
            case StatKey():
                return look_at(key.path, at)
            case GlobKey():
                return find_matches(key.pattern, at)
            case TextKey():
                return self._text(key, at)
            case LogKey():
                return self._log(key, at)
            case CommandKey():
                return run_bounded(key.command, key.timeout)
            case _:
                assert_never(key)

    # ------------------------------------------------------------------------- texts
    def _text(self, key: TextKey, at: Glance) -> FileText:
        """What is asked of a file's text, worked out again only when it may be
        another."""
        file = at.open(key.path)
        if file is None:
            self._texts.pop(key, None)
            return FileText(None)
        stamp = _make_stamp(file.stat)
        known = self._texts.get(key)
        if known is not None and known.stamp == stamp and known.settled:
            return known.text
        found = _read_file_text(key.path, file)
        text = _search_text(key, found, _make_identity(key.path, file.stat))
        if len(self._texts) >= _MOST_TEXTS:
            self._texts.clear()
        self._texts[key] = _Text(stamp, text, self._is_settled(file.stat))
        return text

    def _is_settled(self, found: os.stat_result) -> bool:
        """Whether a later write surely shows in the file's times."""
        newest = max(found.st_mtime, found.st_ctime)
        return self._clock.utc() - newest > _SETTLED_SECONDS

    # -------------------------------------------------------------------------- logs
    def _log(self, key: LogKey, at: Glance) -> LogFound:
        paths = _list_paths(key, at)
        known = self._watches.get(key)
        watches = {path: _watch(key, path, known) for path in paths}
        problem = None
        for watch in watches.values():
            try:
                watch.look(at)
            except OSError as error:
                problem = problem or error
        self._watches[key] = watches
        found = [watch for watch in watches.values() if watch.line is not None]
        if problem and not _is_settled(key, found):
            raise problem
        return LogFound(
            files=sum(watch.exists for watch in watches.values()),
            matched=len(found),
            line=(found[-1].line or "") if found else "",
            path=found[-1].path if found else "",
        )


def _is_settled(key: LogKey, found: list[LogWatch]) -> bool:
    """Whether a file that could not be read cannot change the answer."""
    return key.check_mode == "any" and bool(found)


def _watch(key: LogKey, path: str, known: dict[str, LogWatch] | None) -> LogWatch:
    if known is not None and path in known:
        return known[path]
    return LogWatch(
        path=path,
        pattern=compile_text_pattern(key.pattern),
        tail_bytes=key.tail_bytes,
        started=known is not None,
        skip=dict(key.skip),
    )


def _list_paths(key: LogKey, at: Glance) -> list[str]:
    if not key.glob:
        return [key.path]
    found = expand(key.path, at)
    if found.problem and not found.paths:
        raise found.problem
    return sorted(found.paths)


# -------------------------------------------------------------------------- the others
def look_at(path: str, at: Glance) -> FileStat:
    """Size and age of a path. Raises OSError: it could not be looked at."""
    found = at.stat(path)
    if found is None:
        return FileStat(exists=False)
    return FileStat(
        exists=True,
        size=found.st_size,
        mtime=found.st_mtime,
        file=_make_identity(path, found),
    )


def find_matches(pattern: str, at: Glance) -> Matches:
    """The matches of a pattern, newest last.

    Raises:
        OSError: nothing was found, and something could not be looked at.
    """
    expansion = expand(pattern, at)
    problem = expansion.problem
    found: list[tuple[float, str, FileIdentity]] = []
    for path in expansion.paths:
        try:
            stat = at.stat(path)
        except OSError as error:
            problem = problem or error
            continue
        if stat is not None:
            found.append((stat.st_mtime, path, _make_identity(path, stat)))
    if problem and not found:
        raise problem
    found.sort(key=lambda one: one[:2])
    return Matches(
        paths=tuple(path for _, path, _ in found),
        largest=max((file.size for _, _, file in found), default=0),
        files=tuple(file for _, _, file in found),
    )


def _make_identity(path: str, found: os.stat_result) -> FileIdentity:
    return FileIdentity(
        path=path,
        inode=found.st_ino,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
    )


@dataclass(frozen=True, slots=True)
class _Text:
    """What was read of a file, and when that still holds."""

    stamp: tuple[int, ...]
    text: FileText
    settled: bool


def _make_stamp(found: os.stat_result) -> tuple[int, ...]:
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)


def _read_file_text(path: str, file: OpenFile) -> str:
    data = file.pread(MOST_TEXT + 1, 0)
    if len(data) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"larger than {MOST_TEXT} bytes", path)
    return read_text(data)


def _search_text(key: TextKey, text: str, file: FileIdentity) -> FileText:
    if not key.pattern:
        return FileText(text, file)
    found = compile_text_pattern(key.pattern).search(make_text_readable(text.encode()))
    return FileText("", file, holds=found is not None)


def _format_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


# ---------------------------------------------------------------- patterns in logs
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
            self.line = self._find_line(data)
            self._end = self._offset + len(data)
            self._offset = self._end - _count_overlap(data)
            if len(data) < chunk:
                return

    def _find_line(self, data: bytes) -> str | None:
        text = make_text_readable(data)
        match = self.pattern.search(text)
        if match is None:
            return None
        start = text.rfind(b"\n", 0, match.start()) + 1
        line = text[start : start + 4 * _MOST_LINE].split(b"\n", 1)[0]
        return line.decode("utf-8", "replace")[:_MOST_LINE].strip()


def _count_overlap(data: bytes) -> int:
    """The bytes of the last whole line and what follows it."""
    last = data.rfind(b"\n")
    before = data.rfind(b"\n", 0, max(0, last))
    return min(len(data) - (before + 1), _MOST_OVERLAP)
