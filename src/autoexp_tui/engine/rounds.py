"""What to look at outside, and when: the executor, logs, facts, the inbox, the lease.

Looks only; what they show comes back as observations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from autoexp_tui.core.state import Attempt, JobRecord, SessionState
from autoexp_tui.core.states import Outcome
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.intake import Intake
from autoexp_tui.engine.log_rounds import LogCursor
from autoexp_tui.engine.lookout import Lookout
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.pacing import SLOWEST_SECONDS, Pacing, Stream
from autoexp_tui.engine.ports import Task
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.engine.volatile import Volatile

REREAD_JOBS = 500
"""Ended jobs whose logs are read again for their curves when a session is taken up."""
REREAD_AT_ONCE = 8
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
        self._to_reread: dict[str, None] = {}
        self._pacing = Pacing()
        self._logs_at: float | None = None
        """When the next log is due; None: it has to be found out."""

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first: a former engine took
        their curves with it."""
        ended = [job for job in self._state.jobs.values() if job.ended and _log_of(job)]
        ended.sort(key=lambda job: job.since, reverse=True)
        self._to_reread = dict.fromkeys(job.name for job in ended[:REREAD_JOBS])
        self._pacing = Pacing()
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
        if isinstance(observation, seen.LogsRead | seen.Polled):
            self._logs_at = None  # other logs, or other times
        if not isinstance(observation, seen.LogsRead):
            return
        self._note_reread(observation)
        poll, pacing = self._poll_seconds(), self._pacing
        for read in observation.reads:
            chunk = read.chunk
            if chunk is None:
                patience = self._telemetry.patience(read.job) * PATIENCE_SHARE
                slowest = min(patience, SLOWEST_SECONDS)
                pacing.quiet((read.job, ""), poll, slowest)
            else:
                more = chunk.offset + len(chunk.data) < chunk.size
                pacing.grew((read.job, ""), now, poll, more=more)
        for job in observation.left:
            pacing.hurry((job, ""), now)
        pacing.keep(self._named_with_logs())

    def _note_reread(self, observation: seen.LogsRead) -> None:
        """Forget logs that were read to their end, and those of jobs revived since."""
        if not self._to_reread:
            return
        jobs = self._state.jobs
        done = {read.job for read in observation.reads if read.chunk is None}
        done |= {name for name in self._to_reread if not jobs[name].ended}
        for name in done:
            self._to_reread.pop(name, None)

    def look(self, now: float, utc: float) -> None:
        """Every look that is due; `now` is monotonic, `utc` the same moment."""
        lookout, poll_seconds = self._lookout, self._poll_seconds()
        if lookout.is_due("executor", now):
            tasks = self._open_tasks()
            if tasks:
                lookout.poll(tasks, now)
        watch = self._volatile.watch
        self._intake.forget(watch.take_dropped())
        lookout.outside(watch, now, utc, poll_seconds)
        if self._logs_at is None or self._logs_at <= now:
            lookout.logs(self._due_cursors(now), now, utc)
            self._logs_at = self._next_log(now)
        if lookout.is_due("inbox", now):
            lookout.inbox(now)
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
        at = self._pacing.next_at(self._streams(), now)
        return math.inf if at is None else at

    def _due_cursors(self, now: float) -> list[LogCursor]:
        """Of the logs of what runs, those whose time has come; the ends of what ended
        at once."""
        poll = self._poll_seconds()
        names = dict.fromkeys(self._hurried())
        for job, _ in self._pacing.due(self._streams(), now, poll):
            names.setdefault(job)
        cursors = [self._cursor(name) for name in names]
        for cursor in cursors:
            self._pacing.asked((cursor.job, ""), cursor.path, now, poll)
        return cursors

    def _cursor(self, name: str) -> LogCursor:
        job = self._state.jobs[name]
        return self._telemetry.cursor(job, final=job.ended or self._is_ending(job))

    def _hurried(self) -> list[str]:
        """Jobs whose logs are to be read to their end now."""
        jobs = self._state.jobs
        ending = [name for name, _ in self._intake.ending if _log_of(jobs[name])]
        old = islice(self._to_reread, REREAD_AT_ONCE)
        names = [*sorted(set(ending)), *(name for name in old if jobs[name].ended)]
        return [
            name for name in names if not self._lookout.log_rounds.reads((name, ""))
        ]

    def _streams(self) -> Iterator[Stream]:
        """What may be looked at: it is not being looked at already."""
        reads = self._lookout.log_rounds.reads
        streams = ((name, "") for name in self._named_with_logs())
        return (stream for stream in streams if not reads(stream))

    def _named_with_logs(self) -> Iterator[str]:
        jobs = self._state.jobs
        return (n for n in self._volatile.roster.active if _log_of(jobs[n]))

    def _is_ending(self, job: JobRecord) -> bool:
        attempt = job.attempt
        return attempt is not None and (job.name, attempt.number) in self._intake.ending

    def _named(self, names: Iterable[str]) -> list[JobRecord]:
        return [self._state.jobs[name] for name in names]


def _log_of(job: JobRecord) -> str:
    """The newest attempt's log, empty when there is none yet."""
    return job.attempt.log_path if job.attempt else ""


def _is_known(attempt: Attempt) -> bool:
    """Whether the executor answered for it: before that, its absence says nothing."""
    return attempt.submitted_at is not None or attempt.run >= 0
