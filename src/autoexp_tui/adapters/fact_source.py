"""Looks outside for the facts that conditions ask for.

A look that fails is an error, and the fact stays unknown; only a file system that
*answered* "no such file" makes something absent.
"""

from __future__ import annotations

import errno
import os
import re
from typing import assert_never

from autoexp_tui.adapters.bounded_command import run_bounded
from autoexp_tui.adapters.globbing import expand
from autoexp_tui.adapters.log_tail import opened
from autoexp_tui.adapters.log_watch import LogWatch
from autoexp_tui.core.facts import (
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
from autoexp_tui.engine.ports import Clock

MOST_TEXT = 1 << 20
"""Bytes of a file whose text a condition may look at."""


class OutsideFacts:
    """`ports.FactSource` over this machine. One call at a time for each key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: dict[LogKey, dict[str, LogWatch]] = {}

    def observe(self, key: OutsideKey) -> Fact:
        """The fact for `key`; a failed look has `error` and no value."""
        try:
            value = self._look(key)
        except OSError as error:
            return Fact(None, self._clock.utc(), error=_words(error))
        except (ValueError, re.error) as error:
            return Fact(None, self._clock.utc(), error=str(error))
        return Fact(value, self._clock.utc())

    def _look(self, key: OutsideKey) -> FactValue:
        match key:
            case StatKey():
                return look_at(key.path)
            case GlobKey():
                return matches(key.pattern)
            case TextKey():
                return FileText(text_of(key.path))
            case LogKey():
                return self._log(key)
            case CommandKey():
                return run_bounded(key.command, key.timeout)
            case _:
                assert_never(key)

    # -------------------------------------------------------------------------- logs
    def _log(self, key: LogKey) -> LogFound:
        paths = _paths(key)
        known = self._watches.get(key)
        watches = {path: _watch(key, path, known) for path in paths}
        problem = None
        for watch in watches.values():
            try:
                watch.look()
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
        pattern=re.compile(key.pattern, re.MULTILINE),
        tail_bytes=key.tail_bytes,
        started=known is not None,
    )


def _paths(key: LogKey) -> list[str]:
    if not key.glob:
        return [key.path]
    found = expand(key.path)
    if found.problem and not found.paths:
        raise found.problem
    return sorted(found.paths)


# -------------------------------------------------------------------------- the others
def look_at(path: str) -> FileStat:
    """Size and age of a path. Raises OSError: it could not be looked at."""
    found = _stat(path)
    if found is None:
        return FileStat(exists=False)
    return FileStat(exists=True, size=found.st_size, mtime=found.st_mtime)


def matches(pattern: str) -> Matches:
    """The matches of a pattern, newest last.

    Raises:
        OSError: nothing was found, and something could not be looked at.
    """
    expansion = expand(pattern)
    problem = expansion.problem
    found: list[tuple[float, str, int]] = []
    for path in expansion.paths:
        try:
            stat = _stat(path)
        except OSError as error:
            problem = problem or error
            continue
        if stat is not None:
            found.append((stat.st_mtime, path, stat.st_size))
    if problem and not found:
        raise problem
    return Matches(
        paths=tuple(path for _, path, _ in sorted(found)),
        largest=max((size for _, _, size in found), default=0),
    )


def text_of(path: str) -> str | None:
    """The text of a file, None when there is none.

    Raises:
        OSError: it cannot be read, or is too large.
    """
    with opened(path) as handle:
        if handle is None:
            return None
        data = os.pread(handle, MOST_TEXT + 1, 0)
    if len(data) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"larger than {MOST_TEXT} bytes", path)
    return data.decode("utf-8", "replace")


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _words(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
