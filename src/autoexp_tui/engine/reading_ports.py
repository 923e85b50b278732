"""What the engine reads outside: facts that conditions ask for, and jobs' logs.

How its calls are made: see `ports`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

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


class LogSource(Protocol):
    """Reads new bytes of logs; blocks."""

    def read(
        self,
        job: str,
        attempt: int,
        run: int,
        path: str,
        offset: int,
        limit: int,
        *,
        final: bool = False,
    ) -> LogChunk | None:
        """At most `limit` bytes from `offset` up to the last whole line.

        `final`: the run has ended, so a last line without its end counts too. None
        when there is nothing new or no file yet.
        """
        ...

    def tail(self, path: str, limit: int) -> str:
        """The last `limit` bytes as text; empty when there is no file."""
        ...

    def find(
        self, patterns: Sequence[str], first: str, present: str
    ) -> Sequence[FoundFile]:
        """The files that match any of `patterns`, in order, each once.

        `first`, `present`: directories of the job's first and present attempt, which
        tell how long the files were before.
        """
        ...
