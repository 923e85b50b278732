"""Which logs and files of metrics are read when: those of what runs, and last words.

A file that said nothing new waits longer for its next look; one that grew, or that
somebody saw change, is read with the next poll; where very many grow, a little later.
What is left of ended runs is read at once. Only `wake` may be called from another
thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.adaptive_poller import BACKOFF, AdaptivePoller
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.mount_workers import MountWorkers, Probe
from autoexp_tui.engine.observations import LogRead, Observation
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
from autoexp_tui.model.facts import Silence
from autoexp_tui.model.state import JobRecord, SessionState

LOOK_BYTES: Final = 4 << 20
"""Bytes of all logs at a look, so that one commit stays short."""
TAIL_BYTES: Final = 8192
"""Bytes of a log's end that evidence is taken from."""
REREAD_AT_ONCE: Final = 8
MOST_REREAD: Final = 500
"""Ended jobs whose logs a new engine reads again unasked: the newest."""
GPU_FILE: Final = "gpu.jsonl"
"""In an attempt's directory, by the wrapper."""
GPU_SECONDS: Final = 15.0
"""Between two looks for samples of GPUs, of which there is one every half minute."""
SLOWEST_GPU_SECONDS: Final = 60.0
SLOWEST_SECONDS: Final = 15.0
"""Between two looks at a quiet file, at most."""
PATIENCE_SHARE: Final = 0.1
"""Of the time that the least patient rule over silence waits: the longest between two
looks at a quiet log."""
SLACK: Final = 0.25
"""Of a poll: files due so soon after the first are looked at with it."""
MOST_AT_ONCE: Final = 250
"""Files that are sent with one commit: the commit that reads them stays short."""
BUSY_LOOKS: Final = 500
"""Looks a second that growing files cost together, at most and about ..."""
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
        self._forget_all()

    def _forget_all(self) -> None:
        self._schedule: AdaptivePoller[Stream] = AdaptivePoller()
        self._to_reread: dict[Stream, None] = {}
        self._watched: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Job -> its log, and which of its files are watched."""
        self._moved: set[str] = set()
        """Jobs of which other files may have to be watched than are."""
        self._growing: set[Stream] = set()
        """What grew at its last look."""
        self._paths: dict[str, Stream] = {}
        """What was looked at, by its path."""
        self._woken: deque[Stream] = deque()

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first: a former engine took
        their curves with it."""
        self._forget_all()
        ended = [
            job for job in self._state.jobs.values() if job.ended and _find_log(job)
        ]
        ended.sort(key=lambda job: job.since)
        for job in ended[-MOST_REREAD:]:
            self._read_again(job)
        self._moved.update(self._ephemeral.roster.active)
        self._runs.drained.clear()

    def _read_again(self, job: JobRecord) -> None:
        """Before all others that are to be read again."""
        streams = ((job.name, source) for source in self._telemetry.list_sources(job))
        self._to_reread = dict.fromkeys(streams) | self._to_reread

    def open(self, names: Iterable[str]) -> None:
        """Somebody looks at these jobs: what a former engine has read is read again."""
        for name in names:
            job = self._state.jobs.get(name)
            known = job is None or self._telemetry.has_read(name)
            if job is not None and not known and job.ended and _find_log(job):
                self._read_again(job)

    def touch(self, jobs: Iterable[str]) -> None:
        """Something was decided of these jobs: other logs may be theirs."""
        self._moved.update(jobs)

    def wake(self, paths: Iterable[str]) -> bool:
        """Some files changed: whether one of them is looked at sooner for it.

        May be called from another thread.
        """
        slow = self._poll_seconds() * BACKOFF
        known = {self._paths.get(path, ("", "")) for path in paths} - self._growing
        woken = [one for one in known if self._schedule.wait_of(one) > slow]
        self._woken.extend(sorted(woken))
        return bool(woken)

    # ------------------------------------------------------------------------ answers
    def note(self, got: seen.LogsRead, now: float) -> None:
        """Learn from answers when to look again. `now`: monotonic seconds."""
        for read in got.reads:
            self._settle(read, now)
            if read.found is not None:
                self._moved.add(read.job)
            if read.stream in self._to_reread and read.chunk is None:
                del self._to_reread[read.stream]
                files = ((read.job, one.path) for one in read.found or ())
                self._to_reread |= dict.fromkeys(files)
        for stream in [one for one in self._to_reread if not self._has_ended(one)]:
            del self._to_reread[stream]

    def _settle(self, read: LogRead, now: float) -> None:
        stream, chunk = read.stream, read.chunk
        shortest = self._find_shortest_wait(read.source)
        if chunk is None:
            self._growing.discard(stream)
        elif read.job in self._watched:
            self._growing.add(stream)
            often = min(len(self._growing) / BUSY_LOOKS, BUSIEST_SECONDS)
            shortest = max(shortest, often)
        self._schedule.settle(
            stream,
            now,
            changed=chunk is not None,
            shortest=shortest,
            longest=self._find_longest_wait(read),
        )
        if chunk is not None and chunk.offset + len(chunk.data) < chunk.size:
            self._schedule.hurry(now, [stream])

    def _find_shortest_wait(self, source: str) -> float:
        return GPU_SECONDS if source == GPU else self._poll_seconds()

    def _find_longest_wait(self, read: LogRead) -> float:
        if read.source == GPU:
            return SLOWEST_GPU_SECONDS
        if read.source:
            return SLOWEST_SECONDS
        patience = self._telemetry.find_patience(read.job) * PATIENCE_SHARE
        return min(patience, SLOWEST_SECONDS)

    # -------------------------------------------------------------------------- looks
    def look(self, now: float, t: float) -> None:
        """Read what is due; `now` is monotonic, `t` the same moment."""
        poll = self._poll_seconds()
        self._watch_moved(now)
        while self._woken:
            stream = self._woken.popleft()
            if stream in self._schedule:
                self._schedule.want([stream], now, self._find_shortest_wait(stream[1]))
        due = self._schedule.take_due(now, slack=poll * SLACK, most=MOST_AT_ONCE)
        cursors = [
            self._make_cursor(one) for one in dict.fromkeys((*self._list_last(), *due))
        ]
        self._paths.update((cursor.path, cursor.stream) for cursor in cursors)
        self._workers.send(cursors)
        self._workers.tend(now, t)

    def next_at(self, now: float) -> float | None:
        """When the next log is to be read; an answer that is still out wakes us."""
        return now if self._woken or self._moved else self._schedule.next_at()

    def _poll_seconds(self) -> float:
        plan = self._state.plan
        return plan.monitoring.poll_seconds if plan else 1.0

    def _watch_moved(self, now: float) -> None:
        """Watch the files that there are now of the jobs that moved, and no others."""
        for name in sorted(self._moved):
            log, sources = self._find_sources(name)
            old_log, old = self._watched.pop(name, ("", ()))
            for source in old:
                if log != old_log or source not in sources:
                    self._forget((name, source))
            if sources:
                self._watched[name] = (log, sources)
            for source in sources:
                if log != old_log or source not in old:
                    shortest = self._find_shortest_wait(source)
                    self._schedule.want([(name, source)], now, shortest)
        self._moved.clear()

    def _forget(self, stream: Stream) -> None:
        self._schedule.forget(stream)
        self._growing.discard(stream)

    def _find_sources(self, name: str) -> tuple[str, tuple[str, ...]]:
        """What is to be watched of a job: nothing unless it runs, and has a log."""
        job = self._state.jobs.get(name)
        runs = job is not None and name in self._ephemeral.roster.active
        if job is None or not runs or not _find_log(job):
            return "", ()
        return _find_log(job), (*self._telemetry.list_sources(job), GPU)

    def _list_last(self) -> list[Stream]:
        """What is to be read to its end now."""
        old = islice(self._to_reread, REREAD_AT_ONCE)
        streams = [
            *self._runs.list_undrained(self._state.jobs),
            *(one for one in old if self._has_ended(one)),
        ]
        return [stream for stream in streams if not self._workers.holds(stream)]

    def _has_ended(self, stream: Stream) -> bool:
        return self._state.jobs[stream[0]].ended

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
        patterns = self._telemetry.list_patterns(job)
        search = Search(patterns, str(self._attempt_dir(name, 1)), present)
        return replace(cursor, search=search, path=patterns[0])


