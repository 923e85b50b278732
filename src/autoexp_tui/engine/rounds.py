"""What to look at outside, and when: the executor, logs, facts, the inbox, the lease.

Looks only; what they show comes back as observations.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from autoexp_tui.core.state import Attempt, JobRecord, SessionState
from autoexp_tui.core.states import Outcome
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.intake import Intake
from autoexp_tui.engine.lookout import LogCursor, Lookout
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import Task
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.engine.volatile import Volatile

REREAD_JOBS = 500
"""Ended jobs whose logs are read again for their curves when a session is taken up."""
REREAD_AT_ONCE = 8


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

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first: a former engine took
        their curves with it."""
        ended = [job for job in self._state.jobs.values() if job.ended and _log_of(job)]
        ended.sort(key=lambda job: job.since, reverse=True)
        self._to_reread = dict.fromkeys(job.name for job in ended[:REREAD_JOBS])

    def note(self, observation: Observation) -> None:
        """Forget logs that were read to their end, and those of jobs revived since."""
        if not (self._to_reread and isinstance(observation, seen.LogsRead)):
            return
        jobs = self._state.jobs
        done = {read.job for read in observation.reads if read.chunk is None}
        done |= {name for name in self._to_reread if not jobs[name].ended}
        for name in done:
            self._to_reread.pop(name, None)

    def look(self, now: float) -> None:
        """Every look that is due."""
        lookout, poll_seconds = self._lookout, self._poll_seconds()
        if lookout.is_due("executor", now):
            tasks = self._open_tasks()
            if tasks:
                lookout.poll(tasks, now)
        if lookout.is_due("logs", now):
            cursors = self._cursors()
            if cursors:
                hurry = self._intake.ending or self._to_reread
                lookout.logs(cursors, now, 0.0 if hurry else poll_seconds)
        watch = self._volatile.watch
        if lookout.is_due("facts", now) or watch.take_new():
            lookout.facts(watch.outside(), now, poll_seconds)
        if lookout.is_due("inbox", now):
            lookout.inbox(now)
        if lookout.is_due("heartbeat", now):
            lookout.heartbeat(now)

    def next_at(self, now: float) -> list[float]:
        """When something is to be looked at or sent again, monotonic."""
        kinds = ["inbox", "heartbeat"]
        kinds += ["executor"] if self._volatile.roster.active else []
        kinds += ["logs"] if self._cursors() else []
        kinds += ["facts"] if any(True for _ in self._volatile.watch.outside()) else []
        times = [
            self._lookout.next_at(kinds, now),
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

    def _cursors(self) -> list[LogCursor]:
        running = self._named(sorted(self._volatile.roster.active))
        first = self._named(islice(self._to_reread, REREAD_AT_ONCE))
        old = [job for job in first if job.ended]
        return [
            self._telemetry.cursor(job, final=job.ended or self._is_ending(job))
            for job in (*running, *old)
            if _log_of(job)
        ]

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
