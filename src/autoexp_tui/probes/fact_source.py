"""Looks outside for the facts that conditions ask for.

A look that fails is an error, and the fact stays unknown; only a file system that
*answered* "no such file" makes something absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from autoexp_tui.model.freshness import FileIdentity
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.probes.globbing import expand
from autoexp_tui.probes.log_watch import LogWatch
from autoexp_tui.probes.stat_cache import Glance, OpenFile, glance
from autoexp_tui.text.patterns import compile_text_pattern, read_text, readable_text

MOST_TEXT = 1 << 20
"""Bytes of a file whose text a condition may look at."""
_SETTLED_SECONDS = 2.0
"""A file this old cannot change again with the same times."""
_MOST_TEXTS = 10_000


class OutsideFacts:
    """`reading_ports.FactSource` over this machine. One call at a time for each key."""

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
        with glance() as at:
            for key in keys:
                yield self._observe(key, at, began)

    def _observe(self, key: OutsideKey, at: Glance, began: float) -> Fact:
        try:
            value = self._look(key, at)
        except OSError as error:
            return Fact(None, began, error=_words(error))
        except ValueError as error:
            return Fact(None, began, error=str(error))
        return Fact(value, began)

    def _look(self, key: OutsideKey, at: Glance) -> FactValue:
        match key:
            case StatKey():
                return look_at(key.path, at)
            case GlobKey():
                return matches(key.pattern, at)
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
        stamp = _stamp(file.stat)
        known = self._texts.get(key)
        if known is not None and known.stamp == stamp and known.settled:
            return known.text
        found = _text_in(key.path, file)
        text = _searched(key, found, _identity(key.path, file.stat))
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
        paths = _paths(key, at)
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


def _paths(key: LogKey, at: Glance) -> list[str]:
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
        file=_identity(path, found),
    )


def matches(pattern: str, at: Glance) -> Matches:
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
            found.append((stat.st_mtime, path, _identity(path, stat)))
    if problem and not found:
        raise problem
    found.sort(key=lambda one: one[:2])
    return Matches(
        paths=tuple(path for _, path, _ in found),
        largest=max((file.size for _, _, file in found), default=0),
        files=tuple(file for _, _, file in found),
    )


def _identity(path: str, found: os.stat_result) -> FileIdentity:
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


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)


def _text_in(path: str, file: OpenFile) -> str:
    data = file.pread(MOST_TEXT + 1, 0)
    if len(data) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"larger than {MOST_TEXT} bytes", path)
    return read_text(data)


def _searched(key: TextKey, text: str, file: FileIdentity) -> FileText:
    if not key.pattern:
        return FileText(text, file)
    found = compile_text_pattern(key.pattern).search(readable_text(text.encode()))
    return FileText("", file, holds=found is not None)


def _words(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
