"""What is kept of one job's newest run: its log, its files of metrics, its GPUs.

What a run's log and its silence give cause to: matches of rules, warnings, ends.
After a jump of the clock all clocks begin anew.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

from autoexp_tui.actions.action_runner import log_matched
from autoexp_tui.actions.orders import (
    Severity,
    clear_warning,
    raise_warning,
    request_end,
)
from autoexp_tui.engine.ports import LOG, SEARCH, FoundFile, LogChunk
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.event import pick
from autoexp_tui.model.facts import MetricFact, Moment
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.rules import QUIET_TYPES, LogEvent, Monitoring, is_for_stage
from autoexp_tui.model.snapshot import Curve, GpuView, InQueue, Live
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, Verdict, Why, why
from autoexp_tui.telemetry.curves import Curves, GpuTrack, ThinnedCurve, Trend
from autoexp_tui.telemetry.inactivity import (
    AnomalyWatch,
    Finding,
    InactivityWatch,
    QuietRule,
    compile_quiet_rule,
)
from autoexp_tui.telemetry.log_rules import Match, MatchLimits, Scanner, compile_rule
from autoexp_tui.telemetry.metric_files import (
    FileReader,
    is_binary,
    is_pattern,
    locate_files,
)
from autoexp_tui.telemetry.metrics import (
    MetricReader,
    OwnMetrics,
    Point,
    compile_metric,
)
from autoexp_tui.text.log_lines import (
    LOSS,
    MAIN_METRICS,
    RUN_URL,
    STEP,
    find_canonical_name,
)

MOST_METRICS: Final = 64
"""Of one job; further names are left out, but for those that everybody has."""
FULL_CURVES: Final = 8
"""Metrics of a job whose curves have all the points; those of others a quarter."""
TREND_POINTS: Final = 32
"""Of the small curve in a row of a table."""
PACE_SECONDS: Final = 30.0


@dataclass(slots=True)
class Pace:
    rate: float | None = None
    _marks: deque[tuple[float, int]] = field(default_factory=deque)
    """(moment, step); without one the next step is the first whose moment is known."""

    def restart(self) -> None:
        """Nobody knows when the next step was made."""
        self._marks.clear()

    def note_step(self, step: int, t: float) -> None:
        """A step was reported; a step back starts anew."""
        if self._marks and step < self._marks[-1][1]:
            self._marks.clear()
            self.rate = None
        self._marks.append((t, step))
        while len(self._marks) > 2 and t - self._marks[0][0] > PACE_SECONDS:
            self._marks.popleft()
        (began, first), seconds = self._marks[0], t - self._marks[0][0]
        if seconds >= 0.5:
            self.rate = (step - first) / (t - began)


@dataclass(slots=True, kw_only=True)
class MetricSource:
    """A text of the run's that tells metrics: the log, or a file, which outlives
    runs."""

    reader: FileReader | None = None
    rank: tuple[int, ...] = (0,)
    """Of two sources with a metric of one name, the higher has it."""
    offset: int = 0
    judged: int = 0
    """Bytes whose anomalies are in the journal: read again, they show nothing new."""
    step: int | None = None
    """Where this run stands, as far as this source tells."""
    caught_up: bool = False
    """It was read to its end once: what is new since then was written since then."""
    foreign: int = 0
    """Bytes from before this session: nothing is read in them but a header."""
    before: int = 0
    """Bytes from before this attempt."""
    top: int | None = None
    """The highest step that this run wrote."""
    rewritten_to: int | None = None
    """The highest step that it had written when the file began anew."""

    @property
    def is_binary(self) -> bool:
        """Whether it has records, and no lines."""
        return self.reader is not None and is_binary(self.reader.file)

    def rewind(self) -> None:
        """Another text: a log of another run, or a file that began anew."""
        self.offset = self.judged = self.foreign = self.before = 0
        self.caught_up = False
        if self.reader is None:
            self.step = None
        else:
            self.reader = FileReader(self.reader.file)
            self.rewritten_to = self.top

    def read_file(self, chunk: LogChunk) -> list[Point]:
        """The points of new bytes of a file that are this session's."""
        assert self.reader is not None, "a log has no reader of files"
        if chunk.reset:
            self.rewind()
        self.offset = chunk.offset + len(chunk.data)
        chunk = drop_partial_line(chunk) if chunk.midline else chunk
        points = self.reader.read(chunk.data, chunk.offset)
        steps = [point.step for point in points if point.offset >= self.before]
        if steps:
            self.top = max(steps if self.top is None else [self.top, *steps])
        return [point for point in points if point.offset >= self.foreign]


