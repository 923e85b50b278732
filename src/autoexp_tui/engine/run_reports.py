"""What polls and logs say of runs: they wait, begin, end, and are read to the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from autoexp_tui.actions.orders import clear_warning, raise_warning
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import report_reducer
from autoexp_tui.engine.ephemeral_state import Health
from autoexp_tui.engine.executor_port import Executor, PollAnswer, TaskPhase, TaskReport
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import GPU, LOG, Stream
from autoexp_tui.engine.submission_answers import order_again
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.facts import Fact, LogKey, OutsideKey
from autoexp_tui.model.snapshot import InQueue
from autoexp_tui.model.specs import Place
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, Outcome, Why, why
from autoexp_tui.model.wording import CAUSES
from autoexp_tui.scheduling.circuit_breaker import end_attempt
from autoexp_tui.text.log_lines import find_error_line, find_nan_line
from autoexp_tui.text.sanitize import clean

_WORDS = 300
"""Characters of what was done to records."""
DRAIN_SECONDS: Final = 30.0
"""For which the log of a run that ended is read on, and again for which its tail is."""
TAIL_READ: Final = 64 << 20
"""Bytes at its end that are read of a log too long to be read after its run's end."""
LAST_READ: Final = 64 << 10
"""The same where even those take too long."""
ORDERED_SECONDS: Final = 5.0
"""For which only the tail is read where somebody ordered the end."""
WARN_SECONDS: Final = 60.0
"""After which a file that cannot be read is warned of."""
LAST_SECONDS: Final = 30.0
"""For which the end of a run waits for files that cannot be read."""


def _make_warning_id(stream: Stream) -> str:
    return "l" + ids.digest(*stream)