def _find_log(job: JobRecord) -> str:
    """The newest attempt's log, empty when there is none yet."""
    return job.attempt.log_path if job.attempt else ""


# ------------------------------------------------------------------------------ reading
@dataclass(frozen=True, slots=True)
class LogProbe(Probe[LogCursor, LogRead]):
    """How logs are looked at; those on a mount that is silent are waited for."""

    source: LogSource

    def key(self, item: LogCursor) -> Hashable:
        return item.stream

    def path(self, item: LogCursor) -> str:
        return item.path

    def read(self, items: Sequence[LogCursor]) -> Iterator[LogRead]:
        """One by one, in their order, up to `LOOK_BYTES` and `LOOK_WORK`."""
        room, work = LOOK_BYTES, LOOK_WORK
        for item in items:
            if room <= 0 or work <= 0:
                return
            read = self._read(item)
            size = len(read.chunk.data) if read.chunk else 0
            room, work = room - size, work - size * item.cost
            yield read

    def report(self, answers: Sequence[LogRead]) -> Observation:
        return seen.LogsRead(reads=tuple(answers))

    def report_silence(
        self, items: Sequence[LogCursor], silence: Silence, t: float
    ) -> None:
        return None

    def _read(self, at: LogCursor) -> LogRead:
        chunk, tail, problem = None, "", ""
        found: tuple[FoundFile, ...] | None = None
        try:
            if at.search is not None:
                found = tuple(self.source.find(at.search))
            else:
                chunk = self.source.read(at)
                if at.final and not at.source:
                    tail = self.source.tail(at.path, TAIL_BYTES)
        except OSError as error:
            chunk, problem = None, f"{at.path}: {format_os_reason(error)}"
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
