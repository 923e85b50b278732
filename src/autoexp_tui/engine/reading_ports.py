"""What the engine reads outside: facts that conditions ask for, and jobs' logs.

How its calls are made: see `ports`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from autoexp_tui.model.facts import Fact, OutsideKey


class FactSource(Protocol):
    """Looks outside for facts; blocks."""

    def observe(self, key: OutsideKey) -> Fact:
        """The fact for `key`; a failed look has `error` and no value."""
        ...

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """The facts for `keys` in their order, each looked for when it is asked for.

        Keys of one call share what they look at: a path is asked about once.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """New bytes of one run's log."""

    job: str
    attempt: int
    run: int
    offset: int
    """Where `data` starts in the file."""
    data: bytes
    size: int
    """The file's size when it was read."""
    reset: bool = False
    """The file was replaced or truncated: what came before is void."""
    midline: bool = False
    """`data` begins within a line that was too long for one read."""
    hole: int = 0
    """Bytes before `offset` that nobody ever wrote."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of metrics that is there."""

    path: str
    pattern: int = 0
    """Which of the patterns it matches first."""
    foreign: int = 0
    """Bytes of it that were there before the job's first attempt was sent."""
    before: int = 0
    """Bytes of it that were there before the present attempt was sent."""
    is_new: bool = True
    """It came with the present attempt."""


Stream: TypeAlias = tuple[str, str]
"""(job, which of its files): the log is the empty one."""
LOG: Final = ""
"""The source that is a run's log. Files of metrics are sources by their paths."""
SEARCH: Final = "?"
"""The search for files of metrics."""
GPU: Final = "gpu"
"""The samples of a run's GPUs."""
LOG_CHUNK: Final = 1 << 20
"""Bytes read from one log at a look."""
LOOK_WORK: Final = 25_000_000
"""Bytes times instructions of patterns of all logs at a look, so that one commit stays
short: less than half a second of searching at worst."""


@dataclass(frozen=True, slots=True)
class Search:
    """For files of metrics; see `LogSource.find`."""

    patterns: tuple[str, ...]
    first: str
    """Directory of the job's first attempt, which tells how long the files were."""
    present: str
    """The same of its present attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """Where the reading of one run's log stands."""

    job: str
    attempt: int
    run: int
    path: str
    offset: int
    final: bool = False
    limit: int = LOG_CHUNK
    """Bytes that are read at a look."""
    cost: int = 1
    """Instructions of patterns that each byte is searched with."""
    source: str = LOG
    """Which file of the job's."""
    outlives: bool = False
    """The file is of the job, and not of the run alone."""
    search: Search | None = None
    """Files are looked for; none is read."""

    @property
    def stream(self) -> Stream:
        """Whose file it is, and which: of each one there is one look at a time."""
        return (self.job, self.source)


class LogSource(Protocol):
    """Reads new bytes of logs; blocks."""

    def read(self, at: LogCursor) -> LogChunk | None:
        """At most `at.limit` bytes from `at.offset` up to the last whole line.

        `at.final`: the run has ended, so a last line without its end counts too. None
        when there is nothing new or no file yet.
        """
        ...

    def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes as text; empty when there is no file."""
        ...

    def find(self, search: Search) -> Sequence[FoundFile]:
        """The files that match any of the patterns, in order, each once."""
        ...
