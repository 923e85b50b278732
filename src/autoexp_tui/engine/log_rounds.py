"""Reads new bytes of logs, each file system in a lane of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.lanes import Lanes
from autoexp_tui.engine.observations import LogRead, Observation
from autoexp_tui.engine.pacing import Stream
from autoexp_tui.engine.place_news import PlaceNews
from autoexp_tui.engine.ports import LogSource, Pool

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
TAIL_BYTES = 8192
"""Bytes of a log's end that evidence is taken from."""


@dataclass(frozen=True, slots=True)
class Search:
    """For files of metrics; see `ports.LogSource.find`."""

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

    def tend(self, now: float, utc: float) -> None:
        """Begin what can begin, say what does not answer, and what nobody got to."""
        tended = self._lanes.tend(now, utc)
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
        """One by one, in their order, up to `LOOK_BYTES`."""
        room = LOOK_BYTES
        for item in items:
            if room <= 0:
                return
            read = self._read(item)
            room -= len(read.chunk.data) if read.chunk else 0
            yield read

    def tell(self, answers: Sequence[tuple[LogCursor, LogRead]]) -> None:
        """As an observation."""
        if answers:
            self.post(seen.LogsRead(reads=tuple(read for _, read in answers)))

    def fault(self, name: str, problem: BaseException) -> None:
        """As an observation."""
        self.post(seen.call_failed(name, problem))

    def _read(self, at: LogCursor) -> LogRead:
        empty = LogRead(
            job=at.job,
            attempt=at.attempt,
            run=at.run,
            chunk=None,
            final=at.final,
            source=at.source,
        )
        try:
            return self._filled(empty, at)
        except OSError as error:
            return replace(empty, problem=str(error))

    def _filled(self, empty: LogRead, at: LogCursor) -> LogRead:
        source, search = self.source, at.search
        if search is not None:
            found = source.find(search.patterns, search.first, search.present)
            return replace(empty, found=tuple(found))
        whose = (0, -1) if at.outlives else (at.attempt, at.run)
        place = (at.job, *whose, at.path, at.offset, LOG_CHUNK)
        chunk = source.read(*place, final=at.final)
        wants_tail = at.final and not at.source
        tail = source.tail(at.path, TAIL_BYTES) if wants_tail else ""
        return replace(empty, chunk=chunk, tail=tail)
