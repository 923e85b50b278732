"""Looks outside for the facts that conditions ask for. A look that fails is an error,
and the fact stays unknown; only a file system that *answered* "no such file" makes
something absent."""

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
from autoexp_tui.probes.globbing import Expansion, Glance
from autoexp_tui.storage.trust import open_regular
from autoexp_tui.text.patterns import (
    Pattern,
    compile_text_pattern,
    make_text_readable,
    read_text,
)

MOST_TEXT = 1 << 20
"""Bytes of a file whose text a condition may look at."""
_CHUNK = 1 << 20
_MOST_OVERLAP = 1 << 16
"""Bytes read again, so that a match across two reads or two lines is not missed."""
_MOST_LINE = 500
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

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """The facts for `keys`, one after another; shared paths are listed once."""
        began = self._clock.monotonic()  # of all: what they share was looked at first
        at = Glance()
        for key in keys:
            try:
                fact = Fact(self._look(key, at), began)
            except OSError as error:
                reason = error.strerror or str(error)
                where = f"{error.filename}: " if error.filename else ""
                fact = Fact(None, began, error=f"{where}{reason}")
            except ValueError as error:
                fact = Fact(None, began, error=str(error))
            yield fact

    def _look(self, key: OutsideKey, at: Glance) -> FactValue:
        match key:
            case StatKey():
                return look_at(key.path, at)
            case GlobKey():
                return find_matches(key.pattern, at)
            case TextKey():
                return read_file_text(key)
            case LogKey():
                return self._log(key, at)
            case CommandKey():
                return run_bounded(key.command, key.timeout)
            case _:
                assert_never(key)

    def _log(self, key: LogKey, at: Glance) -> LogFound:
        paths = [key.path]
        if key.glob:
            matches = Expansion(key.path, at)
            if matches.problem and not matches.paths:
                raise matches.problem
            paths = sorted(matches.paths)
        known, problem = self._watches.get(key), None
        watches = self._watches[key] = {
            path: known[path]
            if known and path in known
            else LogWatch(
                pattern=compile_text_pattern(key.pattern),
                tail_bytes=key.tail_bytes,
                started=known is not None,
                skip=dict(key.skip),
            )
            for path in paths
        }
        for path, watch in watches.items():
            try:
                watch.look(path)
            except OSError as error:
                problem = problem or error
        lines = [(path, one.line) for path, one in watches.items()]
        found = [(path, line) for path, line in lines if line is not None]
        # One that could not be read may not change the answer.
        if problem and not (key.check_mode == "any" and found):
            raise problem
        path, line = found[-1] if found else ("", "")
        files = sum(watch.exists for watch in watches.values())
        return LogFound(files=files, matched=len(found), line=line, path=path)


def look_at(path: str, at: Glance) -> FileStat:
    """Size and age of a path; raises OSError: it could not be looked at."""
    found = at.stat(path)
    if found is None:
        return FileStat(exists=False)
    return FileStat(
        exists=True,
        size=found.st_size,
        mtime=found.st_mtime,
        file=_make_identity(path, found),
    )


def read_file_text(key: TextKey) -> FileText:
    """What is asked of a file's text; raises OSError: it could not be looked at."""
    with open_regular(key.path) as (handle, found):
        if handle is None or found is None:
            return FileText(None)
        data = os.pread(handle, MOST_TEXT + 1, 0)
    identity = _make_identity(key.path, found)
    if len(data) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"larger than {MOST_TEXT} bytes", key.path)
    if not key.pattern:
        return FileText(read_text(data), identity)
    readable = make_text_readable(read_text(data).encode())
    holds = compile_text_pattern(key.pattern).search(readable) is not None
    return FileText("", identity, holds=holds)


def find_matches(pattern: str, at: Glance) -> Matches:
    """The matches of a pattern, newest last; raises OSError: nobody knows of any."""
    expansion = Expansion(pattern, at)
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


@dataclass(slots=True)
class LogWatch:
    """The search for one pattern in a file; one that was replaced begins anew."""

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
    _end: int = 0
    """Up to here everything was searched."""

    def look(self, path: str) -> None:
        """Search what is new; raises OSError: it cannot be read."""
        with open_regular(path) as (handle, found):
            self.exists = handle is not None
            if handle is None or found is None:
                self._start_over(None)
            else:
                self._look_into(handle, found)
        self.started = True

    def _look_into(self, handle: int, found: os.stat_result) -> None:
        size, identity = found.st_size, (found.st_dev, found.st_ino)
        if identity != self._identity or size < self._end:
            self._start_over(identity)
            if not self.started and size > self.tail_bytes:
                start = size - self.tail_bytes
                data = os.pread(handle, _MOST_OVERLAP, start - 1)
                # Not within a line, if that line ends soon.
                self._offset = start + data.find(b"\n")
            skipped = self.skip.get(found.st_ino, 0)
            if skipped <= size:  # else it was cut short: all of it is new
                self._offset = self._end = max(self._offset, skipped)
        if self.line is not None:
            self._end = size
        elif size != self._end:
            self._search(handle)

    def _start_over(self, identity: tuple[int, int] | None) -> None:
        self._identity = identity
        self.line = None
        self._offset = self._end = 0

    def _search(self, handle: int) -> None:
        most = min(LOOK_BYTES, LOOK_WORK // self.pattern.size)
        chunk = min(_CHUNK, max(2 * _MOST_OVERLAP, most))
        stop = self._offset + most
        while self.line is None and self._offset < stop:
            data = os.pread(handle, chunk, self._offset)
            self.line = self._find_line(data)
            self._end = self._offset + len(data)
            # The last whole line and what follows it are read again.
            before = data.rfind(b"\n", 0, max(0, data.rfind(b"\n")))
            self._offset = self._end - min(len(data) - (before + 1), _MOST_OVERLAP)
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
