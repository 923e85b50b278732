"""What is kept of one job's newest run: its log, its files of metrics, its GPUs.

Volatile: all of it can be read again. What follows from it is `engine.telemetry`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from autoexp_tui.engine.reading_ports import LOG, LOG_CHUNK, SEARCH, LogChunk
from autoexp_tui.model.facts import MetricFact, Moment
from autoexp_tui.model.rules import MetricFile, Monitoring
from autoexp_tui.model.snapshot import GpuView, InQueue, Live
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Verdict
from autoexp_tui.telemetry.anomalies import AnomalyWatch
from autoexp_tui.telemetry.curves import Curves, ThinnedCurve, Trend
from autoexp_tui.telemetry.gpu_samples import GpuTrack
from autoexp_tui.telemetry.inactivity import InactivityWatch
from autoexp_tui.telemetry.log_rules import MatchLimits
from autoexp_tui.telemetry.metric_files import FileReader, is_pattern
from autoexp_tui.telemetry.metrics import MetricReader, Point
from autoexp_tui.text.log_lines import LOSS, STEP, find_canonical_name

MOST_METRICS: Final = 64
"""Of one job; further names are left out."""
TREND_POINTS: Final = 32
"""Of the small curve in a row of a table."""
THINNING: Final = 768
"""Stretches of a log: of each, a backlog leaves the lowest, highest and last point."""
SMALL_CHUNK: Final = 64 << 10
"""Bytes up to which all points of a chunk are read."""

Rank: TypeAlias = tuple[int, ...]
"""Of two sources with a metric of one name, the higher has it."""


@dataclass(slots=True)
class Pace:
    """Steps a second, smoothed over about the last half minute.

    Only steps that were read as they were written tell it: see `Track.keep_pace`.
    """

    rate: float | None = None
    _step: int | None = None
    _at: float = 0.0

    def see(self, step: int, t: float) -> None:
        """A step was reported; a step back starts anew."""
        if self._step is None or step < self._step:
            self._step, self._at, self.rate = step, t, None
            return
        seconds = t - self._at
        if seconds < 0.5 or step == self._step:
            return
        newest = (step - self._step) / seconds
        weight = 1.0 - math.exp(-seconds / 10.0)
        old = self.rate if self.rate is not None else newest
        self.rate = old + weight * (newest - old)
        self._step, self._at = step, t

    def begin_anew(self) -> None:
        """The next step is the first one whose moment is known."""
        self._step = None


@dataclass(slots=True, kw_only=True)
class Source:
    """A text of the run's that tells metrics: the log, or a file."""

    rank: Rank = (0,)
    offset: int = 0
    """Bytes that were read."""
    judged: int = 0
    """Bytes whose anomalies are in the journal, or another run's: read again, they
    show nothing new."""
    step: int | None = None
    """Where this run stands, as far as this source tells."""
    caught_up: bool = False
    """It was read to its end once: what is new since then was written since then."""

    @property
    def tells_steps(self) -> bool:
        """Whether its points stand at steps of the run."""
        return True

    def is_judged(self, point: Point) -> bool:
        """Whether the point is no news."""
        return point.offset < self.judged

    def rewind(self) -> None:
        """Another run, or another text."""
        self.offset = self.judged = 0
        self.step = None
        self.caught_up = False


@dataclass(slots=True, kw_only=True)
class FileSource(Source):
    """A file of metrics. It outlives the runs that write it."""

    file: MetricFile
    reader: FileReader
    foreign: int = 0
    """Bytes from before this session: nothing is read in them but a header."""
    before: int = 0
    """Bytes from before this attempt."""
    top: int | None = None
    """The highest step that this run wrote."""
    _known: int | None = None
    """The highest step that it had written when the file began anew."""

    @property
    def tells_steps(self) -> bool:
        """Not while its lines are only counted."""
        return self.reader.tells_steps

    def feed(self, data: bytes, offset: int) -> list[Point]:
        """The points of new lines that are this session's."""
        points = self.reader.feed(data, offset)
        steps = [point.step for point in points if point.offset >= self.before]
        if steps:
            self.top = max(steps) if self.top is None else max(self.top, *steps)
        return [point for point in points if point.offset >= self.foreign]

    def is_judged(self, point: Point) -> bool:
        """A logger that writes its file anew repeats what it wrote."""
        known = self._known is not None and point.step <= self._known
        return known or point.offset < self.judged

    def rewind(self) -> None:
        """The file began anew."""
        self.offset = self.judged = self.foreign = self.before = 0
        self.caught_up = False
        self.reader = FileReader(self.file)
        self._known = self.top

    def new_run(self) -> None:
        """Another run goes on in it."""
        self.step = self.top = self._known = None