@dataclass(slots=True)
class RunReports:
    """Holds what must be kept between two answers: ends whose log is still read."""

    telemetry: Telemetry
    health: Health
    outside: dict[OutsideKey, Fact]
    find_executor: Callable[[Place], Executor]
    ending: dict[TaskId, TaskReport] = field(default_factory=dict)
    drained: dict[TaskId, dict[str, LogRead]] = field(default_factory=dict)
    """Of those, the sources that were read to their end."""
    draining: dict[TaskId, float] = field(default_factory=dict)
    """Of those, when (lived) the reading of the rest of the log began."""
    unread: dict[Stream, float] = field(default_factory=dict)
    """Files that cannot be read, and since when (lived)."""
    warned: set[str] = field(default_factory=set)
    """Warnings about attempts that were raised once; who dismissed one knows."""

    def note_poll(self, context: DecisionContext, got: PollAnswer) -> None:
        """One look at the executor: runs begin, wait and end."""
        self.health.errors[got.place] = got.error
        if got.place == "main" and got.age < context.now.t:
            self.health.answered_at = context.now.t - got.age
        for report in got.reports:
            if report.job in context.state.jobs:
                self._note_report(context, report)
        for report in got.late:
            if report.job in context.state.jobs:
                self._warn_of_records(context, report)

    def _note_report(self, context: DecisionContext, report: TaskReport) -> None:
        self._warn_of_records(context, report)
        began = report_reducer.find_begin(context.job(report.job), report)
        newest = context.job(report.job).attempt
        if began is not None and newest and newest.number == began.attempt:
            self.telemetry.record_gathered(context, report.job)
            context.draft.emit(began)
            # What was found in an earlier run's log says nothing of this one.
            place = context.job(report.job).spec.log_dir + "/"
            for key in list(self.outside):
                if isinstance(key, LogKey) and key.path.startswith(place):
                    del self.outside[key]
        changed = report_reducer.find_change(context.job(report.job), report)
        if changed is not None:
            context.draft.emit(changed)
            if not isinstance(changed, events.RunRequeued):
                self.telemetry.restart_clocks(report.job)  # they stood still
        self._note_queue(context, report)
        warning_id = "q" + ids.digest(report.job, report.attempt, "stuck")
        if report.stuck:  # it will not start unless a person acts
            reason = why("stuck_in_queue", reason=report.reason)
            raise_warning(context, warning_id, reason, report.job, "error")
        else:
            clear_warning(context, warning_id)
        job = context.job(report.job)
        lost_seconds = self.find_executor(job.spec.place).lost_after_seconds
        if report_reducer.is_forgotten(job, report, lost_seconds):
            reason = why("forgotten", id=report.executor_id, seconds=report.gone_for)
            order_again(context, ((job.name, report.attempt),), reason)
        elif report_reducer.has_ended(job, report, lost_seconds):
            attempt = report_reducer.find_attempt(job, report.attempt)
            if attempt is not None and attempt.log_path and not job.ended:
                self.ending[report.job, report.attempt] = report  # its log comes first
            else:
                utc = context.now.utc
                end_attempt(context, report_reducer.decide_end(job, report, utc))

    def _warn_of_records(self, context: DecisionContext, report: TaskReport) -> None:
        """Raise what a person should know of the attempt's records and its end."""
        if report.tampering and report.exited is not None:
            what = clean(report.tampering, limit=_WORDS)
            self._warn_once(context, report, why("records_changed", what=what))
        if report.late_cause is not None:
            cause, name = CAUSES[report.late_cause], context.policy.place
            reason = why("late_cause", cause=cause, executor=name)
            self._warn_once(context, report, reason)

    def _warn_once(
        self, context: DecisionContext, report: TaskReport, reason: Why
    ) -> None:
        warning_id = "r" + ids.digest(report.job, report.attempt, reason.code)
        if warning_id in self.warned or warning_id in context.state.warnings:
            return
        self.warned.add(warning_id)
        raise_warning(context, warning_id, reason, report.job)

    def _note_queue(self, context: DecisionContext, report: TaskReport) -> None:
        """Note what a report says of the task's wait, if it waits."""
        queue, reason = None, report.reason or report.partition
        if report.phase is not TaskPhase.RUNNING and (
            reason or report.expected_at is not None
        ):
            leaving = report.phase in (TaskPhase.LEAVING, TaskPhase.ENDED)
            queue = InQueue(
                report.reason, report.expected_at, report.partition, leaving
            )
        if queue == self.health.queue.get(report.job):
            return
        context.reworded.add(report.job)
        if queue is None:
            self.health.queue.pop(report.job)
        else:
            self.health.queue[report.job] = queue

    def note_logs(self, context: DecisionContext, got: seen.LogsRead) -> list[str]:
        """New bytes of logs, or their ends; returns jobs to judge."""
        touched: list[str] = []
        lived = context.now.lived
        for read in got.reads:
            at, chunk = read.at, read.chunk
            if at.job not in context.state.jobs:
                continue
            stream = (at.job, at.source)
            if read.problem:
                since = self.unread.setdefault(stream, lived)
                if lived - since >= WARN_SECONDS:
                    t, error = context.now.convert_to_t(since), read.problem
                    reason = why("log_unreadable", job=at.job, error=error, since=t)
                    raise_warning(context, _make_warning_id(stream), reason, at.job)
            elif stream in self.unread or context.state.warnings:
                self._note_readable(context, stream)
            touched += self.telemetry.read(context, read)
            if at.final and chunk is not None and not at.source:
                tail = self._limit_rest(context, (at.job, at.attempt))
                self.telemetry.skip_to_tail(context, at, chunk.size, tail)
            # A last look counts, though perhaps nothing could be read.
            waited = lived - self.unread.get(stream, -math.inf)
            if at.final and chunk is None and waited >= LAST_SECONDS:
                self._note_drained(context, read)
        return touched

    def _note_readable(self, context: DecisionContext, stream: Stream) -> None:
        self.unread.pop(stream, None)
        if context.state.warnings:  # perhaps by the engine before this one
            clear_warning(context, _make_warning_id(stream))

    def _limit_rest(self, context: DecisionContext, task: TaskId) -> float:
        """How many bytes an end still waits for: who ordered it waits for the tail
        alone."""
        lived = context.now.lived
        attempt = report_reducer.find_attempt(context.job(task[0]), task[1])
        if task not in self.ending or attempt is None:
            return math.inf
        waited = lived - self.draining.setdefault(task, lived)
        whole, tail = DRAIN_SECONDS, DRAIN_SECONDS
        if attempt.is_told_to_end:
            whole, tail = 0.0, ORDERED_SECONDS
        if waited >= whole + tail:
            return LAST_READ
        return TAIL_READ if waited >= whole else math.inf

    def list_undrained(
        self, jobs: Mapping[str, JobRecord]
    ) -> Iterator[tuple[str, str]]:
        """(job, source) of what is still to be read of runs that ended."""
        for name, number in sorted(self.ending):
            drained = self.drained.get((name, number), {})
            for source in self.telemetry.find_run(jobs[name]).sources:
                if source not in drained and (name, source) not in self.unread:
                    yield name, source

    def _note_drained(self, context: DecisionContext, read: LogRead) -> None:
        """A source was read to its end; the last one of an ended run settles it."""
        name, number = task = (read.at.job, read.at.attempt)
        if task not in self.ending:
            return
        drained = self.drained.setdefault(task, {})
        drained[read.at.source] = read
        run = self.telemetry.find_run(context.job(name))
        if not drained.keys() >= {*run.sources}:
            return
        read = self.drained.pop(task)[LOG]
        report = self.ending.pop(task)
        self.draining.pop(task, None)
        for source in (*run.sources, GPU):  # what it left unread is of no use any more
            self._note_readable(context, (name, source))
        self.telemetry.finish_run(context, name)
        job = context.job(name)
        attempt, tail = report_reducer.find_attempt(job, number), read.tail
        evidence = find_error_line(tail)
        if attempt is not None and attempt.cancel_cause is Cause.NAN:
            evidence = find_nan_line(tail) or evidence
        if read.problem:
            evidence = f"its log could not be read: {read.problem}"
        utc = context.now.utc
        ended = report_reducer.decide_end(job, report, utc, evidence, tail)
        run.tail = "" if ended.outcome is Outcome.COMPLETED else tail
        reached = run.reached if run.attempt == number else None
        end_attempt(context, replace(ended, reached=reached))
