"""What to look at outside, and when: the executor, logs, facts, the inbox, the lease.

Looks only; what they show comes back as observations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from autoexp_tui.engine import ended_runs
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import Volatile
from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.file_poller import SLOWEST_SECONDS, Pacing, Stream
from autoexp_tui.engine.log_poller import GPU, SEARCH, LogCursor, Search
from autoexp_tui.engine.observation_handlers import Intake
from autoexp_tui.engine.poller import Lookout
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model import observations as seen
from autoexp_tui.model.observations import Observation
from autoexp_tui.model.state import Attempt, JobRecord, SessionState
from autoexp_tui.model.states import Outcome

REREAD_AT_ONCE = 8
GPU_FILE = "gpu.jsonl"
"""In an attempt's directory, by the wrapper."""
GPU_SECONDS = 15.0
"""Between two looks for samples of GPUs, of which there is one every half minute."""
SLOWEST_GPU_SECONDS = 60.0
PATIENCE_SHARE = 0.1
"""Of the time that the least patient rule over silence waits: the longest between two
looks at a quiet log."""


class Rounds:
    """Sends the lookout wherever a look is due."""

    def __init__(
        self,
        state: SessionState,
        volatile: Volatile,
        lookout: Lookout,
        dispatcher: Dispatcher,
        telemetry: Telemetry,
        intake: Intake,
    ) -> None:
        self._state = state
        self._volatile = volatile
        self._lookout = lookout
        self._dispatcher = dispatcher
        self._telemetry = telemetry
        self._intake = intake
        self._to_reread: dict[Stream, None] = {}
        self._pacing = Pacing()
        self._watched: dict[str, tuple[str, ...]] = {}
        """Job -> which of its files are watched."""
        self._moved: set[str] = set()
        """Jobs of which other files may have to be watched than are."""
        self._logs_at: float | None = None
        """When the next log is due; None: it has to be found out."""

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first: a former engine took
        their curves with it."""
        ended = [job for job in self._state.jobs.values() if job.ended and _log_of(job)]
        ended.sort(key=lambda job: job.since)
        self._to_reread = {}
        for job in ended[-ended_runs.MOST_WHOLE :]:
            self._read_again(job)
        self._pacing = Pacing()
        self._watched = {}
        self._moved = set(self._volatile.roster.active)
        self._logs_at = None
        self._intake.runs.drained.clear()

    def _read_again(self, job: JobRecord) -> None:
        """Before all others that are to be read again."""
        streams = ((job.name, source) for source in self._telemetry.sources(job))
        self._to_reread = dict.fromkeys(streams) | self._to_reread

    def open(self, names: Iterable[str]) -> None:
        """Somebody looks at these jobs: what was let go of is read again."""
        for name in names:
            job = self._state.jobs.get(name)
            known = job is None or self._telemetry.has_read(name)
            if job is not None and not known and job.ended and _log_of(job):
                self._read_again(job)
        self._telemetry.note_ends(names)
        self._logs_at = None

    def touch(self, jobs: Iterable[str]) -> None:
        """Something was decided of these jobs: other logs may be theirs."""
        moved = [name for name in jobs if name not in self._moved]
        if moved:
            self._moved.update(moved)
            self._logs_at = None

    def wake(self, paths: Iterable[str]) -> bool:
        """Some files changed: whether a look at them comes sooner for it.

        May be called from another thread.
        """
        woken = self._pacing.wake(paths)
        if woken:
            self._logs_at = None
        return woken

    def note(self, observation: Observation, now: float) -> None:
        """Learn from a look at logs when to look again. `now`: monotonic seconds."""
        if isinstance(observation, seen.JobsOpened):
            self.open(observation.jobs)
        if isinstance(observation, seen.LogsRead | seen.Polled):
            self._logs_at = None  # other logs, or other times
        if not isinstance(observation, seen.LogsRead):
            return
        self._note_reread(observation)
        pacing, often = self._pacing, self._poll_seconds()
        for read in observation.reads:
            chunk, poll = read.chunk, GPU_SECONDS if read.source == GPU else often
            if chunk is None:
                pacing.quiet(read.stream, poll, self._slowest(read))
            else:
                more = chunk.offset + len(chunk.data) < chunk.size
                pacing.grew(read.stream, now, poll, more=more)
            if read.found is not None:
                self._moved.add(read.job)
        for stream in observation.left:
            pacing.hurry(stream, now)

    def _slowest(self, read: seen.LogRead) -> float:
        if read.source == GPU:
            return SLOWEST_GPU_SECONDS
        if read.source:
            return SLOWEST_SECONDS
        patience = self._telemetry.patience(read.job) * PATIENCE_SHARE
        return min(patience, SLOWEST_SECONDS)

    def _note_reread(self, observation: seen.LogsRead) -> None:
        """Forget logs that were read to their end, and those of jobs revived since."""
        if not self._to_reread:
            return
        jobs = self._state.jobs
        for read in observation.reads:
            if read.stream in self._to_reread and read.chunk is None:
                del self._to_reread[read.stream]
                files = ((read.job, one.path) for one in read.found or ())
                self._to_reread |= dict.fromkeys(files)
        for stream in [one for one in self._to_reread if not jobs[one[0]].ended]:
            del self._to_reread[stream]

    def look(self, now: float, t: float) -> None:
        """Every look that is due; `now` is monotonic, `t` the same moment."""
        lookout, poll_seconds = self._lookout, self._poll_seconds()
        if lookout.is_due("inbox", now):
            lookout.inbox(now)  # before logs, whose answer takes a commit's time
        if lookout.is_due("executor", now):
            tasks = self._open_tasks()
            if tasks:
                lookout.poll(tasks, now)
        watch = self._volatile.watch
        self._intake.forget(watch.take_dropped())
        lookout.outside(watch, now, t, poll_seconds)
        if self._logs_at is None or self._logs_at <= now:
            lookout.logs(self._due_cursors(now), now, t)
            self._logs_at = self._next_log(now)
        if lookout.is_due("heartbeat", now):
            lookout.heartbeat(now)

    def next_at(self, now: float) -> list[float]:
        """When something is to be looked at or sent again, monotonic."""
        kinds = ["inbox", "heartbeat"]
        kinds += ["executor"] if self._volatile.roster.active else []
        times = [
            self._lookout.next_at(kinds, now),
            self._lookout.facts.next_at(),
            now if self._logs_at is None else self._logs_at,
            self._dispatcher.next_at(self._state),
        ]
        return [at for at in times if at is not None]

    def _poll_seconds(self) -> float:
        plan = self._state.plan
        return plan.monitoring.poll_seconds if plan else 1.0

    def _open_tasks(self) -> list[Task]:
        roster = self._volatile.roster
        return [
            self._dispatcher.task(job, attempt.number)
            for job in self._named([*sorted(roster.active), *sorted(roster.lost)])
            for attempt in job.attempts[-1:]
            if attempt.outcome in (None, Outcome.LOST) and _is_known(attempt)
        ]

    # ----------------------------------------------------------------------- logs
    def _next_log(self, now: float) -> float:
        """When the next log is to be read; an answer that is still out wakes us."""
        if self._hurried():
            return now
        at = self._pacing.next_at(now)
        return math.inf if at is None else at

    def _due_cursors(self, now: float) -> list[LogCursor]:
        """Of the logs of what runs, those whose time has come; the ends of what ended
        at once."""
        poll, reads = self._poll_seconds(), self._lookout.log_rounds.reads
        self._rewatch(now)
        streams = dict.fromkeys(self._hurried())
        streams |= dict.fromkeys(self._pacing.due(now, poll, reads))
        cursors = [self._cursor(stream) for stream in streams]
        for cursor in cursors:
            wait = GPU_SECONDS if cursor.source == GPU else poll
            self._pacing.asked(cursor.stream, cursor.path, now, wait)
        return cursors

    def _rewatch(self, now: float) -> None:
        """Watch the files that there are now of the jobs that moved, and no others."""
        for name in sorted(self._moved):
            sources, before = self._sources(name), self._watched.get(name, ())
            for source in before:
                if source not in sources:
                    self._pacing.forget((name, source))
            for source in sources:
                self._pacing.watch((name, source), now)
            if sources:
                self._watched[name] = sources
            else:
                self._watched.pop(name, None)
        self._moved.clear()

    def _sources(self, name: str) -> tuple[str, ...]:
        """What is to be watched of a job: nothing unless it runs, and has a log."""
        job = self._state.jobs.get(name)
        runs = job is not None and name in self._volatile.roster.active
        if job is None or not runs or not _log_of(job):
            return ()
        return (*self._telemetry.sources(job), GPU)

    def _cursor(self, stream: Stream) -> LogCursor:
        name, source = stream
        job = self._state.jobs[name]
        final = job.ended or self._is_ending(job)
        cursor = self._telemetry.cursor(job, source, final=final)
        if source not in (SEARCH, GPU):
            return cursor
        place = self._dispatcher.outside.attempt_dir
        present = str(place(name, cursor.attempt))
        if source == GPU:
            return replace(cursor, path=f"{present}/{GPU_FILE}")
        patterns = self._telemetry.patterns(job)
        search = Search(patterns, str(place(name, 1)), present)
        return replace(cursor, search=search, path=patterns[0])

    def _hurried(self) -> list[Stream]:
        """What is to be read to its end now."""
        jobs, reads = self._state.jobs, self._lookout.log_rounds.reads
        old = islice(self._to_reread, REREAD_AT_ONCE)
        streams = [
            *self._intake.runs.undrained(jobs),
            *(one for one in old if jobs[one[0]].ended),
        ]
        return [stream for stream in streams if not reads(stream)]

    def _is_ending(self, job: JobRecord) -> bool:
        attempt = job.attempt
        return (
            attempt is not None
            and (job.name, attempt.number) in self._intake.runs.ending
        )

    def _named(self, names: Iterable[str]) -> list[JobRecord]:
        return [self._state.jobs[name] for name in names]


def _log_of(job: JobRecord) -> str:
    """The newest attempt's log, empty when there is none yet."""
    return job.attempt.log_path if job.attempt else ""


def _is_known(attempt: Attempt) -> bool:
    """Whether the executor answered for it: before that, its absence says nothing."""
    return attempt.submitted_at is not None or attempt.run >= 0
