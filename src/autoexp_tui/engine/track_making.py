"""Makes tracks: readers, watches and rules, ready for a run's log."""

from __future__ import annotations

from typing import NamedTuple

from autoexp_tui.core.rule_kinds import Monitoring
from autoexp_tui.core.state import JobRecord, SessionState
from autoexp_tui.engine.tracks import Pace, Track
from autoexp_tui.monitor.anomalies import AnomalyWatch
from autoexp_tui.monitor.careful import Linear
from autoexp_tui.monitor.desk import rules_of
from autoexp_tui.monitor.log_rules import Scanner, compile_rules, for_stage
from autoexp_tui.monitor.metrics import MetricReader, canonical
from autoexp_tui.monitor.quiet import QuietRule, RunWatch, quiet_rules
from autoexp_tui.monitor.sieve import MakeTest

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


class TrackMaker:
    """Makes the tracks of a session's jobs, and each set of rules once."""

    def __init__(
        self, state: SessionState, make_test: MakeTest, linear: Linear
    ) -> None:
        self._state = state
        self._make_test = make_test
        self._linear = linear
        self._compiled_of: dict[tuple[int, str], Compiled] = {}
        """By the identity of the rules (which are held, so that it stays theirs)."""

    def new(self, job: JobRecord) -> Track:
        """An empty track for a job, by its rules."""
        rules = rules_of(self._state, job.spec)
        return Track(
            rules=rules,
            reader=MetricReader(rules.metrics, self._make_test, self._linear),
            anomalies=AnomalyWatch(rules.anomalies, canonical(rules.loss)),
            curve_points=points_of(len(self._state.jobs)),
        )

    def rewind(self, track: Track, rules: Monitoring, job: JobRecord) -> None:
        """Let a track begin anew: another run, or another text."""
        attempt = job.attempts[-1]
        quiet = self.compiled(rules, job.spec.stage).quiet
        track.rules = rules
        track.watch = RunWatch(quiet, afresh=not attempt.resume and attempt.run <= 0)
        track.log.rewind()
        track.reached = None
        track.once = set()
        track.reader = MetricReader(rules.metrics, self._make_test, self._linear)
        track.anomalies = AnomalyWatch(rules.anomalies, canonical(rules.loss))
        track.pace = Pace()

    def compiled(self, rules: Monitoring, stage: str) -> Compiled:
        """The rules of a stage, ready to use."""
        key = (id(rules), stage)
        if key not in self._compiled_of:
            log_rules = compile_rules(rules.log_events, self._linear)
            compiled = for_stage(log_rules, stage)
            lines = Scanner(compiled, self._make_test)
            quiet = quiet_rules(rules, stage, self._linear)
            made = Compiled(rules, lines, quiet)
            self._compiled_of[key] = made
        return self._compiled_of[key]


def points_of(jobs: int) -> int:
    """Points of each curve in a session of so many jobs: all curves together have
    room for as many points, but no curve fewer than fit on a screen."""
    return max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, jobs)))
