"""What logs say: rule matches become events, metrics the volatile live side. All of it
can be made anew from the logs: ids of matches make a second scan harmless."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from autoexp_tui.actions.orders import raise_warning
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import GPU, LOG, LOG_CHUNK, LOOK_WORK, LogChunk, LogCursor
from autoexp_tui.engine.run_telemetry import (
    MOST_METRICS,
    MetricSource,
    Pace,
    RuleCompiler,
    RunTelemetry,
    check_loss,
    check_quiet,
    clear_alerts,
    drop_partial_line,
    record_gathered,
    scan_chunk,
)
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext, rules_of
from autoexp_tui.model.event import pick
from autoexp_tui.model.facts import MetricFact, MetricKey, Moment
from autoexp_tui.model.resubmission import has_old_logs
from autoexp_tui.model.snapshot import InQueue, Live
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import TERMINAL, JobState, Verdict, why
from autoexp_tui.telemetry.curves import GpuTrack
from autoexp_tui.telemetry.inactivity import AnomalyWatch, InactivityWatch
from autoexp_tui.telemetry.metrics import MetricReader, Point
from autoexp_tui.text.patterns import MAX_LINE

NOTE_SECONDS: Final = 15.0
"""Between two journaled notes of a job's newest metrics, at least."""
NOTE_SHARE: Final = 0.01
"""Of a run's time so far: a long run notes less often, so that months fit a journal."""
NOTE_METRICS: Final = 8
"""Of more metrics a run notes less often, so that they take no more of the journal."""
MOST_POINTS: Final = 512
"""Of a curve; in large sessions fewer, for memory's sake."""
FEWEST_POINTS: Final = 32
ALL_POINTS: Final = 400_000
"""Of one metric in all jobs."""

LOOK_SECONDS: Final = 10.0
"""The longest time between two judgements of standstills."""
SHARES: Final = 4
"""A rule is judged about so often in the time that it waits."""
JUMP_SECONDS: Final = 20.0
"""Between two commits that decide something: more is a jump of the clock."""
THINNING: Final = 768
"""Stretches of a log: of each, a backlog leaves the first and the last point."""
RECORD_COST: Final = 400
"""Instructions that a byte of a file of records costs, about."""
SMALL_CHUNK: Final = 64 << 10
"""Bytes up to which all points of a chunk are read."""


