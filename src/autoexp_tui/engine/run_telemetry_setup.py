"""Makes tracks: readers, watches and rules, ready for a run's log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from autoexp_tui.engine.run_telemetry import Pace, Track
from autoexp_tui.model.decision_context import rules_of
from autoexp_tui.model.rules import QUIET_TYPES, Monitoring, applies_to_stage
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.telemetry.anomalies import AnomalyWatch
from autoexp_tui.telemetry.inactivity import QuietRule, RunWatch, compile_quiet_rule
from autoexp_tui.telemetry.log_rules import Scanner, compile_rule
from autoexp_tui.telemetry.metrics import (
    MetricReader,
    OwnMetrics,
    compile_metric,
)
from autoexp_tui.text.metric_names import canonical_name

T = TypeVar("T")
C = TypeVar("C")

MOST_POINTS = 512
"""Of a curve; in large sessions fewer, for memory's sake."""

FEWEST_POINTS = 64

ALL_POINTS = 400_000
"""Of one metric in all jobs."""


class Compiled(NamedTuple):
    """A job's rules, ready to use."""

    rules: Monitoring
    lines: Scanner
    quiet: tuple[QuietRule, ...]
    metrics: OwnMetrics

    @property
    def size(self) -> int:
        """Instructions of all patterns; see `patterns.Pattern.size`."""
        patterns = (rule.pattern.size for rule in self.quiet if rule.pattern)
        return self.lines.size + self.metrics.search.size + sum(patterns)


class TrackMaker:
    """Makes the tracks of a session's jobs, and each set of rules once."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._compiled_of: dict[tuple[int, str], Compiled] = {}
        """By the identity of the rules (which are held, so that it stays theirs)."""
        self._refused: list[str] = []

    def new(self, job: JobRecord) -> Track:
        """An empty track for a job, by its rules."""
        rules = rules_of(self._state, job.spec)
        return Track(
            rules=rules,
            reader=MetricReader(self.compiled(rules, job.spec.stage).metrics),
            anomalies=AnomalyWatch(rules.anomalies, canonical_name(rules.loss)),
            curve_points=points_of(len(self._state.jobs)),
        )

    def rewind(self, track: Track, rules: Monitoring, job: JobRecord) -> None:
        """Let a track begin anew: another run, or another text."""
        attempt = job.attempts[-1]
        compiled = self.compiled(rules, job.spec.stage)
        track.rules = rules
        track.watch = RunWatch(
            compiled.quiet, afresh=not attempt.resume and attempt.run <= 0
        )
        track.log.rewind()
        track.reached = None
        track.unread = 0
        track.once = set()
        track.reader = MetricReader(compiled.metrics)
        track.anomalies = AnomalyWatch(rules.anomalies, canonical_name(rules.loss))
        track.pace = Pace()

    def compiled(self, rules: Monitoring, stage: str) -> Compiled:
        """The rules of a stage, ready to use, without those that are refused."""
        key = (id(rules), stage)
        if key not in self._compiled_of:
            mine = [rule for rule in rules.log_events if applies_to_stage(rule, stage)]
            quiet = [rule for rule in mine if rule.pattern_type in QUIET_TYPES]
            lines = [rule for rule in mine if rule not in quiet]
            compile_quiet = partial(
                compile_quiet_rule, stall_after_seconds=rules.stall_after_seconds
            )
            self._compiled_of[key] = Compiled(
                rules,
                Scanner(list(self._accepted(compile_rule, lines))),
                tuple(self._accepted(compile_quiet, quiet)),
                OwnMetrics(list(self._accepted(compile_metric, rules.metrics))),
            )
        return self._compiled_of[key]

    def _accepted(
        self, compile_one: Callable[[T], C], items: Iterable[T]
    ) -> Iterator[C]:
        """What a session of an older version may hold that RE2 lacks is left out."""
        for item in items:
            try:
                yield compile_one(item)
            except ValueError as error:
                self._refused.append(str(error))

    def take_refused(self) -> list[str]:
        """Rules and metrics that were left out since the last call, and why."""
        refused, self._refused = self._refused, []
        return refused


def points_of(jobs: int) -> int:
    """Points of each curve in a session of so many jobs: all curves together have
    room for as many points, but no curve fewer than fit on a screen."""
    return max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, jobs)))
