"""What logs say: rule matches become events, metrics become the volatile live side.

Everything here can be made anew from the logs: reading them again from the start gives
the same matches (their ids make a second scan harmless) and the same curves. One chunk
is at most a mebibyte, so that a commit stays short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autoexp_tui.actions.reactions import log_matched
from autoexp_tui.engine.ended_runs import EndedRuns
from autoexp_tui.engine.metric_alerts import stop_worrying, watch_loss
from autoexp_tui.engine.metric_points import keep_pace, plot, points_in, whole_lines
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
    Source,
    Track,
)
from autoexp_tui.engine.run_telemetry_notes import live_side, note
from autoexp_tui.engine.run_telemetry_setup import TrackMaker
from autoexp_tui.engine.stall_detector import Standstills
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import Desk, rules_of
from autoexp_tui.model.facts import MetricFact, MetricKey
from autoexp_tui.model.freshness import logs_are_old
from autoexp_tui.model.moment import Moment
from autoexp_tui.model.observations import LogRead
from autoexp_tui.model.rules import LogEvent
from autoexp_tui.model.snapshot import InQueue, Live
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.verdicts import Verdict, why
from autoexp_tui.telemetry.gpu_samples import GpuTrack
from autoexp_tui.telemetry.log_rules import Match
from autoexp_tui.telemetry.metric_files import FileReader, places_of
from autoexp_tui.telemetry.metrics import Point
from autoexp_tui.text.patterns import MAX_LINE

NOTE_SECONDS = 15.0
"""Between two journaled notes of a job's newest metrics."""
_LINE_LIMIT = 500
"""Characters of a matched line that are kept."""


