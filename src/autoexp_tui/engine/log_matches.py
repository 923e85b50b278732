"""Rules over logs: compiled once a set, and their matches recorded as events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from autoexp_tui.actions.reactions import log_matched
from autoexp_tui.engine.reading_ports import LogChunk
from autoexp_tui.engine.run_telemetry import Track
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.rules import QUIET_TYPES, LogEvent, Monitoring, applies_to_stage
from autoexp_tui.model.states import why
from autoexp_tui.telemetry.inactivity import QuietRule, compile_quiet_rule
from autoexp_tui.telemetry.log_rules import Match, Scanner, compile_rule
from autoexp_tui.telemetry.metrics import OwnMetrics, compile_metric

T = TypeVar("T")
C = TypeVar("C")

_LINE_LIMIT = 500
"""Characters of a matched line that are kept."""


class CompiledRules(NamedTuple):
    """A stage's rules, ready to use."""

    rules: Monitoring
    lines: Scanner
    quiet: tuple[QuietRule, ...]
    metrics: OwnMetrics

    @property
    def size(self) -> int:
        """Instructions of all patterns; see `patterns.Pattern.size`."""
        patterns = (rule.pattern.size for rule in self.quiet if rule.pattern)
        return self.lines.size + self.metrics.search.size + sum(patterns)


class RuleCompiler:
    """Compiles each set of rules once."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[int, str], CompiledRules] = {}
        """By the identity of the rules (which are held, so that it stays theirs)."""
        self._refused: list[str] = []

    def compile_rules(self, rules: Monitoring, stage: str) -> CompiledRules:
        """The rules of a stage, ready to use, without those that are refused."""
        key = (id(rules), stage)
        if key not in self._compiled:
            mine = [rule for rule in rules.log_events if applies_to_stage(rule, stage)]
            quiet = [rule for rule in mine if rule.pattern_type in QUIET_TYPES]
            lines = [rule for rule in mine if rule not in quiet]
            compile_quiet = partial(
                compile_quiet_rule, stall_after_seconds=rules.stall_after_seconds
            )
            self._compiled[key] = CompiledRules(
                rules,
                Scanner(list(self._accept(compile_rule, lines))),
                tuple(self._accept(compile_quiet, quiet)),
                OwnMetrics(list(self._accept(compile_metric, rules.metrics))),
            )
        return self._compiled[key]

    def _accept(self, compile_one: Callable[[T], C], items: Iterable[T]) -> Iterator[C]:
        """What a session of an older version may hold that RE2 lacks is left out."""
        for item in items:
            try:
                yield compile_one(item)
            except ValueError as error:
                self._refused.append(str(error))

    def warn_of_refused(self, context: DecisionContext) -> None:
        """Stored rules and metrics that this version cannot search with are off."""
        refused, self._refused = self._refused, []
        for problem in refused:
            warning_id = "r" + ids.digest(problem)
            if warning_id not in context.state.warnings:
                reason = why("rule_off", problem=problem)
                context.draft.emit(
                    events.WarningRaised(warning_id=warning_id, why=reason)
                )


def scan_chunk(
    context: DecisionContext, track: Track, scanner: Scanner, chunk: LogChunk
) -> None:
    """Record the matches in new bytes of a run's log."""
    lived = context.now.lived
    for match in scanner.scan(chunk.data, chunk.offset, track.once):
        rule = scanner.rules[match.rule]
        if _is_known(context, track, chunk.job, rule, match.offset):
            continue
        if rule.match_once or not track.limits.gather(match, lived):
            log_matched(context, _matched(track, chunk.job, rule, match), rule)
    record_gathered(context, track, scanner, chunk.job, lived)


def record_gathered(
    context: DecisionContext,
    track: Track,
    scanner: Scanner,
    job: str,
    lived: float = math.inf,
) -> None:
    """Record matches that came too fast, once they were gathered long enough."""
    for gathered in track.limits.take_due(lived):
        rule = scanner.rules[gathered.last.rule]
        matched = replace(
            _matched(track, job, rule, gathered.last),
            metadata=gathered.metadata,
            count=gathered.count,
            first_offset=gathered.first,
        )
        _warn_of_many(context, matched)
        log_matched(context, matched, rule)


def _is_known(
    context: DecisionContext, track: Track, job: str, rule: LogEvent, offset: int
) -> bool:
    """Whether a match was found before, or its rule matches once and has."""
    known = context.state.mark_of(job, track.attempt, track.run, rule.name)
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


def _warn_of_many(context: DecisionContext, matched: events.LogMatched) -> None:
    """Warn once an attempt of a rule that matches too often."""
    warning_id = "m" + ids.digest(matched.job, matched.attempt, matched.rule)
    if warning_id not in context.state.warnings:
        reason = why("matches_gathered", rule=matched.rule, line=matched.line)
        context.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=matched.job)
        )
