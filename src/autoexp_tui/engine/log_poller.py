"""Reads new bytes of logs, each file system in a lane of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autoexp_tui.engine.file_poller import Stream
from autoexp_tui.engine.mount_status import PlaceNews
from autoexp_tui.engine.mount_workers import Lanes
from autoexp_tui.engine.ports import Pool
from autoexp_tui.engine.reading_ports import FoundFile, LogChunk, LogSource
from autoexp_tui.model import observations as seen
from autoexp_tui.model.errors import os_reason
from autoexp_tui.model.observations import LogRead, Observation

LOG = ""
"""The source that is a run's log. Files of metrics are sources by their paths."""
SEARCH = "?"
"""The search for files of metrics."""
GPU = "gpu"
"""The samples of a run's GPUs."""
LOG_CHUNK = 1 << 20
"""Bytes read from one log at a look."""
LOOK_BYTES = 4 << 20
"""Bytes of all logs at a look, so that one commit stays short."""
LOOK_WORK = 25_000_000
"""Bytes times instructions of patterns of all logs at a look, for the same reason: less
than half a second of searching at worst."""
TAIL_BYTES = 8192
"""Bytes of a log's end that evidence is taken from."""


@dataclass(frozen=True, slots=True)
class Search:
    """For files of metrics; see `reading_ports.LogSource.find`."""

    patterns: tuple[str, ...]
    first: str
    present: str


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
    source: str = ""
    """Which file of the job's; the log is the empty one."""
    outlives: bool = False
    """The file is of the job, and not of the run alone."""
    search: Search | None = None
    """Files are looked for; none is read."""

    @property
    def stream(self) -> Stream:
        """Whose file it is, and which: of each one there is one look at a time."""
        return (self.job, self.source)


class LogRounds:
    """Looks at logs. Used by the engine's thread alone."""

    def __init__(
        self,
        source: LogSource,
        pool: Pool,
        place_of: Callable[[str], str],
        post: Callable[[Observation], None],
    ) -> None:
        self._lanes = Lanes("logs", pool, place_of, _LogWays(source, post))
        self._places = PlaceNews(post)
        self._post = post

    def reads(self, stream: Stream) -> bool:
        """Whether an answer for this file is on its way, or late."""
        return self._lanes.holds_key(stream)

    def send(self, cursors: Iterable[LogCursor]) -> None:
        """Look at these; a log that is being looked at is left out."""
        self._lanes.send(cursors)

    def tend(self, now: float, t: float) -> None:
        """Begin what can begin, say what does not answer, and what nobody got to."""
        tended = self._lanes.tend(now, t)
        self._places.tell(tended)
        if tended.again:
            left = tuple(cursor.stream for cursor in tended.again)
            self._post(seen.LogsRead(reads=(), left=left))


@dataclass(frozen=True, slots=True)
class _LogWays:
    """How lanes look at logs."""

    source: LogSource
    post: Callable[[Observation], None]

    def key(self, item: LogCursor) -> Hashable:
        """The file, whichever run wrote it."""
        return item.stream

    def path(self, item: LogCursor) -> str:
        """The log's."""
        return item.path

    def look(self, items: Sequence[LogCursor]) -> Iterator[LogRead]:
        """One by one, in their order, up to `LOOK_BYTES` and `LOOK_WORK`."""
        room, work = LOOK_BYTES, LOOK_WORK
        for item in items:
            if room <= 0 or work <= 0:
                return
            read = self._read(item)
            size = len(read.chunk.data) if read.chunk else 0
            room, work = room - size, work - size * item.cost
            yield read

    def tell(self, answers: Sequence[tuple[LogCursor, LogRead]]) -> None:
        """As an observation."""
        if answers:
            self.post(seen.LogsRead(reads=tuple(read for _, read in answers)))

    def fault(self, name: str, problem: BaseException) -> None:
        """As an observation."""
        self.post(seen.call_failed(name, problem))

    def _read(self, at: LogCursor) -> LogRead:
        chunk, tail, problem = None, "", ""
        found: tuple[FoundFile, ...] | None = None
        try:
            if at.search is None:
                chunk, tail = self._news(at)
            else:
                found = self._found(at.search)
        except OSError as error:
            chunk, problem = None, f"{at.path}: {os_reason(error)}"
        return LogRead(
            job=at.job,
            attempt=at.attempt,
            run=at.run,
            chunk=chunk,
            final=at.final,
            tail=tail,
            problem=problem,
            source=at.source,
            found=found,
        )

    def _found(self, search: Search) -> tuple[FoundFile, ...]:
        return tuple(self.source.find(search.patterns, search.first, search.present))

    def _news(self, at: LogCursor) -> tuple[LogChunk | None, str]:
        """What is new in a file, and of a run's ended log also its tail."""
        attempt, run = (0, -1) if at.outlives else (at.attempt, at.run)
        chunk = self.source.read(
            at.job, attempt, run, at.path, at.offset, at.limit, final=at.final
        )
        wants_tail = at.final and not at.source
        return chunk, self.source.tail(at.path, TAIL_BYTES) if wants_tail else ""
