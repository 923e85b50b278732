"""What logs say: rule matches become events, metrics become the volatile live side.

Everything here can be made anew from the logs: reading them again from the start gives
the same matches (their ids make a second scan harmless) and the same curves. One chunk
is at most a mebibyte, so that a commit stays short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from autoexp_tui.engine.ended_runs import EndedRuns
from autoexp_tui.engine.log_matches import (
    CompiledRules,
    RuleCompiler,
    record_gathered,
    scan_chunk,
)
from autoexp_tui.engine.metric_alerts import StallDetector, clear_alerts, judge_loss
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.reading_ports import (
    GPU,
    LOG,
    LOG_CHUNK,
    LOOK_WORK,
    FoundFile,
    LogChunk,
    LogCursor,
)
from autoexp_tui.engine.run_telemetry import (
    MOST_METRICS,
    FileSource,
    NewestFacts,
    Pace,
    Source,
    Track,
    whole_lines,
)
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext, rules_of
from autoexp_tui.model.facts import MetricFact, MetricKey, Moment
from autoexp_tui.model.resubmission import logs_are_old
from autoexp_tui.model.snapshot import InQueue, Live
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import Verdict, why
from autoexp_tui.telemetry.anomalies import AnomalyWatch
from autoexp_tui.telemetry.gpu_samples import GpuTrack
from autoexp_tui.telemetry.inactivity import InactivityWatch
from autoexp_tui.telemetry.metric_files import FileReader, locate_files
from autoexp_tui.telemetry.metrics import MetricReader, Point
from autoexp_tui.text.log_lines import find_canonical_name
from autoexp_tui.text.patterns import MAX_LINE

NOTE_SECONDS: Final = 15.0
"""Between two journaled notes of a job's newest metrics."""
MOST_POINTS: Final = 512
"""Of a curve; in large sessions fewer, for memory's sake."""
FEWEST_POINTS: Final = 64
ALL_POINTS: Final = 400_000
"""Of one metric in all jobs."""