def drop_partial_line(chunk: LogChunk) -> LogChunk:
    """Without the far end of a line that was begun before it."""
    ends = [at for at in (chunk.data.find(b"\n"), chunk.data.find(b"\r")) if at >= 0]
    start = min(ends, default=len(chunk.data) - 1) + 1
    return replace(
        chunk, offset=chunk.offset + start, data=chunk.data[start:], midline=False
    )


@dataclass(slots=True)
class RunTelemetry:
    """One job's newest run as its files tell it."""

    rules: Monitoring
    job: str
    loss: str = ""
    """The metric of trends and anomalies."""
    progress: str = STEP
    """The metric that progress is counted in."""
    reader: MetricReader = field(init=False)
    scanner: Scanner = field(init=False)
    cost: int = 1
    """Instructions of the patterns that each byte of its log is searched with."""
    anomalies: AnomalyWatch = field(init=False)
    attempt: int = 0
    run: int = -1
    once: set[str] = field(default_factory=set)
    """Rules that match once, and have."""
    log: MetricSource = field(default_factory=MetricSource)
    files: dict[str, MetricSource] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    """Where its files of metrics lie, or may lie."""
    searched: bool = False
    """They were looked for since the run began."""
    sources: tuple[str, ...] = (LOG,)
    """What is to be read: the log, the search while there may be more files, those."""
    gpu: GpuTrack = field(default_factory=GpuTrack)
    gpu_offset: int = 0
    gpu_at: float | None = None
    curve_points: int = 512
    """Of each curve, at most."""
    curves: dict[str, ThinnedCurve] = field(default_factory=dict)
    facts: dict[str, MetricFact] = field(default_factory=dict)
    """Metric -> its newest value."""
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
    noted: tuple[int, dict[str, float], bool] | None = None
    """What was noted last: the step, the values, whether the run was over."""
    restarted: bool = False
    """The log began anew within the attempt: its worries are void."""
    replaced: int = 0
    """How often the run's log began anew."""
    result_metric: str = LOSS
    """The metric of the result, where the rules or the log have it."""
    best: float | None = None
    """The number that the job is for, by the result's mode; None: there is none."""
    left_out: str = ""
    """A metric that was left out; whoever tells of it empties this."""
    lows: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Metric -> its lowest finite value, the first of equal ones, and its step: of the
    run and of those that it goes on from."""
    highs: dict[str, tuple[float, int]] = field(default_factory=dict)
    owners: dict[str, MetricSource] = field(default_factory=dict)
    """Metric -> the source that tells it."""
    earlier: Mapping[str, MetricFact] = field(default_factory=dict)
    """The newest values of the runs before: until they are told again, old ones."""
    tail: str = ""

    @property
    def number(self) -> tuple[int, int]:
        return self.attempt, self.run

    def set_apart(self) -> None:
        """What was told so far is of runs before."""
        self.earlier = dict(self.facts)

    def find_value(self, metric: str) -> MetricFact | None:
        if metric in self.gpu.newest:
            return MetricFact(self.gpu.newest[metric], self.at)
        fact, owner = self.facts.get(metric), self.owners.get(metric)
        is_old = owner is None or not owner.caught_up
        return None if is_old or fact is self.earlier.get(metric) else fact

    def find_curve(self, metric: str) -> Curve | None:
        curve = self.curves.get(metric)
        if curve is None or self.find_value(metric) is None:
            return None
        return curve.snapshot().curve

    def find_gpus(self) -> GpuView | None:
        if self.gpu_at is None:
            return None
        gpu = self.gpu
        return GpuView(gpu.loads, self.gpu_at, gpu.idle_seconds, gpu.low_seconds)

    def begin_run(self, job: JobRecord, rules: Monitoring) -> None:
        """Another run of the same work begins; its log is the caller's."""
        attempt = job.attempts[-1]
        self.restarted = self.attempt == attempt.number
        if not self.restarted:
            self.gpu, self.gpu_offset, self.gpu_at = GpuTrack(), 0, None
            self.first_step = None
        self.attempt, self.run, self.rules = attempt.number, attempt.run, rules
        self.loss = find_canonical_name(rules.loss)
        self.progress = find_canonical_name(rules.progress.metric)
        self._choose_result()
        newest = self.facts.get(self.result_metric)
        before = _find_noted_before(job)
        if before is None:
            self.lows, self.highs = {}, {}
        else:
            self.lows = {**before.lows, **self.lows}
            self.highs = {**before.highs, **self.highs}
        result = before.result if before else None
        self.best = None if result is None else float(result)
        if self.best is None and newest is not None:
            self.best = newest.value
        self.once, self.tail = set(), ""
        self.replaced = attempt.log_replaced
        self.patterns = locate_files(rules, job.spec)
        self.searched = False
        for file in self.files.values():
            file.step = file.top = file.rewritten_to = None
        self.list_sources()

    def list_sources(self) -> None:
        """After a search, or what makes another one necessary."""
        complete = self.searched and len(self.files) >= len(self.patterns)
        done = complete and not any(map(is_pattern, self.patterns))
        search = (SEARCH,) if self.patterns and not done else ()
        self.sources = (LOG, *search, *self.files)

    def add_files(self, found: Sequence[FoundFile], judged: Mapping[str, int]) -> None:
        """`judged`: path -> bytes whose anomalies are in the journal."""
        self.searched = True
        for place, one in enumerate(found):
            file = self.files.get(one.path)
            if file is None:
                file = self.files[one.path] = MetricSource(
                    reader=FileReader(self.rules.metrics_files[one.pattern]),
                    foreign=one.foreign,
                    judged=judged.get(one.path, 0),
                )
            file.before = one.before
            file.judged = max(file.judged, one.before)
            file.rank = (1, int(one.is_new), -place)
        self.list_sources()

    def add_point(self, source: MetricSource, point: Point, lived: float) -> None:
        """Let a point move the run on; `lived`: of the commit."""
        counted = point.step if self.progress == STEP else None
        if self.progress != STEP:
            value = point.values.get(self.progress, math.nan)
            counted = int(value) if math.isfinite(value) else None
        # Of a file whose lines are only counted, no point stands at a step of the run.
        step = counted if source.reader is None or source.reader.has_steps else None
        if step is not None:
            source.step = step
            if self.first_step is None:
                self.first_step = step
            steps = (one.step for one in (self.log, *self.files.values()))
            self.step = max((one for one in steps if one is not None), default=step)
            place = point.offset if source is self.log else self.log.offset
            self.watch.report_step(self.step, lived, place)
        at = source.step
        if at is None and source.reader is not None:
            at = self.step
        self.at = self.reached = point.step if at is None else at
        self.total = point.total or self.total
        for name, value in point.values.items():
            if self.owners.get(name) is not source and not self._claim(source, name):
                continue
            self.facts[name] = MetricFact(value, self.at)
            if name == self.result_metric:
                best, mode = self.best, self.rules.result.mode
                if (  # nan only where there is no other
                    mode == "last"
                    or best is None
                    or math.isnan(best)
                    or (value < best if mode == "min" else value > best)
                ):
                    self.best = value
            if math.isfinite(value):
                if name not in self.lows or value < self.lows[name][0]:
                    self.lows[name] = (value, self.at)
                if name not in self.highs or value > self.highs[name][0]:
                    self.highs[name] = (value, self.at)
            if name not in self.curves:
                is_full = len(self.curves) < FULL_CURVES or self._is_main(name)
                points = self.curve_points // (1 if is_full else 4)
                self.curves[name] = ThinnedCurve(points)
            self.curves[name].add(self.at, value)

    def _claim(self, source: MetricSource, name: str) -> bool:
        """Whether a source may tell a metric that it did not tell before."""
        owner = self.owners.get(name)
        is_full = owner is None and len(self.owners) >= MOST_METRICS
        if is_full and not self._is_main(name):
            self.left_out = name
            return False
        if owner is not None and owner.rank > source.rank:
            return False
        self.owners[name] = source
        self._choose_result()
        if owner is not None:
            for kept in (self.curves, self.lows, self.highs):
                kept.pop(name, None)
            if name == self.loss:
                self.anomalies = AnomalyWatch(self.rules.anomalies, self.loss)
        return True

    def _is_main(self, name: str) -> bool:
        """Whether a metric is one that people and rules look at first."""
        return name in MAIN_METRICS or name in (self.loss, self.result_metric)

    def _choose_result(self) -> None:
        named = self.rules.result.metric
        if named or self.loss in self.owners:
            self.result_metric = find_canonical_name(named or self.rules.loss)
        else:
            self.result_metric = LOSS if LOSS in self.owners else self.loss

    def build_live(
        self,
        total: int | None,
        now: Moment,
        start: tuple[Verdict | None, ...],
        queue: InQueue | None,
    ) -> Live:
        """What people see of it at `now`; `total`: the run's last step."""
        curve = self.curves.get(self.result_metric)
        gpu, moved = self.gpu, self.watch.steps.since
        return Live(
            start=start,
            queue=queue,
            step=self.step,
            first_step=self.first_step,
            total=total,
            rate=self.pace.rate,
            metrics={k: fact.value for k, fact in self.facts.items()} | gpu.newest,
            result=self.best,
            lows=dict(self.lows),
            highs=dict(self.highs),
            curves=Curves(self.curves | gpu.curves),
            gpu=self.find_gpus(),
            trend=Trend(curve, TREND_POINTS) if curve is not None else (),
            last_step_at=None if moved is None else now.t + moved - now.lived,
        )