class Telemetry:
    """Reads chunks of logs for all jobs of a session."""

    def __init__(self, state: SessionState) -> None:
        self.metrics: dict[str, Mapping[str, MetricFact]] = {}
        self.changed: set[str] = set()
        """Jobs whose live side moved since somebody took them."""
        self._state = state
        self._compiler = RuleCompiler()
        self.runs: dict[str, RunTelemetry] = {}
        """By job; that of the newest run that was read."""
        self._going: dict[str, None] = {}
        """Jobs whose runs may still gather; what has ended is looked at once more."""
        self._stalls_due = 0.0
        """When (lived) standstills are judged again."""
        self._watched_at: float | None = None
        self._now = Moment(0.0, 0.0, 0.0)
        """Of the newest commit that decided something."""

    def restart(self) -> None:
        """Forget how far logs were read: read them all again."""
        self.runs.clear()
        self._going.clear()
        self.metrics.clear()

    def note_changes(self, names: Iterable[str]) -> None:
        """Of jobs that do other work now, what they said is of no use any more."""
        for name in names:
            job = self._state.jobs[name]
            if job.state not in TERMINAL and job.attempts:
                newest = job.attempts[-1].fingerprint
                if newest not in ("", job.spec.fingerprint):
                    self.changed.add(name)
                if name in self.metrics and has_old_logs(job):
                    del self.metrics[name]

    def make_cursor(
        self, job: JobRecord, source: str = LOG, *, final: bool
    ) -> LogCursor:
        """Where one of a job's sources is to be read on."""
        attempt, run = job.attempts[-1], self.find_run(job)
        file = run.files.get(source)
        offset = run.gpu_offset if source == GPU else run.log.offset
        binary = file is not None and file.is_binary
        cost = RECORD_COST if binary else 1 if source else max(1, run.cost)
        return LogCursor(
            job=job.spec.name,
            attempt=attempt.number,
            run=attempt.run,
            path=source if file else attempt.log_path,
            offset=file.offset if file else offset,
            final=final,
            limit=max(MAX_LINE, min(LOG_CHUNK, LOOK_WORK // cost)),
            cost=cost,
            source=source,
            outlives=file is not None,
            binary=binary,
        )

    def find_run(self, job: JobRecord) -> RunTelemetry:
        """A job's newest run; its log starts where that of the run before ended."""
        run, attempt = self.runs.get(job.spec.name), job.attempts[-1]
        if run is not None and (run.attempt, run.run) == (attempt.number, attempt.run):
            return run
        rules = rules_of(self._state, job.spec)
        is_other = run is None  # whether it does not go on from what it is of
        if run is not None and 0 < run.attempt < attempt.number:
            then = job.attempts[run.attempt - 1]
            is_other = attempt.anew or then.fingerprint != attempt.fingerprint
        if run is None or is_other:
            run = self.runs[job.name] = RunTelemetry(
                rules=rules,
                job=job.name,
                curve_points=count_points(len(self._state.jobs)),
            )
        if run.attempt != attempt.number:
            self.changed.add(job.name)
        self._going[job.name] = None
        run.begin_run(job, rules)
        self._restart_log(run, job)
        run.log.offset = 0 if attempt.log_replaced else attempt.log_start
        noted = job.noted
        if noted and (noted.attempt, noted.run) == (attempt.number, attempt.run):
            run.log.judged = noted.judged.get(LOG, 0)
        self._stalls_due = 0.0  # its rules may wait for less than those before
        return run

    def _restart_log(self, run: RunTelemetry, job: JobRecord) -> None:
        """The log begins: another run's, or another text."""
        compiled = self._compiler.compile_rules(run.rules, job.spec.stage)
        run.scanner, run.cost = compiled.lines, compiled.size
        run.reader = MetricReader(compiled.metrics)
        attempt = job.attempts[-1]
        afresh = not attempt.resume and attempt.run <= 0
        run.watch = InactivityWatch(compiled.quiet, afresh=afresh)
        run.log.rewind()
        run.reached, run.unread, run.pace = None, 0, Pace()
        run.set_apart()
        run.anomalies = AnomalyWatch(run.rules.anomalies, run.loss)

    def read(self, context: DecisionContext, read: LogRead) -> list[str]:
        """Turn a look into events; returns jobs whose conditions read a metric."""
        at, chunk = read.at, read.chunk
        job = context.state.jobs[at.job]
        run = self.find_run(job)
        if (at.attempt, at.run) != (run.attempt, run.run):
            return []
        if read.found is not None:
            run.add_files(read.found, job.noted.judged if job.noted else {})
        if not (at.source or read.problem):  # only such time counts as silence
            run.watch.note_look(context.now.lived)
        source = run.files.get(at.source) if at.source else run.log
        if chunk is None:
            if source is not None and not read.problem:
                source.caught_up = True
            return []
        if at.source == GPU:
            return self._read_gpus(context, run, chunk)
        if source is None or not (chunk.reset or chunk.offset == source.offset):
            return []
        self.changed.add(run.job)
        # Nothing follows from what an ended attempt has said but its curves.
        is_over = bool(job.state in TERMINAL or job.attempts[-1].outcome)
        if source is run.log:
            points = self._read_log(context, run, chunk, is_over=is_over)
        else:
            points = source.read_file(chunk)
            _warn_of_torn(context, run, at.path, source)
        return self._add_points(context, run, source, chunk, points, is_over=is_over)

    def _read_gpus(
        self, context: DecisionContext, run: RunTelemetry, chunk: LogChunk
    ) -> list[str]:
        self.changed.add(run.job)
        if chunk.reset:
            run.gpu = GpuTrack()
        elif chunk.offset != run.gpu_offset:
            return []
        run.gpu_offset = chunk.offset + len(chunk.data)
        if not run.gpu.add_lines(chunk.data):
            return []
        run.gpu_at = context.now.t
        return self._publish(context, run)

    def _read_log(
        self,
        context: DecisionContext,
        run: RunTelemetry,
        chunk: LogChunk,
        *,
        is_over: bool,
    ) -> Sequence[Point]:
        if chunk.reset:
            self._replace_log(context, run)
        if run.restarted:
            run.restarted = False
            clear_alerts(context, run.job)
        run.log.offset = chunk.offset + len(chunk.data)
        run.output_at = context.now.t
        if chunk.midline or run.skipped:
            chunk, run.skipped = drop_partial_line(chunk), False
        if not is_over:
            run.watch.read_lines(chunk.data, chunk.offset, context.now.lived)
            scan_chunk(context, run, chunk)
        # Of many bytes a selection of points is read.
        every = chunk.size // THINNING if len(chunk.data) > SMALL_CHUNK else 0
        return run.reader.read(chunk.data, chunk.offset, every)

    def _replace_log(self, context: DecisionContext, run: RunTelemetry) -> None:
        """The log of a run was replaced: what follows is another text."""
        job = context.job(run.job)
        self.record_gathered(context, run.job)
        self._restart_log(run, job)
        run.watch.note_look(context.now.lived)
        run.restarted = True
        run.replaced += 1
        if not job.ended:
            where = pick(run, "job", "attempt", "run")
            context.draft.emit(events.LogReplaced(**where, count=run.replaced))

    def record_gathered(self, context: DecisionContext, name: str) -> None:
        """Tell all that was gathered of a run: it is over, or another one begins."""
        run = self.runs.get(name)
        if run is not None and not context.job(name).ended:
            record_gathered(context, run, math.inf)

    def _add_points(
        self,
        context: DecisionContext,
        run: RunTelemetry,
        source: MetricSource,
        chunk: LogChunk,
        points: Sequence[Point],
        *,
        is_over: bool,
    ) -> list[str]:
        """Plot and judge new points; returns jobs whose conditions read a metric."""
        before, has_findings, behind = run.step, False, not source.caught_up
        job, lived = context.state.jobs[run.job], context.now.lived
        for point in points:
            run.add_point(source, point, lived)
            if run.left_out:
                _warn_of_left_out(context, run)
            loss = point.values.get(run.loss)
            if loss is not None and not is_over and run.owners.get(run.loss) is source:
                total = run.total or job.spec.progress_total
                has_findings |= check_loss(context, run, source, point, total)
        if source.offset <= source.before:
            run.set_apart()
        if is_over:
            source.caught_up |= chunk.size - chunk.offset <= LOG_CHUNK
            return []
        # A backlog is read faster than it was written. So only steps count after which
        # nothing is left to read (half a line at the end is nothing), and of a source
        # that is read to its end for the first time not even those.
        if chunk.size - chunk.offset <= LOG_CHUNK:
            source.caught_up = True
            if behind:
                run.pace.restart()
            elif run.step is not None and run.step != before:
                run.pace.note_step(run.step, lived)
        if not points:
            return []
        rest = measure_rest(lived - job.since_lived, len(run.facts))
        is_due = lived - run.noted_lived >= rest or (behind and source.caught_up)
        if has_findings or is_due:
            _note(context, run, has_findings=has_findings)
        return self._publish(context, run)

    def _publish(self, context: DecisionContext, run: RunTelemetry) -> list[str]:
        """Let conditions see the newest values; returns the jobs that read them."""
        loads = run.gpu.newest.items()
        facts = run.facts | {name: MetricFact(load, run.at) for name, load in loads}
        self.metrics[run.job] = facts
        if not context.watch.measured[run.job]:
            return []
        return [
            reader
            for name in facts
            for reader in context.watch.jobs(MetricKey(run.job, name))
        ]

    def restart_clocks(self, job: str | None = None) -> None:
        """The clocks of a run begin anew, or of all: nobody knows what happened."""
        for name, run in self.runs.items():
            if job in (None, name):
                run.watch.looked_at = None

    def watch_stalls(self, context: DecisionContext) -> None:
        """React to runs that stand still or fell silent, and tell what was gathered."""
        self._now, lived = context.now, context.now.lived
        for name in [*self._going]:
            run = self.runs[name]
            if context.job(name).ended:
                del self._going[name]
            elif run.limits.gathered:
                record_gathered(context, run, lived)
        while self._compiler.refused:
            problem = self._compiler.refused.pop(0)
            reason = why("rule_off", problem=problem)
            raise_warning(context, "r" + ids.digest(problem), reason)
        last, self._watched_at = self._watched_at, lived
        if last is not None and lived - last > JUMP_SECONDS:
            self.restart_clocks()
        if lived < self._stalls_due:
            return
        wait = LOOK_SECONDS
        for name in sorted(context.roster.active & self.runs.keys()):
            job, run = context.job(name), self.runs[name]
            newest = job.attempts[-1]
            is_newest = (run.attempt, run.run) == (newest.number, newest.run)
            if job.state is JobState.RUNNING and is_newest:
                check_quiet(context, job, run)
                wait = min(wait, run.watch.shortest / SHARES)
        self._stalls_due = lived + wait

    def skip_to_tail(
        self, context: DecisionContext, at: LogCursor, size: int, tail: float
    ) -> None:
        """Of the log of an ended run only the last `tail` bytes are read any more."""
        run = self.find_run(context.job(at.job))
        left = size - run.log.offset
        if left <= tail:
            return
        run.log.offset = size - int(tail)
        run.skipped = True
        run.unread += left - int(tail)
        warning_id = "u" + ids.digest(at.job, at.attempt, at.run)
        reason = why("log_unread", job=at.job, bytes=run.unread, tail=int(tail))
        context.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=at.job)
        )

    def finish_run(self, context: DecisionContext, job: str) -> None:
        """A run's log was read to its end: note its last metrics, and end its
        worries."""
        clear_alerts(context, job)
        self.record_gathered(context, job)
        run = self.runs.get(job)
        if run is None:
            return
        for path, file in run.files.items():
            _warn_of_torn(context, run, path, file, is_over=True)
        if run.facts or run.reached is not None:
            _note(context, run, is_over=True)

    def build_live(
        self,
        job: str,
        start: tuple[Verdict | None, ...] = (),
        queue: InQueue | None = None,
    ) -> Live:
        """The live side of a job: what its log said, with verdicts and its queue."""
        run, record = self.runs.get(job), self._state.jobs[job]
        told = run and (run.output_at is not None or run.facts or run.gpu.loads)
        if run is None or not told or record.is_doing_other_work:
            return Live(start=start, queue=queue)
        total = run.total or record.spec.progress_total
        return run.build_live(total, self._now, start, queue)


