"""What a run's log and its silence give cause to: matches of rules, warnings, ends.
After a jump of the clock all clocks begin anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

from autoexp_tui.actions.orders import (
    Severity,
    clear_warning,
    raise_warning,
    request_end,
)
from autoexp_tui.actions.reactions import log_matched
from autoexp_tui.engine.ports import LogChunk
from autoexp_tui.engine.run_telemetry import MetricSource, RunTelemetry
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.rules import QUIET_TYPES, LogEvent, Monitoring, is_for_stage
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, Why, why
from autoexp_tui.telemetry.anomalies import Finding
from autoexp_tui.telemetry.inactivity import (
    QuietRule,
    compile_quiet_rule,
)
from autoexp_tui.telemetry.log_rules import Match, Scanner, compile_rule
from autoexp_tui.telemetry.metrics import OwnMetrics, Point, compile_metric

LOOK_SECONDS: Final = 10.0
"""The longest time between two judgements of standstills."""
SHARES: Final = 4
"""A rule is judged about so often in the time that it waits."""
JUMP_SECONDS: Final = 20.0
"""Between two commits that decide something: more is a jump of the clock."""
_PASSING: Final = frozenset({"plateau", "divergence", "stall"})
"""Warnings that mean nothing once the run has ended."""
_LINE_LIMIT = 500
"""Characters of a matched line that are kept."""

T = TypeVar("T")
C = TypeVar("C")


class CompiledRules(NamedTuple):
    """A stage's rules, ready to use."""

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
        scanner = Scanner(list(self._accept(compile_rule, loud)))
        still = tuple(self._accept(compile_quiet, quiet))
        metrics = OwnMetrics(list(self._accept(compile_metric, rules.metrics)))
        patterns = sum(rule.pattern.size for rule in still if rule.pattern)
        size = scanner.size + metrics.search.size + patterns
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
    lived, state, scanner = context.now.lived, context.state, run.scanner
    for match in scanner.scan(chunk.data, chunk.offset, run.once):
        rule = scanner.rules[match.rule]
        known = state.mark_of(chunk.job, run.attempt, run.run, rule.name)
        if known is not None and (rule.match_once or match.offset <= known[1]):
            continue  # found before, or it matches once and has
        if rule.match_once or not run.limits.gather(match, lived):
            log_matched(context, _build_match(run, chunk.job, rule, match), rule)
    if run.limits.gathered:
        record_gathered(context, run, chunk.job, lived)


def record_gathered(
    context: DecisionContext, run: RunTelemetry, job: str, lived: float
) -> None:
    """Record matches that came too fast, once they were gathered long enough."""
    for gathered in run.limits.take_due(lived):
        rule = run.scanner.rules[gathered.last.rule]
        matched = replace(
            _build_match(run, job, rule, gathered.last),
            metadata=gathered.metadata,
            count=gathered.count,
            first_offset=gathered.first,
        )
        warning_id = "m" + ids.digest(job, run.attempt, rule.name)
        reason = why("matches_gathered", rule=rule.name, line=matched.line)
        raise_warning(context, warning_id, reason, job)  # once an attempt
        log_matched(context, matched, rule)


def _build_match(
    run: RunTelemetry, job: str, rule: LogEvent, match: Match, *key: int
) -> events.LogMatched:
    """`key`: what tells the match from the rule's others; without one, its place."""
    place = (job, run.attempt, run.run, rule.name)
    at = key or ((0,) if rule.match_once else (match.offset, run.replaced))
    return events.LogMatched(
        match_id=ids.match_id(*place, *at),
        job=job,
        attempt=run.attempt,
        run=run.run,
        rule=rule.name,
        offset=match.offset,
        line=match.line[:_LINE_LIMIT],
        metadata=match.metadata,
    )


def check_loss(
    context: DecisionContext,
    run: RunTelemetry,
    job: JobRecord,
    source: MetricSource,
    point: Point,
) -> bool:
    """Judge a point that was added; whether there was anything to report."""
    loss = point.values.get(run.loss)
    if loss is None or run.owners.get(run.loss) is not source:
        return False
    total = run.total or job.spec.progress_total
    findings = run.anomalies.observe(run.at, loss, total)
    # A logger that writes its file anew repeats what it wrote.
    known = source.rewritten_to is not None and point.step <= source.rewritten_to
    if known or point.offset < source.judged:
        return False
    for finding in findings:
        _react(context, run, job, finding)
    return bool(findings)


def _react(
    context: DecisionContext, run: RunTelemetry, job: JobRecord, finding: Finding
) -> None:
    warning_id = "a" + ids.digest(job.name, run.attempt, finding.code)
    if finding.cleared:
        clear_warning(context, warning_id)
        return
    is_nan = finding.code == "nan"
    reason = Why(finding.code, (("job", job.name), *finding.args))
    severity: Severity = "error" if is_nan else "warning"
    raise_warning(context, warning_id, reason, job.name, severity)
    if is_nan and run.rules.anomalies.nan == "kill":
        request_end(context, job, Why("nan", finding.args), Cause.NAN, "nan")


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
    for quiet in run.watch.find_due():
        key = 0 if quiet.rule.match_once else quiet.key
        found = Match(quiet.rule.name, quiet.offset, quiet.line)
        matched = _build_match(run, job.name, quiet.rule, found, key)
        log_matched(context, matched, quiet.rule)