class Telemetry:
    """Reads chunks of logs for all jobs of a session."""

    def __init__(self, state: SessionState) -> None:
        self.metrics: dict[str, Mapping[str, MetricFact]] = {}
        self._state = state
        self._compiler = RuleCompiler()
        self._tracks: dict[str, Track] = {}
        self._changed: set[str] = set()
        self._stalls = StallDetector()
        self._ended = EndedRuns()
        self._now = Moment(0.0, 0.0, 0.0)
        """Of the newest commit that decided something."""

    def restart(self) -> None:
        """Forget how far logs were read: read them all again."""
        self._tracks.clear()
        self._ended.restart()
        self.metrics.clear()

    @property
    def moved(self) -> bool:
        """Whether some job's live side moved since `take_changed`."""
        return bool(self._changed)

    def take_changed(self) -> set[str]:
        """Jobs whose live side moved since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    # ---------------------------------------------------------------- ended jobs
    def has_read(self, job: str) -> bool:
        """Whether a job's log is held, as far as it was read."""
        return job in self._tracks

    def note_ends(self, names: Iterable[str]) -> None:
        """Jobs may have ended, or live again: the newest ends keep their curves."""
        for name in names:
            job = self._state.jobs.get(name)
            if job is None or not job.ended:
                self._ended.revive(name)
                if job is not None and logs_are_old(job):
                    self.metrics.pop(name, None)
                if job is not None and job.does_other_work:
                    self._changed.add(name)
            elif name in self._tracks:
                self._ended.hold(name)
        for name in self._ended.surplus():
            track = self._tracks.pop(name)
            self._ended.let_go(name, track, self._total(name, track), self._now)
            self.metrics.pop(name, None)  # conditions read what is journaled
            self._changed.add(name)

    # -------------------------------------------------------------------- sources
    def sources(self, job: JobRecord) -> Sequence[str]:
        """What is to be read of a job's newest run: its log, the search for files of
        metrics while there may be more, the files."""
        return self._track(job).listed

    def patterns(self, job: JobRecord) -> tuple[str, ...]:
        """Where a job's files of metrics lie, or may lie."""
        return self._track(job).patterns

    def cursor(self, job: JobRecord, source: str = LOG, *, final: bool) -> LogCursor:
        """Where one of a job's sources is to be read on."""
        attempt = job.attempts[-1]
        track = self._track(job)
        file = track.files.get(source)
        offset = track.gpu_offset if source == GPU else track.log.offset
        cost = 1 if source else max(1, self._rules(track, job).size)
        return LogCursor(
            job=job.name,
            attempt=attempt.number,
            run=attempt.run,
            path=source if file else attempt.log_path,
            offset=file.offset if file else offset,
            final=final,
            limit=max(MAX_LINE, min(LOG_CHUNK, LOOK_WORK // cost)),
            cost=cost,
            source=source,
            outlives=file is not None,
        )

    def _rules(self, track: Track, job: JobRecord) -> CompiledRules:
        return self._compiler.compile_rules(track.rules, job.spec.stage)

    def patience(self, job: str) -> float:
        """Seconds that the least patient rule over a job's silence waits."""
        track = self._tracks.get(job)
        if track is None:
            return math.inf
        return min(track.watch.shortest, track.rules.stall_after_seconds)

    # --------------------------------------------------------------------- tracks
    def _track(self, job: JobRecord) -> Track:
        """The track of a job's newest run; it starts where the run before it ended."""
        attempt = job.attempts[-1]
        track = self._tracks.get(job.name)
        if track is None or _did_other_work(job, track):
            track = self._tracks[job.name] = self._new_track(job)
            if job.ended:
                self._ended.hold(job.name)
        if not track.is_of(job):
            track.restarted = track.attempt == attempt.number
            if not track.restarted:
                track.gpu, track.gpu_offset, track.gpu_at = GpuTrack(), 0, None
                track.first_step = None
                self._changed.add(job.name)
            track.best = _result_so_far(job)
            track.attempt, track.run = attempt.number, attempt.run
            track.rules = rules_of(self._state, job.spec)
            self._rewind(track, job)
            track.once = set()
            track.replaced = attempt.log_replaced
            track.log.offset = 0 if attempt.log_replaced else attempt.log_start
            track.log.judged = _judged(job)
            track.patterns = locate_files(track.rules, job.spec)
            track.files_go_on()
            self._stalls.look_soon()
        return track

    def _new_track(self, job: JobRecord) -> Track:
        rules = rules_of(self._state, job.spec)
        compiled = self._compiler.compile_rules(rules, job.spec.stage)
        return Track(
            rules=rules,
            reader=MetricReader(compiled.metrics),
            anomalies=AnomalyWatch(rules.anomalies, find_canonical_name(rules.loss)),
            curve_points=points_of(len(self._state.jobs)),
        )

    def _rewind(self, track: Track, job: JobRecord) -> None:
        """Let a track begin anew: another run, or another text."""
        attempt, rules = job.attempts[-1], track.rules
        compiled = self._rules(track, job)
        afresh = not attempt.resume and attempt.run <= 0
        track.watch = InactivityWatch(compiled.quiet, afresh=afresh)
        track.log.rewind()
        track.reached = None
        track.unread = 0
        track.reader = MetricReader(compiled.metrics)
        track.anomalies = AnomalyWatch(rules.anomalies, find_canonical_name(rules.loss))
        track.pace = Pace()

    # --------------------------------------------------------------------- chunks
    def digest(self, context: DecisionContext, chunk: LogChunk) -> list[str]:
        """Turn new bytes into events; returns jobs whose conditions read a metric."""
        job = context.job(chunk.job)
        track = self._track(job)
        if (chunk.attempt, chunk.run) != (track.attempt, track.run):
            return []
        if chunk.reset:
            self._begin_anew(context, track, job)
        elif chunk.offset - chunk.hole != track.log.offset:
            return []
        if track.restarted:
            track.restarted = False
            clear_alerts(context, job.name)
        track.log.offset = chunk.offset + len(chunk.data)
        track.output_at = context.now.t
        self._changed.add(job.name)
        if track.skipped:  # the first line was begun before
            track.skipped, chunk = False, replace(chunk, midline=True)
        whole = whole_lines(chunk)
        if not _is_over(job):
            track.watch.read_lines(whole.data, whole.offset, context.now.lived)
            scan_chunk(context, track, self._rules(track, job).lines, whole)
        return self._take(context, track, job, track.log, chunk, track.points_in(whole))

    def _begin_anew(
        self, context: DecisionContext, track: Track, job: JobRecord
    ) -> None:
        """The log of a run was replaced: what follows is another text."""
        self._record_gathered(context, track, job.name)
        self._rewind(track, job)
        track.watch.note_look(context.now.lived)
        track.restarted = True
        track.replaced += 1
        if not job.ended:
            context.draft.emit(
                events.LogReplaced(
                    job=job.name,
                    attempt=track.attempt,
                    run=track.run,
                    count=track.replaced,
                )
            )

    def _record_gathered(
        self, context: DecisionContext, track: Track, name: str, lived: float = math.inf
    ) -> None:
        if not track.limits.gathers:
            return
        job = context.job(name)
        if not job.ended:
            scanner = self._rules(track, job).lines
            record_gathered(context, track, scanner, name, lived)

    # -------------------------------------------------------------------- metrics
    def _take(
        self,
        context: DecisionContext,
        track: Track,
        job: JobRecord,
        source: Source,
        chunk: LogChunk,
        points: Sequence[Point],
    ) -> list[str]:
        """Plot and judge new points; returns jobs whose conditions read a metric."""
        is_over, before, told = _is_over(job), track.step, False
        for point in points:
            track.plot(source, point, context.now.lived)
            if not is_over:
                told |= judge_loss(context, track, context.job(job.name), source, point)
        if is_over:  # for its curves: nothing follows
            return []
        track.keep_pace(source, chunk, before, context.now.lived)
        if not points:
            return []
        if told or context.now.lived - track.noted_lived >= NOTE_SECONDS:
            _note(context, track, job.name, told=told)
        return self._publish(context, track, job.name)

    def _publish(self, context: DecisionContext, track: Track, job: str) -> list[str]:
        """Let conditions see the newest values; returns the jobs that read them."""
        facts = self.metrics[job] = NewestFacts(track)
        if not context.watch.is_measured(job):
            return []
        return [
            reader
            for name in facts
            for reader in context.watch.jobs(MetricKey(job, name))
        ]

    # ---------------------------------------------------------------------- files
    def digest_file(self, context: DecisionContext, read: LogRead) -> list[str]:
        """Take a look at something else than the log; as `digest`."""
        job = context.job(read.job)
        track = self._track(job)
        if (read.attempt, read.run) != (track.attempt, track.run):
            return []
        if read.found is not None:
            _add_files(job, track, read.found)
        if read.chunk is None:
            _note_end(track.files.get(read.source), read)
            return []
        self._changed.add(job.name)
        if read.source == GPU:
            return self._read_load(context, track, read.chunk)
        return self._read_file(context, job, track, read.source, read.chunk)

    def _read_file(
        self,
        context: DecisionContext,
        job: JobRecord,
        track: Track,
        path: str,
        chunk: LogChunk,
    ) -> list[str]:
        file = track.files.get(path)
        if file is None or not (
            chunk.reset or chunk.offset - chunk.hole == file.offset
        ):
            return []
        if chunk.reset:
            file.rewind()
        file.offset = chunk.offset + len(chunk.data)
        whole = whole_lines(chunk)
        points = file.feed(whole.data, whole.offset)
        touched = self._take(context, track, job, file, chunk, points)
        if track.left_out and not track.told_left_out and not job.ended:
            track.told_left_out = True
            text = f"{job.name}: only its first {MOST_METRICS} metrics are kept"
            context.draft.emit(
                events.MessageLogged(text=text, level="warning", job=job.name)
            )
        return touched

    def _read_load(
        self, context: DecisionContext, track: Track, chunk: LogChunk
    ) -> list[str]:
        """New samples of the GPUs."""
        if chunk.reset:
            track.gpu = GpuTrack()
        elif chunk.offset != track.gpu_offset:
            return []
        track.gpu_offset = chunk.offset + len(chunk.data)
        if not track.gpu.feed(chunk.data):
            return []
        track.gpu_at = context.now.t
        return self._publish(context, track, chunk.job)

    # --------------------------------------------------------------------- stalls
    def looked(self, context: DecisionContext, read: LogRead) -> None:
        """A run's log was looked at; only such time counts as silence."""
        track = self._track(context.job(read.job))
        if not read.problem and (read.attempt, read.run) == (track.attempt, track.run):
            track.watch.note_look(context.now.lived)
            _note_end(track.log, read)

    def blind(self, job: str | None = None) -> None:
        """The clocks of a run begin anew, or of all: it was stopped from outside or
        goes on, or the wall clock was set."""
        for track in self._tracks.values() if job is None else self._held(job):
            track.watch.forget_look()

    def _held(self, job: str) -> Sequence[Track]:
        return [self._tracks[job]] if job in self._tracks else []

    def watch_stalls(self, context: DecisionContext) -> None:
        """React to runs that stand still or fell silent."""
        self._now = context.now
        for name, track in self._tracks.items():
            self._record_gathered(context, track, name, context.now.lived)
        self._compiler.warn_of_refused(context)
        self._stalls.judge(context, self._tracks)

    # ----------------------------------------------------------------------- ends
    def end_run(self, context: DecisionContext, job: str) -> None:
        """A run is over, or another one begins: what was gathered of it is told."""
        for track in self._held(job):
            self._record_gathered(context, track, job)

    def skip_to_tail(
        self, context: DecisionContext, chunk: LogChunk, tail: float
    ) -> None:
        """Of the log of a run that ended only the last `tail` bytes are read any more.

        An infinite `tail`: all of it is.
        """
        track = self._track(context.job(chunk.job))
        left = chunk.size - track.log.offset
        if left <= tail:
            return
        track.log.offset = chunk.size - int(tail)
        track.skipped = True
        track.unread += left - int(tail)
        warning_id = "u" + ids.digest(chunk.job, chunk.attempt, chunk.run)
        reason = why("log_unread", job=chunk.job, bytes=track.unread, tail=int(tail))
        context.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=chunk.job)
        )

    def close(self, context: DecisionContext, job: str) -> None:
        """A run's log was read to its end: journal its last metrics.

        What was only a worry while it ran is none any more.
        """
        clear_alerts(context, job)
        self.end_run(context, job)
        for track in self._held(job):
            if track.newest or track.reached is not None:
                _note(context, track, job)

    def reached(self, job: str, attempt: int) -> int | None:
        """The last step that an attempt's newest run reported; None: none."""
        track = self._tracks.get(job)
        same = track is not None and track.attempt == attempt
        return track.reached if track is not None and same else None

    # ---------------------------------------------------------------------- views
    def _total(self, job: str, track: Track) -> int | None:
        return track.total or self._state.jobs[job].spec.progress_total

    def view(
        self,
        job: str,
        start: tuple[Verdict | None, ...] = (),
        queue: InQueue | None = None,
    ) -> Live:
        """The live side of a job: what its log said, if anything.

        `start`: the newest verdicts of its start conditions; `queue`: where it waits.
        """
        track = self._tracks.get(job)
        if self._state.jobs[job].does_other_work:
            return Live(start=start, queue=queue)
        if track is None or not track.says_anything:
            return self._ended.left(job) or Live(start=start, queue=queue)
        return track.view(self._total(job, track), self._now, start, queue)