def measure_rest(lasted: float, metrics: int) -> float:
    """Seconds between two notes of a run that has lasted so many, with its metrics."""
    return max(NOTE_SECONDS, NOTE_SHARE * lasted) * max(1.0, metrics / NOTE_METRICS)


def count_points(jobs: int) -> int:
    """Points of each curve in a session of so many jobs, for bounded memory."""
    return max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, jobs)))


def _warn_of_torn(
    context: DecisionContext,
    run: RunTelemetry,
    path: str,
    file: MetricSource,
    *,
    is_over: bool = False,
) -> None:
    """Warn of a file of records that is damaged, or (`is_over`) ends within one."""
    records = file.reader.records if file.reader is not None else None
    if records is not None and (records.is_torn or (is_over and records.unread)):
        warning_id = "t" + ids.digest(run.job, path)
        reason = why("metrics_file_torn", path=path, bytes=records.unread)
        raise_warning(context, warning_id, reason, run.job)


def _warn_of_left_out(context: DecisionContext, run: RunTelemetry) -> None:
    name, run.left_out = run.left_out, ""
    warning_id = "l" + ids.digest(run.job, run.attempt)
    reason = why("metrics_left_out", most=MOST_METRICS, name=name)
    raise_warning(context, warning_id, reason, run.job)


def _note(
    context: DecisionContext,
    run: RunTelemetry,
    *,
    has_findings: bool = False,
    is_over: bool = False,
) -> None:
    """Journal the newest values; `has_findings`: and that anomalies were noted;
    `is_over`: with the lowest and highest ones, which an engine reads anew of a run
    that goes on."""
    values = {name: fact.value for name, fact in run.facts.items()}
    now = (run.at, values, is_over)
    if now == run.noted and not has_findings:
        return
    run.noted_lived, run.noted = context.now.lived, now
    sources = {LOG: run.log, **run.files}
    context.draft.emit(
        events.MetricsNoted(
            **pick(run, "job", "attempt", "run", "total"),
            step=run.at,
            values={name: _to_json(value) for name, value in values.items()},
            judged={name: max(s.offset, s.judged) for name, s in sources.items()},
            result=None if run.best is None else _to_json(run.best),
            lows=dict(run.lows) if is_over else {},
            highs=dict(run.highs) if is_over else {},
        )
    )


def _to_json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