def _find_noted_before(job: JobRecord) -> NotedMetrics | None:
    """What was noted of the runs before the newest, where that goes on from them."""
    noted, attempt = job.noted, job.attempts[-1]
    if noted is None or noted.attempt < 1:
        return None
    then = job.attempts[noted.attempt - 1]
    goes_on = then is attempt or attempt.resume
    same_work = then.fingerprint == attempt.fingerprint
    return noted if goes_on and same_work else None


_PASSING: Final = frozenset({"plateau", "divergence", "stall"})
"""Warnings that mean nothing once the run has ended."""
_LINE_LIMIT = 500
"""Characters of a matched line that are kept."""

T = TypeVar("T")
C = TypeVar("C")


_RUN_URL_RULE: Final = LogEvent(
    name=RUN_URL,
    pattern=r"(?:View run (?:[^:]* )?at|Syncing run \S+|TensorBoard \d[\w.]* at):? *"
    r"(?:\x1b\[[\d;]*m)*(?P<url>https?://[!-~]*[\w/=-])",
    pattern_type="regex",
    extract_groups={RUN_URL: "url"},
    match_once=True,
)
"""What Weights & Biases, MLflow and TensorBoard print of where a run is to be seen. Its
searching costs next to nothing: literals lead it."""


class CompiledRules(NamedTuple):
    rules: Monitoring
    lines: Scanner
    quiet: tuple[QuietRule, ...]
    metrics: OwnMetrics
    size: int
    """Instructions of all patterns; see `patterns.Pattern.size`."""