def points_of(jobs: int) -> int:
    """Points of each curve in a session of so many jobs: all curves together have
    room for as many points, but no curve fewer than fit on a screen."""
    return max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, jobs)))


def _is_over(job: JobRecord) -> bool:
    """Whether the job's newest attempt has ended: nothing follows from its log."""
    return bool(job.ended or job.attempts[-1].outcome)


def _add_files(job: JobRecord, track: Track, found: Sequence[FoundFile]) -> None:
    """Files of metrics that are there; those that came with the attempt win."""
    track.searched = True
    judged = job.noted.judged if job.noted else {}
    for place, one in enumerate(found):
        rank = (1, int(one.is_new), -place)
        known = track.files.get(one.path)
        if known is None:
            file = track.rules.metrics_files[one.pattern]
            known = track.files[one.path] = FileSource(
                file=file, reader=FileReader(file), rank=rank, foreign=one.foreign
            )
            known.judged = judged.get(one.path, 0)
        known.before = one.before
        known.judged = max(known.judged, one.before)
        track.rerank(known, rank)
    track.list_sources()


def _note_end(source: Source | None, read: LogRead) -> None:
    """A look that found nothing new, or no file yet, reached the end."""
    if source is not None and read.chunk is None and not read.problem:
        source.caught_up = True


