"""What polls and logs say of runs: they wait, begin, end, and are read to the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import report_reducer as judge
from autoexp_tui.engine.executor_port import TaskPhase, TaskReport
from autoexp_tui.engine.health import Health
from autoexp_tui.engine.log_troubles import LogTroubles
from autoexp_tui.engine.reading_ports import LOG
from autoexp_tui.engine.submission_answers import order_again
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.facts import Fact, LogKey, OutsideKey
from autoexp_tui.model.snapshot import InQueue
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, Why, why
from autoexp_tui.model.wording import CAUSES
from autoexp_tui.scheduling.circuit_breaker import end_attempt
from autoexp_tui.text.log_lines import find_error_line, find_nan_line
from autoexp_tui.text.sanitize import clean

_WORDS = 300
"""Characters of what was done to records."""
DRAIN_SECONDS: Final = 30.0
"""For which the log of a run that ended is read on, and again for which its tail is."""
TAIL_READ = 64 << 20
"""Bytes at its end that are read of a log too long to be read after its run's end."""
LAST_READ = 64 << 10
"""The same where even those take too long."""
TOLD_SECONDS: Final = 5.0
"""For which only the tail is read where somebody ordered the end."""


@dataclass(slots=True)
class RunReports:
    """Holds what must be kept between two answers: ends whose log is still read."""

    telemetry: Telemetry
    health: Health
    outside: dict[OutsideKey, Fact]
    lost_after_seconds: Callable[[], float]
    ending: dict[TaskId, TaskReport] = field(default_factory=dict)
    drained: dict[TaskId, dict[str, seen.LogRead]] = field(default_factory=dict)
    """Of those, the sources that were read to their end."""
    draining: dict[TaskId, float] = field(default_factory=dict)
    """Of those, when (lived) the reading of the rest of the log began."""
    troubles: LogTroubles = field(default_factory=LogTroubles)
    warned: set[str] = field(default_factory=set)
    """Warnings about attempts that were raised once; who dismissed one knows."""

    def polled(self, context: DecisionContext, got: seen.Polled) -> None:
        """One look at the executor: runs begin, wait and end."""
        self.health.calls += got.answer.calls
        self.health.error = got.answer.error
        if got.answer.age < context.now.t:
            self.health.answered_at = context.now.t - got.answer.age
        for report in got.answer.reports:
            if report.job in context.state.jobs:
                self._report(context, report)
        for report in got.answer.late:
            if report.job in context.state.jobs:
                self._warn(context, report)

    def _report(self, context: DecisionContext, report: TaskReport) -> None:
        self._warn(context, report)
        began = judge.run_began(context.job(report.job), report)
        if began is not None and self._may_begin(context.job(report.job), began):
            self.telemetry.end_run(context, report.job)
            context.draft.emit(began)
            self._forget_logs(context.job(report.job))
        requeued = judge.requeued(context.job(report.job), report)
        if requeued is not None:
            context.draft.emit(requeued)
        stopped = judge.suspended_or_resumed(context.job(report.job), report)
        if stopped is not None:
            context.draft.emit(stopped)
            self.telemetry.blind(report.job)  # its clocks stood still, and begin anew
        self._note_queue(context, report)
        self._note_stuck(context, report)
        job = context.job(report.job)
        if judge.is_forgotten(job, report, self.lost_after_seconds()):
            self._send_again(context, job, report)
        elif judge.has_ended(job, report, self.lost_after_seconds()):
            self._note_end(context, job, report)

    def _warn(self, context: DecisionContext, report: TaskReport) -> None:
        """Raise what a person should know of the attempt's records and its end."""
        if report.tampering and report.exited is not None:
            what = clean(report.tampering, limit=_WORDS)
            self._raise(context, report, why("records_changed", what=what))
        if report.late_cause is not None:
            cause, name = CAUSES[report.late_cause], context.policy.place
            reason = why("late_cause", cause=cause, executor=name)
            self._raise(context, report, reason)

    def _raise(self, context: DecisionContext, report: TaskReport, reason: Why) -> None:
        warning_id = "r" + ids.digest(report.job, report.attempt, reason.code)
        if warning_id in self.warned or warning_id in context.state.warnings:
            return
        self.warned.add(warning_id)
        context.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=report.job)
        )

    @staticmethod
    def _send_again(
        context: DecisionContext, job: JobRecord, report: TaskReport
    ) -> None:
        reason = why("forgotten", id=report.executor_id, seconds=report.gone_for)
        order_again(context, ((job.name, report.attempt),), reason)

    def _forget_logs(self, job: JobRecord) -> None:
        """What was found in an earlier run's log says nothing of this run."""
        place = job.spec.log_dir + "/"
        for key in list(self.outside):
            if isinstance(key, LogKey) and key.path.startswith(place):
                del self.outside[key]

    def _note_queue(self, context: DecisionContext, report: TaskReport) -> None:
        queue = _in_queue(report)
        if queue == self.health.queue.get(report.job):
            return
        context.reworded.add(report.job)
        if queue is None:
            self.health.queue.pop(report.job)
        else:
            self.health.queue[report.job] = queue

    @staticmethod
    def _note_stuck(context: DecisionContext, report: TaskReport) -> None:
        """Warn of what will not start unless a person acts, for as long as that is."""
        warning_id = "q" + ids.digest(report.job, report.attempt, "stuck")
        stands = warning_id in context.state.warnings
        if report.stuck and not stands:
            reason = why("stuck_in_queue", reason=report.reason)
            raised = events.WarningRaised(
                warning_id=warning_id, why=reason, job=report.job, severity="error"
            )
            context.draft.emit(raised)
        elif stands and not report.stuck:
            context.draft.emit(events.WarningCleared(warning_id=warning_id))

    @staticmethod
    def _may_begin(job: JobRecord, began: events.RunBegan) -> bool:
        newest = job.attempt
        return newest is not None and newest.number == began.attempt

    def _note_end(
        self, context: DecisionContext, job: JobRecord, report: TaskReport
    ) -> None:
        """End the attempt now, or once the rest of its log has been read."""
        attempt = judge.attempt_of(job, report.attempt)
        if attempt is not None and attempt.log_path and not job.ended:
            self.ending[report.job, report.attempt] = report
        else:
            end_attempt(context, judge.attempt_ended(job, report, context.now.utc))

    def logs_read(self, context: DecisionContext, got: seen.LogsRead) -> list[str]:
        """New bytes of logs, or their ends; returns jobs to judge."""
        touched: list[str] = []
        for read in got.reads:
            if read.job not in context.state.jobs:
                continue
            touched += self._log_read(context, read)
            last = read.final and read.chunk is None
            if last and self.troubles.is_last_word(read, context.now.lived):
                self._drained(context, read)
        return touched

    def _log_read(self, context: DecisionContext, read: seen.LogRead) -> list[str]:
        self.troubles.note(context, read)
        if read.source:
            return self.telemetry.digest_file(context, read)
        self.telemetry.looked(context, read)
        if read.chunk is None:
            return []
        touched = self.telemetry.digest(context, read.chunk)
        if read.final:
            tail = self._bytes_left(context, read)
            self.telemetry.skip_to_tail(context, read.chunk, tail)
        return touched

    def _bytes_left(self, context: DecisionContext, read: seen.LogRead) -> float:
        """How many bytes of a log an end still waits for.

        Who ordered the end waits for its tail alone, and not long for that.
        """
        task, lived = (read.job, read.attempt), context.now.lived
        attempt = judge.attempt_of(context.job(read.job), read.attempt)
        if task not in self.ending or attempt is None:
            return math.inf
        waited = lived - self.draining.setdefault(task, lived)
        whole, tail = (
            (0.0, TOLD_SECONDS) if attempt.told_to_end else (DRAIN_SECONDS,) * 2
        )
        if waited >= whole + tail:
            return LAST_READ
        return TAIL_READ if waited >= whole else math.inf

    def undrained(self, jobs: Mapping[str, JobRecord]) -> Iterator[tuple[str, str]]:
        """(job, source) of what is still to be read of runs that ended."""
        for name, number in sorted(self.ending):
            drained = self.drained.get((name, number), {})
            for source in self.telemetry.sources(jobs[name]):
                if source not in drained and not self.troubles.holds((name, source)):
                    yield name, source

    def _drained(self, context: DecisionContext, read: seen.LogRead) -> None:
        """A source was read to its end; the last one of an ended run settles it."""
        task = (read.job, read.attempt)
        if task not in self.ending:
            return
        drained = self.drained.setdefault(task, {})
        drained[read.source] = read
        if drained.keys() >= {*self.telemetry.sources(context.job(read.job))}:
            self._finish(context, self.drained.pop(task)[LOG])

    def _finish(self, context: DecisionContext, read: seen.LogRead) -> None:
        """All that an ended run wrote has been read to its end: judge the attempt."""
        report = self.ending.pop((read.job, read.attempt))
        self.draining.pop((read.job, read.attempt), None)
        self.troubles.forget(context, read.job)
        self.telemetry.close(context, read.job)
        job = context.job(read.job)
        evidence = _evidence(job, read)
        utc = context.now.utc
        ended = judge.attempt_ended(job, report, utc, evidence, read.tail)
        reached = self.telemetry.reached(read.job, read.attempt)
        end_attempt(context, replace(ended, reached=reached))


def _in_queue(report: TaskReport) -> InQueue | None:
    """What a report says of the task's wait; None when it does not wait."""
    if report.phase is TaskPhase.RUNNING:
        return None
    if not report.reason and not report.partition and report.expected_at is None:
        return None
    leaving = report.phase in (TaskPhase.LEAVING, TaskPhase.ENDED)
    return InQueue(report.reason, report.expected_at, report.partition, leaving)


def _evidence(job: JobRecord, read: seen.LogRead) -> str:
    """The line of the log that tells most about why the attempt ended."""
    if read.problem:
        return f"its log could not be read: {read.problem}"
    attempt = judge.attempt_of(job, read.attempt)
    if attempt is not None and attempt.cancel_cause is Cause.NAN:
        return find_nan_line(read.tail) or find_error_line(read.tail)
    return find_error_line(read.tail)