class RuleCompiler:
    """Compiles each set of rules once."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[int, str], CompiledRules] = {}
        """By the identity of the rules (which are held, so that it stays theirs)."""
        self.refused: list[str] = []
        """Why rules are off, as far as nobody was told yet."""

    def compile_rules(self, rules: Monitoring, stage: str) -> CompiledRules:
        """The rules of a stage, ready to use, without those that are refused."""
        key = (id(rules), stage)
        if known := self._compiled.get(key):
            return known
        mine = [rule for rule in rules.log_events if is_for_stage(rule, stage)]
        quiet = [rule for rule in mine if rule.pattern_type in QUIET_TYPES]
        compile_quiet = partial(
            compile_quiet_rule, stall_after_seconds=rules.stall_after_seconds
        )
        loud = [rule for rule in mine if rule not in quiet]
        lines = list(self._accept(compile_rule, loud))
        is_own = any(rule.name == RUN_URL for rule in loud)
        scanner = Scanner(lines if is_own else [*lines, compile_rule(_RUN_URL_RULE)])
        still = tuple(self._accept(compile_quiet, quiet))
        metrics = OwnMetrics(list(self._accept(compile_metric, rules.metrics)))
        patterns = sum(rule.pattern.size for rule in still if rule.pattern)
        size = sum(one.pattern.size for one in lines) + metrics.search.size + patterns
        made = CompiledRules(rules, scanner, still, metrics, size)
        self._compiled[key] = made
        return made

    def _accept(self, compile_one: Callable[[T], C], items: Iterable[T]) -> Iterator[C]:
        """What a session of an older version may hold that RE2 lacks is left out."""
        for item in items:
            try:
                yield compile_one(item)
            except ValueError as error:
                self.refused.append(str(error))


def scan_chunk(context: DecisionContext, run: RunTelemetry, chunk: LogChunk) -> None:
    """Record the matches in new bytes of a run's log."""
    lived, scanner = context.now.lived, run.scanner
    for match in scanner.scan(chunk.data, chunk.offset, run.once):
        rule = scanner.rules[match.rule]
        known = context.state.mark_of(run.job, run.attempt, run.run, rule.name)
        if known is not None and (rule.match_once or match.offset <= known[1]):
            continue  # found before, or it matches once and has
        if rule.match_once or not run.limits.gather(match, lived):
            log_matched(context, _build_match(run, rule, match), rule)
    if run.limits.gathered:
        record_gathered(context, run, lived)