@dataclass(slots=True)
class Track:
    """One job's newest run as its files tell it."""

    rules: Monitoring
    reader: MetricReader
    anomalies: AnomalyWatch
    attempt: int = 0
    run: int = -1
    once: set[str] = field(default_factory=set)
    log: Source = field(default_factory=Source)
    files: dict[str, FileSource] = field(default_factory=dict)
    """By path."""
    patterns: tuple[str, ...] = ()
    """Where its files of metrics lie, or may lie."""
    searched: bool = False
    """They were looked for since the run began."""
    listed: tuple[str, ...] = (LOG,)
    """What is to be read: the log, the search while there may be more files, those."""
    gpu: GpuTrack = field(default_factory=GpuTrack)
    gpu_offset: int = 0
    gpu_at: float | None = None
    curve_points: int = 512
    """Of each curve, at most."""
    curves: dict[str, ThinnedCurve] = field(default_factory=dict)
    newest: dict[str, float] = field(default_factory=dict)
    newest_at: dict[str, int] = field(default_factory=dict)
    """Metric -> the step of its newest value."""
    step: int | None = None
    first_step: int | None = None
    """Of the attempt."""
    at: int = 0
    """Where the newest values stand: `step`, else what the log has counted."""
    total: int | None = None
    pace: Pace = field(default_factory=Pace)
    skipped: bool = False
    """The log is read on from some byte of a line."""
    unread: int = 0
    """Bytes of it that were left out."""
    limits: MatchLimits = field(default_factory=MatchLimits)
    watch: InactivityWatch = field(default_factory=InactivityWatch)
    output_at: float | None = None
    reached: int | None = None
    """The last step that this run reported; None: it reported none."""
    noted_lived: float = float("-inf")
    noted: tuple[int, dict[str, float]] | None = None
    restarted: bool = False
    """The log began anew within the attempt: its worries are void."""
    replaced: int = 0
    """How often the run's log began anew."""
    best: float | None = None
    """Of the result's metric, by the result's mode; None: it has no value yet."""
    left_out: bool = False
    """There were more metrics than are kept."""
    told_left_out: bool = False
    _owners: dict[str, Rank] = field(default_factory=dict)

    def is_of(self, job: JobRecord) -> bool:
        """Whether it is of the job's newest run."""
        newest = job.attempts[-1]
        return (self.attempt, self.run) == (newest.number, newest.run)

    def files_go_on(self) -> None:
        """Another run begins: the files may be its own to append to."""
        self.searched = False
        for file in self.files.values():
            file.new_run()
        self.list_sources()

    def list_sources(self) -> None:
        """After a search, or what makes another one necessary."""
        complete = self.searched and len(self.files) >= len(self.patterns)
        done = complete and not any(map(is_pattern, self.patterns))
        search = (SEARCH,) if self.patterns and not done else ()
        self.listed = (LOG, *search, *self.files)

    @property
    def says_anything(self) -> bool:
        """Whether there is something to show."""
        return self.output_at is not None or bool(self.newest or self.gpu.loads)

    def moved_t(self, now: Moment) -> float | None:
        """The `t` at which the run's own counter last moved; None: it has not."""
        moved = self.watch.moved_at
        return None if moved is None else now.t + moved - now.lived

    @property
    def loss(self) -> str:
        """The metric of trends and anomalies."""
        return find_canonical_name(self.rules.loss)

    @property
    def result_metric(self) -> str:
        """The metric of the result, where the rules or the log have it."""
        named = self.rules.result.metric
        if named or self.loss in self.newest:
            return find_canonical_name(named or self.rules.loss)
        return LOSS if LOSS in self.newest else self.loss

    @property
    def result(self) -> float | None:
        """The number that the job is for."""
        if self.best is not None:
            return self.best
        return self.newest.get(self.result_metric)

    def owns(self, source: Source, name: str) -> bool:
        """Whether a metric is told by this source."""
        return self._owners.get(name) == source.rank

    def points_in(self, chunk: LogChunk) -> list[Point]:
        """The points of new bytes of the log; of many bytes a selection."""
        every = chunk.size // THINNING if len(chunk.data) > SMALL_CHUNK else 0
        return self.reader.feed(chunk.data, chunk.offset, every)

    def plot(self, source: Source, point: Point, lived: float) -> None:
        """Let a point move the run on; `lived`: of the commit."""
        step = self._step_of(point)
        if step is not None and source.tells_steps:
            self._move(source, step)
            place = point.offset if source is self.log else self.log.offset
            self.watch.report_step(self.step or 0, lived, place)
        known = self.step if isinstance(source, FileSource) else source.step
        at = source.step if source.step is not None else known
        self.at = self.reached = point.step if at is None else at
        self.total = point.total or self.total
        for name, value in point.values.items():
            if self._claims(source.rank, name):
                self._take(name, value)

    def _step_of(self, point: Point) -> int | None:
        """Where the run stands, by the metric that the config counts progress in."""
        metric = find_canonical_name(self.rules.progress.metric)
        if metric == STEP:
            return point.step
        value = point.values.get(metric)
        return int(value) if value is not None and math.isfinite(value) else None

    def _move(self, source: Source, step: int) -> None:
        """A source tells where the run stands; where it stands by all of them."""
        source.step = step
        self.first_step = step if self.first_step is None else self.first_step
        steps = (one.step for one in (self.log, *self.files.values()))
        self.step = max((one for one in steps if one is not None), default=step)

    def _take(self, name: str, value: float) -> None:
        self.newest[name], self.newest_at[name] = value, self.at
        if name == self.result_metric:
            self.best = _better_value(self.rules.result.mode, self.best, value)
        if name not in self.curves:
            self.curves[name] = ThinnedCurve(self.curve_points)
        self.curves[name].add(self.at, value)

    def _claims(self, rank: Rank, name: str) -> bool:
        owner = self._owners.get(name)
        if owner == rank:
            return True
        if owner is None and len(self._owners) >= MOST_METRICS:
            self.left_out = True
            return False
        if owner is not None and owner > rank:
            return False
        self._owners[name] = rank
        if owner is not None:
            self.curves.pop(name, None)
            if name == self.loss:
                self.anomalies = AnomalyWatch(self.rules.anomalies, self.loss)
        return True

    def rerank(self, source: Source, rank: Rank) -> None:
        """A source keeps what it tells under another rank."""
        for name, owner in self._owners.items():
            if owner == source.rank:
                self._owners[name] = rank
        source.rank = rank

    def keep_pace(
        self, source: Source, chunk: LogChunk, before: int | None, lived: float
    ) -> None:
        """Measure the run's speed by a chunk whose points were plotted.

        A backlog is read faster than it was written. So only steps count after which
        nothing is left to read, and of a source that is read to its end for the first
        time not even those: nobody saw when they came.

        Args:
            source: what the chunk is of.
            chunk: as it was read; its file's size tells whether more is left.
            before: the step where the run stood before it.
            lived: of the commit.
        """
        if chunk.size - chunk.offset > LOG_CHUNK:
            return  # more is left; half a line at the end is not
        first, source.caught_up = not source.caught_up, True
        if first:
            self.pace.begin_anew()
        elif self.step is not None and self.step != before:
            self.pace.see(self.step, lived)

    def view(
        self,
        total: int | None,
        now: Moment,
        start: tuple[Verdict | None, ...],
        queue: InQueue | None,
    ) -> Live:
        """What people see of it at `now`; `total`: the run's last step."""
        curve = self.curves.get(self.result_metric)
        gpu = self.gpu
        return Live(
            start=start,
            queue=queue,
            step=self.step,
            first_step=self.first_step,
            total=total,
            rate=self.pace.rate,
            metrics=self.newest | gpu.newest,
            result=self.result,
            curves=Curves(self.curves | gpu.curves),
            gpu=None
            if self.gpu_at is None
            else GpuView(gpu.loads, self.gpu_at, gpu.idle_seconds),
            trend=Trend(curve, TREND_POINTS) if curve is not None else (),
            log_bytes=self.log.offset,
            last_output_at=self.output_at,
            last_step_at=self.moved_t(now),
        )


