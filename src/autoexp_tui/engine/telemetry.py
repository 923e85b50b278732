"""What is known of runs by their logs, their files of metrics and their GPUs: matches
of rules become events, metrics the volatile live side, silence and anomalies warnings
and ends. All of it can be made anew from the logs: ids of matches make a second scan
harmless. After a jump of the clock all clocks begin anew."""

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
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import (
    GPU,
    LOG,
    LOG_CHUNK,
    LOOK_WORK,
    SEARCH,
    FoundFile,
    LogChunk,
    LogCursor,
)
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext, rules_of
from autoexp_tui.model.event import pick
from autoexp_tui.model.facts import MetricFact, MetricKey, Moment
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.resubmission import has_old_logs
from autoexp_tui.model.rules import QUIET_TYPES, LogEvent, Monitoring, is_for_stage
from autoexp_tui.model.snapshot import Curve, GpuView, InQueue, Live
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import TERMINAL, Cause, JobState, Verdict, Why, why
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
from autoexp_tui.text.patterns import MAX_LINE

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
