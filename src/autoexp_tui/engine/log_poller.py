"""Which logs and files of metrics are read when: those of what runs, and last words.
What grew is read with the next poll, or a little later where very many run; what said
nothing new waits longer. Only `wake` may be called from another thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import ports
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.looks import BACKOFF, Looks
from autoexp_tui.engine.observations import LogRead, Observation
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.errors import format_os_reason
from autoexp_tui.model.event import pick
from autoexp_tui.model.state import SessionState

LOOK_BYTES: Final = 4 << 20
"""Bytes of all logs at a look, so that one commit stays short."""
TAIL_BYTES: Final = 8192
"""Bytes of a log's end that evidence is taken from."""
REREAD_AT_ONCE: Final = 8
MOST_REREAD: Final = 2000
"""Ended jobs whose logs a new engine reads again: the newest."""
GPU_FILE: Final = "gpu.jsonl"
"""In an attempt's directory, by the wrapper."""
GPU_SECONDS: Final = (15.0, 60.0)
"""Between two looks for samples of GPUs, of which there is one every half minute."""
SLOWEST_SECONDS: Final = 15.0
"""Between two looks at a quiet file, at most."""
PATIENCE_SHARE: Final = 0.1
"""Of the time that the least patient rule waits: the longest between two looks."""
SLACK: Final = 0.25
"""Of a poll: files due so soon after the first are looked at with it."""
MOST_AT_ONCE: Final = 250
"""Files that are sent with one commit: the commit that reads them stays short."""
BUSY_JOBS: Final = 500
"""Jobs whose logs may grow with each poll; of more, all are read more seldom ..."""
BUSIEST_SECONDS: Final = 5.0
"""... but each is looked at so often, however many there are."""