def record_gathered(context: DecisionContext, run: RunTelemetry, lived: float) -> None:
    """Record matches that came too fast, once they were gathered long enough."""
    for gathered in run.limits.take_due(lived):
        rule = run.scanner.rules[gathered.last.rule]
        matched = replace(
            _build_match(run, rule, gathered.last),
            metadata=gathered.metadata,
            count=gathered.count,
            first_offset=gathered.first,
        )
        warning_id = "m" + ids.digest(run.job, run.attempt, rule.name)
        reason = why("matches_gathered", rule=rule.name, line=matched.line)
        raise_warning(context, warning_id, reason, run.job)  # once an attempt
        log_matched(context, matched, rule)


def _build_match(
    run: RunTelemetry, rule: LogEvent, match: Match, *key: int
) -> events.LogMatched:
    """`key`: what tells the match from the rule's others; without one, its place."""
    place = (run.job, run.attempt, run.run, rule.name)
    at = key or ((0,) if rule.match_once else (match.offset, run.replaced))
    return events.LogMatched(
        match_id=ids.match_id(*place, *at),
        **pick(run, "job", "attempt", "run"),
        rule=rule.name,
        offset=match.offset,
        line=match.line[:_LINE_LIMIT],
        metadata=match.metadata,
    )


def check_loss(
    context: DecisionContext,
    run: RunTelemetry,
    source: MetricSource,
    point: Point,
    total: int | None,
) -> bool:
    """Judge a loss that was added; whether there was anything to report."""
    findings = run.anomalies.observe(run.at, point.values[run.loss], total)
    # A logger that writes its file anew repeats what it wrote.
    known = source.rewritten_to is not None and point.step <= source.rewritten_to
    if known or point.offset < source.judged:
        return False
    for finding in findings:
        _react(context, run, finding)
    return bool(findings)


def _react(context: DecisionContext, run: RunTelemetry, finding: Finding) -> None:
    warning_id = "a" + ids.digest(run.job, run.attempt, finding.code)
    if finding.cleared:
        clear_warning(context, warning_id)
        return
    is_nan = finding.code == "nan"
    reason = Why(finding.code, (("job", run.job), *finding.args))
    severity: Severity = "error" if is_nan else "warning"
    raise_warning(context, warning_id, reason, run.job, severity)
    if is_nan and run.rules.anomalies.nan == "kill":
        job, reason = context.job(run.job), Why("nan", finding.args)
        request_end(context, job, reason, Cause.NAN, "nan")


def clear_alerts(context: DecisionContext, job: str) -> None:
    """Clear the warnings of a job that mean nothing any more."""
    for warning in list(context.state.warnings.values()):
        if warning.job == job and warning.why.code in _PASSING:
            clear_warning(context, warning.warning_id)


def check_quiet(context: DecisionContext, job: JobRecord, run: RunTelemetry) -> None:
    """Warn of a stall and carry out rules over what does not happen."""
    warning_id = "a" + ids.digest(job.name, run.attempt, "stall")
    if not run.watch.is_stalled(run.rules.stall_after_seconds):
        clear_warning(context, warning_id)
    elif warning_id not in context.state.warnings:
        seconds = run.watch.steps.measure(run.watch.looked_at)
        reason = why("stall", job=job.name, step=run.step or 0, seconds=seconds)
        raise_warning(context, warning_id, reason, job.name)
        rules = (one for one in run.rules.state_events if one.state == "stall")
        if any(is_for_stage(rule, job.spec.stage) for rule in rules):
            request_end(context, job, reason, Cause.STALL, "stall")
    for rule, key, found in run.watch.find_due():
        matched = _build_match(run, rule, found, 0 if rule.match_once else key)
        log_matched(context, matched, rule)