class Telemetry:
    """Reads chunks of logs for all jobs of a session."""

    def __init__(self, state: SessionState) -> None:
        self._maker = TrackMaker(state)
        self.metrics: dict[str, Mapping[str, MetricFact]] = {}
        self._tracks: dict[str, Track] = {}
        self._changed: set[str] = set()
        self._standstills = Standstills()
        self._ended = EndedRuns()
        self._state = state
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
        cost = 1 if source else self._cost(track, job)
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

    def _cost(self, track: Track, job: JobRecord) -> int:
        """Instructions of all patterns that a job's log is searched with."""
        return max(1, self._maker.compiled(track.rules, job.spec.stage).size)

    def patience(self, job: str) -> float:
        """Seconds that the least patient rule over a job's silence waits."""
        track = self._tracks.get(job)
        if track is None:
            return math.inf
        return min(track.watch.shortest, track.rules.stall_after_seconds)

    # --------------------------------------------------------------------- chunks
    def digest(self, desk: Desk, chunk: LogChunk) -> list[str]:
        """Turn new bytes into events; returns jobs whose conditions read a metric."""
        job = desk.job(chunk.job)
        track = self._track(job)
        if (chunk.attempt, chunk.run) != (track.attempt, track.run):
            return []
        if chunk.reset:
            self._replaced(desk, track, job)
        elif chunk.offset - chunk.hole != track.log.offset:
            return []
        if track.restarted:
            track.restarted = False
            stop_worrying(desk, job.name)
        track.log.offset = chunk.offset + len(chunk.data)
        track.output_at = desk.now.t
        self._changed.add(job.name)
        if track.skipped:  # the first line was begun before
            track.skipped, chunk = False, replace(chunk, midline=True)
        whole, stood = whole_lines(chunk), track.step
        if job.ended or job.attempts[-1].outcome:  # for its curves: nothing follows
            self._take_all(desk, track, whole)
            return []
        track.watch.read(whole.data, whole.offset, desk.now.lived)
        self._scan(desk, track, whole)
        touched = self._take(desk, track, job.name, track.log, points_in(track, whole))
        keep_pace(track, track.log, chunk, stood, desk.now.lived)
        return touched

    def _replaced(self, desk: Desk, track: Track, job: JobRecord) -> None:
        """The log of a run begins anew: what follows is another text."""
        self._tell_gathered(desk, track, job.name)
        once = track.once
        self._maker.rewind(track, track.rules, job)
        track.once = once
        track.watch.look(desk.now.lived)
        track.restarted = True
        track.replaced += 1
        if not job.ended:
            desk.draft.emit(
                events.LogReplaced(
                    job=job.name,
                    attempt=track.attempt,
                    run=track.run,
                    count=track.replaced,
                )
            )

    def _take_all(self, desk: Desk, track: Track, chunk: LogChunk) -> None:
        for point in points_in(track, chunk):
            plot(track, track.log, point, desk.now.lived)

    def _track(self, job: JobRecord) -> Track:
        """The track of a job's newest run; it starts where the run before it ended."""
        attempt = job.attempts[-1]
        track = self._tracks.get(job.name)
        if track is not None and _did_other_work(job, track):
            track = None
        if track is None:
            track = self._tracks[job.name] = self._maker.new(job)
            if job.ended:
                self._ended.hold(job.name)
        if (track.attempt, track.run) != (attempt.number, attempt.run):
            track.restarted = track.attempt == attempt.number
            if track.attempt != attempt.number:
                track.gpu, track.gpu_offset, track.gpu_at = GpuTrack(), 0, None
                track.first_step = None
                self._changed.add(job.name)
            track.best = _result_so_far(job)
            track.attempt, track.run = attempt.number, attempt.run
            self._maker.rewind(track, rules_of(self._state, job.spec), job)
            track.replaced = attempt.log_replaced
            track.log.offset = 0 if attempt.log_replaced else attempt.log_start
            track.log.judged = _judged(job)
            track.patterns = places_of(track.rules, job.spec)
            track.files_go_on()
            self._standstills.look_soon()
        return track

    def _scan(self, desk: Desk, track: Track, chunk: LogChunk) -> None:
        stage = desk.job(chunk.job).spec.stage
        scanner = self._maker.compiled(track.rules, stage).lines
        lived = desk.now.lived
        for match in scanner.scan(chunk.data, chunk.offset, track.once):
            rule = scanner.rules[match.rule]
            if _is_known(desk, track, chunk.job, rule, match.offset):
                continue
            if rule.match_once or not track.limits.gather(match, lived):
                log_matched(desk, _matched(track, chunk.job, rule, match), rule)
        self._tell_gathered(desk, track, chunk.job, lived)

    def _tell_gathered(
        self, desk: Desk, track: Track, job: str, lived: float = math.inf
    ) -> None:
        """Record matches that came too fast, once they were gathered long enough."""
        for gathered in track.limits.take_due(lived):
            stage = desk.job(job).spec.stage
            rule = self._maker.compiled(track.rules, stage).lines.rules[
                gathered.last.rule
            ]
            matched = replace(
                _matched(track, job, rule, gathered.last),
                metadata=gathered.metadata,
                count=gathered.count,
                first_offset=gathered.first,
            )
            _warn_of_many(desk, matched)
            log_matched(desk, matched, rule)

    # -------------------------------------------------------------------- metrics
    def _take(
        self,
        desk: Desk,
        track: Track,
        job: str,
        source: Source,
        points: Sequence[Point],
    ) -> list[str]:
        """Plot and judge new points; returns jobs whose conditions read a metric."""
        if not points:
            return []
        told = False
        for point in points:
            plot(track, source, point, desk.now.lived)
            told |= watch_loss(desk, track, job, source, point)
        if told or desk.now.lived - track.noted_lived >= NOTE_SECONDS:
            note(desk, track, job, told=told)
        return self._publish(desk, track, job)

    def _publish(self, desk: Desk, track: Track, job: str) -> list[str]:
        """Let conditions see the newest values; returns the jobs that read them."""
        facts = self.metrics[job] = NewestFacts(track)
        if not desk.watch.is_measured(job):
            return []
        return [
            reader for name in facts for reader in desk.watch.jobs(MetricKey(job, name))
        ]

    # ---------------------------------------------------------------------- files
    def digest_file(self, desk: Desk, read: LogRead) -> list[str]:
        """Take a look at something else than the log; as `digest`."""
        job = desk.job(read.job)
        track = self._track(job)
        if (read.attempt, read.run) != (track.attempt, track.run):
            return []
        if read.found is not None:
            self._found(job, track, read.found)
        if read.chunk is None:
            _at_end(track.files.get(read.source), read)
            return []
        self._changed.add(job.name)
        if read.source == GPU:
            return self._load(desk, track, read.chunk)
        return self._read_file(desk, job, track, read.source, read.chunk)

    def _found(self, job: JobRecord, track: Track, found: Sequence[FoundFile]) -> None:
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

    def _read_file(
        self, desk: Desk, job: JobRecord, track: Track, path: str, chunk: LogChunk
    ) -> list[str]:
        file = track.files.get(path)
        if file is None or not (
            chunk.reset or chunk.offset - chunk.hole == file.offset
        ):
            return []
        if chunk.reset:
            file.rewind()
        file.offset = chunk.offset + len(chunk.data)
        whole, stood = whole_lines(chunk), track.step
        points = file.feed(whole.data, whole.offset)
        if not job.ended:
            touched = self._take(desk, track, job.name, file, points)
            keep_pace(track, file, chunk, stood, desk.now.lived)
            self._tell_left_out(desk, track, job.name)
            return touched
        for point in points:
            plot(track, file, point, desk.now.lived)
        return []

    @staticmethod
    def _tell_left_out(desk: Desk, track: Track, job: str) -> None:
        if track.left_out and not track.told_left_out:
            track.told_left_out = True
            text = f"{job}: only its first {MOST_METRICS} metrics are kept"
            desk.draft.emit(events.MessageLogged(text=text, level="warning", job=job))

    def _load(self, desk: Desk, track: Track, chunk: LogChunk) -> list[str]:
        """New samples of the GPUs."""
        if chunk.reset:
            track.gpu = GpuTrack()
        elif chunk.offset != track.gpu_offset:
            return []
        track.gpu_offset = chunk.offset + len(chunk.data)
        if not track.gpu.feed(chunk.data):
            return []
        track.gpu_at = desk.now.t
        return self._publish(desk, track, chunk.job)

    # --------------------------------------------------------------------- stalls
    def looked(self, desk: Desk, read: LogRead) -> None:
        """A run's log was looked at; only such time counts as silence."""
        job = desk.job(read.job)
        track = self._track(job)
        if not read.problem and (read.attempt, read.run) == (track.attempt, track.run):
            track.watch.look(desk.now.lived)
            _at_end(track.log, read)

    def blind(self, job: str) -> None:
        """A run was stopped from outside, or goes on: its clocks begin anew."""
        track = self._tracks.get(job)
        if track is not None:
            track.watch.blind()

    def watch_stalls(self, desk: Desk) -> None:
        """React to runs that stand still or fell silent."""
        self._now = desk.now
        for name, track in self._tracks.items():
            if track.limits.gathers and not desk.job(name).ended:
                self._tell_gathered(desk, track, name, desk.now.lived)
        for problem in self._maker.take_refused():
            _warn_of_rule(desk, problem)
        self._standstills.judge(desk, self._tracks)

    def begin_stalls_anew(self) -> None:
        """The wall clock was set: standstills count from the next look on."""
        for track in self._tracks.values():
            track.watch.blind()

    # ----------------------------------------------------------------------- ends
    def end_run(self, desk: Desk, job: str) -> None:
        """A run is over, or another one begins: what was gathered of it is told."""
        track = self._tracks.get(job)
        if track is not None and not desk.job(job).ended:
            self._tell_gathered(desk, track, job)

    def skip_to_tail(self, desk: Desk, chunk: LogChunk, tail: float) -> None:
        """Of the log of a run that ended only the last `tail` bytes are read any more.

        An infinite `tail`: all of it is.
        """
        track = self._track(desk.job(chunk.job))
        left = chunk.size - track.log.offset
        if left <= tail:
            return
        track.log.offset = chunk.size - int(tail)
        track.skipped = True
        track.unread += left - int(tail)
        warning_id = "u" + ids.digest(chunk.job, chunk.attempt, chunk.run)
        reason = why("log_unread", job=chunk.job, bytes=track.unread, tail=int(tail))
        desk.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=chunk.job)
        )

    # ---------------------------------------------------------------------- notes
    def close(self, desk: Desk, job: str) -> None:
        """A run's log was read to its end: journal its last metrics.

        What was only a worry while it ran is none any more.
        """
        stop_worrying(desk, job)
        self.end_run(desk, job)
        track = self._tracks.get(job)
        if track is not None and track.told_anything:
            note(desk, track, job)

    def reached(self, job: str, attempt: int) -> int | None:
        """The last step that an attempt's newest run reported; None: none."""
        track = self._tracks.get(job)
        same = track is not None and track.attempt == attempt
        return track.reached if track is not None and same else None

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
        return live_side(track, self._total(job, track), self._now, start, queue)