@dataclass(slots=True)
class LogPoller:
    """Reads logs. Used by the engine's thread, but for `wake`."""

    state: SessionState
    ephemeral: EphemeralState
    telemetry: Telemetry
    runs: RunReports
    parts: ports.Parts
    post: Callable[[Observation], None]
    looks: Looks[ports.Stream, ports.LogCursor, LogRead] = field(init=False)
    moved: set[str] = field(default_factory=set)
    """Jobs of which other files may have to be watched than are."""
    _shortest: float = 1.0
    """Seconds between two looks at a file that grows."""
    _woken: deque[ports.Stream] = field(default_factory=deque)
    _to_reread: dict[ports.Stream, None] = field(default_factory=dict)
    _watched: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Job -> its log, and which of its files are watched."""
    _paths: dict[str, ports.Stream] = field(default_factory=dict)
    """What was looked at, by its path."""

    def __post_init__(self) -> None:
        self.looks = Looks(
            "logs",
            self.parts.pools["logs"],
            self._prepare,
            partial(read_logs, self.parts.logs),
            lambda reads: seen.LogsRead(reads=tuple(reads)),
            self.post,
        )

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first, for their curves."""
        self._watched.clear()
        ended = [job for job in self.state.jobs.values() if job.ended]
        ended.sort(key=lambda job: job.since, reverse=True)
        self._to_reread = {
            (job.name, source): None
            for job in [one for one in ended if one.attempts][:MOST_REREAD]
            if job.attempts[-1].log_path
            for source in self.telemetry.find_run(job).sources
        }
        self.moved.update(self.ephemeral.roster.active)
        self.runs.drained.clear()

    def wake(self, paths: Iterable[str]) -> bool:
        """Some files changed: whether one of them is looked at sooner for it."""
        known = {self._paths.get(path, ("", "")) for path in paths}
        slow, entries = self._shortest * BACKOFF, self.looks.entries
        woken = [
            one
            for one in filter(self._is_wanted, known)
            if (entry := entries.get(one)) and entry.wait > slow
        ]
        self._woken.extend(sorted(woken))
        return bool(woken)

    def note(self, got: seen.LogsRead, now: float) -> None:
        """Learn from answers when to look again. `now`: monotonic seconds."""
        for read in got.reads:
            stream, chunk = (read.job, read.source), read.chunk
            shortest, longest = self._find_waits(stream)
            self.looks.settle(
                stream,
                now,
                changed=chunk is not None,
                shortest=shortest,
                longest=longest,
            )
            if chunk is not None and chunk.offset + len(chunk.data) < chunk.size:
                self.looks.hurry(now, stream)
            if read.found is not None:
                self.moved.add(read.job)
            if chunk is None and stream in self._to_reread:
                del self._to_reread[stream]
                files = ((read.job, one.path) for one in read.found or ())
                self._to_reread |= dict.fromkeys(files)

    def _find_waits(self, stream: ports.Stream) -> tuple[float, float]:
        """Seconds between two looks at a file: while it grows, and at most."""
        job, source = stream
        if source == ports.GPU:
            return GPU_SECONDS
        longest, run = SLOWEST_SECONDS, self.telemetry.runs.get(job)
        if run is not None and not source:
            patience = min(run.watch.shortest, run.rules.stall_after_seconds)
            longest = min(patience * PATIENCE_SHARE, longest)
        return self._shortest, longest

    def look(self, now: float, t: float, poll_seconds: float) -> None:
        """Read what is due; `now` is monotonic, `t` the same moment."""
        looks = self.looks
        if self.moved:
            self._watch_moved(now)
        often = min(len(self._watched) / BUSY_JOBS, BUSIEST_SECONDS)
        self._shortest = max(poll_seconds, often)
        while self._woken:
            stream = self._woken.popleft()
            looks.want(stream, now, self._find_waits(stream)[0])
        if self.runs.ending:
            for stream in self.runs.list_undrained(self.state.jobs):
                looks.hurry(0.0, stream)  # before all others
        for stream in [*islice(self._to_reread, REREAD_AT_ONCE)]:
            if self.state.jobs[stream[0]].ended:
                looks.want(stream, now, 0.0)
            else:
                del self._to_reread[stream]
        heap = looks.heap
        if looks.is_active or (heap and heap[0][0] <= now):
            slack = poll_seconds * SLACK
            looks.look(now, t, self._is_wanted, slack=slack, most=MOST_AT_ONCE)

    def next_at(self, now: float) -> float | None:
        """When the next log is to be read; an answer that is still out wakes us."""
        return now if self._woken or self.moved else self.looks.next_at()

    def _is_wanted(self, stream: ports.Stream) -> bool:
        _, sources = self._watched.get(stream[0], ("", ()))
        return stream[1] in sources or stream in self._to_reread

    def _watch_moved(self, now: float) -> None:
        """Watch the files that there are now of the jobs that moved, and no others."""
        for name in sorted(self.moved & self.ephemeral.roster.active):
            job = self.state.jobs[name]
            # Nothing is watched before there is a log.
            if job.attempts and (log := job.attempts[-1].log_path):
                sources = (*self.telemetry.find_run(job).sources, ports.GPU)
                old_log, old = self._watched.get(name, ("", ()))
                for source in sources:
                    if source not in old or log != old_log:
                        stream = (name, source)
                        self.looks.want(stream, now, self._find_waits(stream)[0])
                self._watched[name] = (log, sources)
        for name in self.moved - self.ephemeral.roster.active:
            self._watched.pop(name, None)
        self.moved.clear()

    def _prepare(self, stream: ports.Stream) -> tuple[str, ports.LogCursor]:
        """Where a file is to be read on, and its mount point."""
        (name, source), directory = stream, self.parts.attempt_dir
        job, runs = self.state.jobs[name], self.runs
        final = job.ended or (name, len(job.attempts)) in runs.ending
        cursor = self.telemetry.make_cursor(job, source, final=final)
        if source in (ports.SEARCH, ports.GPU):
            present = str(directory(name, cursor.attempt))
            cursor = replace(cursor, path=f"{present}/{GPU_FILE}")
        if source == ports.SEARCH:
            patterns = self.telemetry.find_run(job).patterns
            search = ports.Search(patterns, str(directory(name, 1)), present)
            cursor = replace(cursor, search=search, path=patterns[0])
        self._paths[cursor.path] = stream
        return self.parts.place_of(cursor.path), cursor


def read_logs(
    source: ports.LogSource, items: Sequence[ports.LogCursor]
) -> Iterator[LogRead]:
    """Look at logs one by one, in their order, up to `LOOK_BYTES` and `LOOK_WORK`."""
    room, work = LOOK_BYTES, ports.LOOK_WORK
    for at in items:
        if room <= 0 or work <= 0:
            return
        chunk, tail, problem = None, "", ""
        found: tuple[ports.FoundFile, ...] | None = None
        try:
            if at.search is not None:
                found = tuple(source.find(at.search))
            else:
                chunk = source.read(at)
                if at.final and not at.source:
                    tail = source.tail(at.path, TAIL_BYTES)
        except OSError as error:
            chunk, problem = None, f"{at.path}: {format_os_reason(error)}"
        size = len(chunk.data) if chunk else 0
        room, work = room - size, work - size * at.cost
        yield LogRead(
            chunk=chunk,
            tail=tail,
            problem=problem,
            found=found,
            **pick(at, "job", "attempt", "run", "final", "source"),
        )
