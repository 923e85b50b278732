"""Which logs and files of metrics are read when: those of what runs, and last words.
What grew is read with the next poll, or a little later where very many run; what said
nothing new waits longer. Only `wake` may be called from another thread.

When each thing outside is looked at again: often while it changes, else ever more
seldom. What is due is found on a heap. Times are monotonic seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Generic, TypeVar

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.mount_workers import MountWorkers
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import (
    GPU,
    LOOK_WORK,
    SEARCH,
    FoundFile,
    LogCursor,
    LogSource,
    Search,
    Stream,
)
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.errors import format_os_reason
from autoexp_tui.model.state import JobRecord, SessionState

K = TypeVar("K")

BACKOFF: Final = 1.5
"""How much longer the wait is after a look that showed nothing new."""
UNDER_WAY: Final = math.inf


@dataclass(slots=True)
class Entry:
    """One key's schedule."""

    wait: float
    """Seconds between the last look and the next."""
    due: float = UNDER_WAY
    looked_at: float = -math.inf
    outcome: object = None


class AdaptivePoller(Generic[K]):
    """Keys and when they are due. Each is under way from `take_due` to `settle`."""

    def __init__(self) -> None:
        self.entries: dict[K, Entry] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._pushes = 0

    def want(self, key: K, now: float, shortest: float) -> None:
        """Somebody wants to know: at once, or `shortest` after the last look."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(shortest)
            self._set_due(key, now)
        entry.wait = shortest
        if entry.due < UNDER_WAY:
            soonest = max(now, entry.looked_at + shortest)
            self._set_due(key, min(soonest, entry.due))

    def hurry(self, now: float, key: K) -> None:
        """It is due at once, unless a look is under way."""
        entry = self.entries.get(key)
        if entry is not None and entry.due < UNDER_WAY:
            self._set_due(key, min(now, entry.due))

    def take_due(
        self,
        now: float,
        is_wanted: Callable[[K], bool] = lambda _: True,
        *,
        slack: float = 0.0,
        most: float = math.inf,
    ) -> Iterator[K]:
        """At `most` so many keys to look at now, longest due first, with what is due
        within `slack` of the first; unwanted ones are forgotten."""
        first = self.next_at()
        until = now if first is None or first > now else now + slack
        while most > 0 and first is not None and first <= until:
            key = heapq.heappop(self._heap)[2]
            if is_wanted(key):
                self.entries[key].due = UNDER_WAY
                most -= 1
                yield key
            else:
                del self.entries[key]
            first = self.next_at()

    def is_news(self, key: K, outcome: object) -> bool:
        """Whether a look shows something else than the one before it."""
        entry = self.entries.get(key)
        if entry is None:
            return False
        old, entry.outcome = entry.outcome, outcome
        return entry.looked_at == -math.inf or old != outcome

    def settle(
        self,
        key: K,
        now: float,
        *,
        changed: bool,
        shortest: float,
        longest: float,
        factor: float = BACKOFF,
    ) -> None:
        """A look is over: the next one comes `shortest` to `longest` seconds later."""
        entry = self.entries.get(key)
        if entry is not None:
            slower = max(shortest, min(entry.wait * factor, longest))
            entry.wait = shortest if changed else slower
            entry.looked_at = now
            self._set_due(key, now + entry.wait)

    def next_at(self) -> float | None:
        """When the next key is due; None: none is, until an answer comes."""
        while self._heap:
            due, _, key = self._heap[0]
            entry = self.entries.get(key)
            if entry is not None and entry.due == due:
                return due
            heapq.heappop(self._heap)
        return None

    def _set_due(self, key: K, due: float) -> None:
        entry = self.entries[key]
        if due != entry.due:
            entry.due = due
            self._pushes += 1
            heapq.heappush(self._heap, (due, self._pushes, key))


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


class LogPoller:
    """Reads logs by mount point. Used by the engine's thread, but for `wake`."""

    def __init__(
        self,
        state: SessionState,
        ephemeral: EphemeralState,
        telemetry: Telemetry,
        runs: RunReports,
        attempt_dir: Callable[[str, int], Path],
        workers: MountWorkers[LogCursor, LogRead],
    ) -> None:
        self._state = state
        self._ephemeral = ephemeral
        self._telemetry = telemetry
        self._runs = runs
        self._attempt_dir = attempt_dir
        self._workers = workers
        self._shortest = 1.0
        """Seconds between two looks at a file that grows."""
        self._forget_all()

    def _forget_all(self) -> None:
        self._schedule: AdaptivePoller[Stream] = AdaptivePoller()
        self._to_reread: dict[Stream, None] = {}
        self._watched: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Job -> its log, and which of its files are watched."""
        self.moved: set[str] = set()
        """Jobs of which other files may have to be watched than are."""
        self._paths: dict[str, Stream] = {}
        """What was looked at, by its path."""
        self._woken: deque[Stream] = deque()

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first, for their curves."""
        self._forget_all()
        ended = [job for job in self._state.jobs.values() if job.ended]
        ended.sort(key=lambda job: job.since, reverse=True)
        self._to_reread = {
            (job.name, source): None
            for job in [job for job in ended if _find_log(job)][:MOST_REREAD]
            for source in self._telemetry.find_run(job).sources
        }
        self.moved.update(self._ephemeral.roster.active)
        self._runs.drained.clear()

    def wake(self, paths: Iterable[str]) -> bool:
        """Some files changed: whether one of them is looked at sooner for it."""
        known = {self._paths.get(path, ("", "")) for path in paths}
        slow, entries = self._shortest * BACKOFF, self._schedule.entries
        woken = [
            one for one in known if (entry := entries.get(one)) and entry.wait > slow
        ]
        self._woken.extend(sorted(woken))
        return bool(woken)

    def note(self, got: seen.LogsRead, now: float) -> None:
        """Learn from answers when to look again. `now`: monotonic seconds."""
        for read in got.reads:
            stream, chunk = (read.job, read.source), read.chunk
            shortest, longest = self._find_waits(read.job, read.source)
            self._schedule.settle(
                stream,
                now,
                changed=chunk is not None,
                shortest=shortest,
                longest=longest,
            )
            if chunk is not None and chunk.offset + len(chunk.data) < chunk.size:
                self._schedule.hurry(now, stream)
            if read.found is not None:
                self.moved.add(read.job)
            if chunk is None and stream in self._to_reread:
                del self._to_reread[stream]
                files = ((read.job, one.path) for one in read.found or ())
                self._to_reread |= dict.fromkeys(files)
        for stream in [*self._to_reread]:
            if not self._state.jobs[stream[0]].ended:
                del self._to_reread[stream]

    def _find_waits(self, job: str, source: str) -> tuple[float, float]:
        """Seconds between two looks at a file: while it grows, and at most."""
        if source == GPU:
            return GPU_SECONDS
        if source:
            return self._shortest, SLOWEST_SECONDS
        longest = SLOWEST_SECONDS
        if run := self._telemetry.runs.get(job):
            patience = min(run.watch.shortest, run.rules.stall_after_seconds)
            longest = min(patience * PATIENCE_SHARE, longest)
        return self._shortest, longest

    def look(self, now: float, t: float, poll_seconds: float) -> None:
        """Read what is due; `now` is monotonic, `t` the same moment."""
        if self.moved:
            self._watch_moved(now)
        often = min(len(self._watched) / BUSY_JOBS, BUSIEST_SECONDS)
        self._shortest = max(poll_seconds, often)
        while self._woken:
            stream = self._woken.popleft()
            if stream in self._schedule.entries:
                self._schedule.want(stream, now, self._find_waits(*stream)[0])
        slack = poll_seconds * SLACK
        due = list(self._schedule.take_due(now, slack=slack, most=MOST_AT_ONCE))
        last: list[Stream] = []
        if self._runs.ending:
            last += self._runs.list_undrained(self._state.jobs)
        old = islice(self._to_reread, REREAD_AT_ONCE)
        last += [one for one in old if self._state.jobs[one[0]].ended]
        last = [stream for stream in last if not self._workers.holds(stream)]
        if streams := dict.fromkeys((*last, *due)):
            cursors = [(one, self._make_cursor(one)) for one in streams]
            self._paths.update((cursor.path, one) for one, cursor in cursors)
            self._workers.send((one, cursor.path, cursor) for one, cursor in cursors)
        self._workers.tend(now, t)

    def next_at(self, now: float) -> float | None:
        """When the next log is to be read; an answer that is still out wakes us."""
        return now if self._woken or self.moved else self._schedule.next_at()

    def _watch_moved(self, now: float) -> None:
        """Watch the files that there are now of the jobs that moved, and no others."""
        active = self._ephemeral.roster.active
        for name in sorted(self.moved):
            job = self._state.jobs.get(name)
            log = _find_log(job) if job is not None and name in active else ""
            sources: tuple[str, ...] = ()
            if job is not None and log:  # nothing is watched before there is one
                sources = (*self._telemetry.find_run(job).sources, GPU)
            old_log, old = self._watched.pop(name, ("", ()))
            for source in old:
                if log != old_log or source not in sources:
                    self._schedule.entries.pop((name, source), None)
            if sources:
                self._watched[name] = (log, sources)
            for source in sources:
                if log != old_log or source not in old:
                    shortest, _ = self._find_waits(name, source)
                    self._schedule.want((name, source), now, shortest)
        self.moved.clear()

    def _make_cursor(self, stream: Stream) -> LogCursor:
        name, source = stream
        job = self._state.jobs[name]
        final = job.ended or (name, len(job.attempts)) in self._runs.ending
        cursor = self._telemetry.make_cursor(job, source, final=final)
        if source not in (SEARCH, GPU):
            return cursor
        present = str(self._attempt_dir(name, cursor.attempt))
        if source == GPU:
            return replace(cursor, path=f"{present}/{GPU_FILE}")
        patterns = self._telemetry.find_run(job).patterns
        search = Search(patterns, str(self._attempt_dir(name, 1)), present)
        return replace(cursor, search=search, path=patterns[0])


def _find_log(job: JobRecord) -> str:
    """The newest attempt's log, empty when there is none yet."""
    return job.attempt.log_path if job.attempt else ""


def read_logs(source: LogSource, items: Sequence[LogCursor]) -> Iterator[LogRead]:
    """Look at logs one by one, in their order, up to `LOOK_BYTES` and `LOOK_WORK`."""
    room, work = LOOK_BYTES, LOOK_WORK
    for at in items:
        if room <= 0 or work <= 0:
            return
        chunk, tail, problem = None, "", ""
        found: tuple[FoundFile, ...] | None = None
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