def whole_lines(chunk: LogChunk) -> LogChunk:
    """Without the far end of a line that was too long for one read."""
    if not chunk.midline:
        return chunk
    ends = [at for at in (chunk.data.find(b"\n"), chunk.data.find(b"\r")) if at >= 0]
    start = min(ends, default=len(chunk.data) - 1) + 1
    return replace(
        chunk, offset=chunk.offset + start, data=chunk.data[start:], midline=False
    )


def _better_value(
    mode: Literal["min", "max", "last"], old: float | None, new: float
) -> float:
    """Which of two values counts; nan only where there is no other."""
    if mode == "last" or old is None or math.isnan(old):
        return new
    if math.isnan(new):
        return old
    return min(old, new) if mode == "min" else max(old, new)


class NewestFacts(Mapping[str, MetricFact]):
    """A run's newest values as conditions read them, made when they do."""

    __slots__ = ("_track",)

    def __init__(self, track: Track) -> None:
        self._track = track

    def __getitem__(self, name: str) -> MetricFact:
        track = self._track
        load = track.gpu.newest.get(name)
        if load is not None:
            return MetricFact(load, track.at)
        return MetricFact(track.newest[name], track.newest_at[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._track.newest | self._track.gpu.newest)

    def __len__(self) -> int:
        return len(self._track.newest | self._track.gpu.newest)