def _warn_of_rule(desk: Desk, problem: str) -> None:
    """A stored rule that this version cannot search with is off."""
    warning_id = "r" + ids.digest(problem)
    if warning_id not in desk.state.warnings:
        reason = why("rule_off", problem=problem)
        desk.draft.emit(events.WarningRaised(warning_id=warning_id, why=reason))


def _at_end(source: Source | None, read: LogRead) -> None:
    """A look that found nothing new, or no file yet, reached the end."""
    if source is not None and read.chunk is None and not read.problem:
        source.caught_up = True


def _is_known(desk: Desk, track: Track, job: str, rule: LogEvent, offset: int) -> bool:
    """Whether a match was found before, or its rule matches once and has."""
    known = desk.state.mark_of(job, track.attempt, track.run, rule.name)
    return known is not None and (rule.match_once or offset <= known[1])


def _matched(track: Track, job: str, rule: LogEvent, match: Match) -> events.LogMatched:
    place = (job, track.attempt, track.run, rule.name)
    at = (0,) if rule.match_once else (match.offset, track.replaced)
    return events.LogMatched(
        match_id=ids.match_id(*place, *at),
        job=job,
        attempt=track.attempt,
        run=track.run,
        rule=rule.name,
        offset=match.offset,
        line=match.line[:_LINE_LIMIT],
        metadata=match.metadata,
    )


def _warn_of_many(desk: Desk, matched: events.LogMatched) -> None:
    """A rule that matches too often is told of once an attempt."""
    warning_id = "m" + ids.digest(matched.job, matched.attempt, matched.rule)
    if warning_id not in desk.state.warnings:
        reason = why("matches_gathered", rule=matched.rule, line=matched.line)
        desk.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=matched.job)
        )


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