def _note(
    context: DecisionContext, track: Track, job: str, *, told: bool = False
) -> None:
    """Journal the newest values; `told`: and that anomalies were noted."""
    now = (track.at, dict(track.newest))
    if now == track.noted and not told:
        return
    track.noted_lived, track.noted = context.now.lived, now
    sources = {LOG: track.log, **track.files}
    context.draft.emit(
        events.MetricsNoted(
            job=job,
            attempt=track.attempt,
            run=track.run,
            step=track.at,
            total=track.total,
            values={name: _plain(value) for name, value in track.newest.items()},
            judged={name: max(s.offset, s.judged) for name, s in sources.items()},
            result=None if track.result is None else _plain(track.result),
        )
    )


def _plain(value: float) -> float | str:
    """A number as JSON can hold it."""
    return value if math.isfinite(value) else str(value)


def _did_other_work(job: JobRecord, track: Track) -> bool:
    """Whether the newest attempt does not continue the one that a track is of."""
    then, now = job.attempts[track.attempt - 1], job.attempts[-1]
    is_other = now.anew or then.fingerprint != now.fingerprint
    return 0 < track.attempt < now.number and is_other


def _result_so_far(job: JobRecord) -> float | None:
    """What the runs before the newest came to, where that goes on from them."""
    noted, attempt = job.noted, job.attempts[-1]
    if noted is None or noted.result is None or noted.attempt < 1:
        return None
    then = job.attempts[noted.attempt - 1]
    goes_on = then is attempt or attempt.resume
    same_work = then.fingerprint == attempt.fingerprint
    return float(noted.result) if goes_on and same_work else None


def _judged(job: JobRecord) -> int:
    """Bytes of the newest run's log whose anomalies are in the journal."""
    noted, attempt = job.noted, job.attempts[-1]
    if noted is None or (noted.attempt, noted.run) != (attempt.number, attempt.run):
        return 0
    return noted.judged.get("", 0)
