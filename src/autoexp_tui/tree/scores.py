"""Two results compared: deltas, a score, a grade, and whether to go on from there.

A delta is signed so that more is better, whatever the metric's direction. A relative
change is the delta over |baseline| (over 1 where that is 0), clamped to +-2; the score
is the mean of these, weighted. Scores are of the metrics' means alone: whether enough
rows made them is asked by `gate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Final, Literal, TypeAlias

from autoexp_tui.tree.options import GateOptions, Metric, TreeOptions
from autoexp_tui.tree.results_csv import Results

Grade: TypeAlias = Literal["strong", "promising", "mixed", "weak"]

PRIMARY_MISSING: Final = "primary_metric_missing"
PRIMARY_REGRESSED: Final = "primary_metric_regressed"
PRIMARY_IMPROVED: Final = "primary_metric_improved"
RISK_REGRESSED: Final = "risk_metric_regressed"
SCORE_REACHED: Final = "score_reached"
SCORE_TOO_LOW: Final = "score_too_low"
MORE_GAINS: Final = "more_gains_than_losses"
_CLAMP: Final = 2.0
_ROUNDING: Final = 1e-12
"""What a share may lack to its bound: 0.95 of 1 is a loss of 0.05000000000000004."""


@dataclass(frozen=True, slots=True)
class MetricDelta:
    """One metric on both sides; None where a side has no row that is ok."""

    name: str
    baseline: float | None = None
    candidate: float | None = None
    delta: float | None = None
    """Signed so that more is better."""
    relative: float | None = None
    """Within +-2."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`score` is None where a side has no rows; `reasons` are codes, those of a risk
    metric with its name behind a colon."""

    should_explore: bool
    grade: Grade
    score: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate beside a baseline: its parent's results, or the root's."""

    recommendation: Recommendation
    primary_delta: float | None
    deltas: tuple[MetricDelta, ...]
    risk_flags: tuple[str, ...]
    """Risk metrics that got worse by more than `max_risk_loss`."""
    baseline_rows_used: int
    candidate_rows_used: int

    def list_largest_deltas(self, most: int) -> tuple[Sequence[MetricDelta], ...]:
        """Gains, best first, and losses, worst first; `most` of each."""
        known = sorted(self.deltas, key=lambda one: (-(one.relative or 0.0), one.name))
        gains = [one for one in known if (one.relative or 0.0) > 0]
        losses = [one for one in reversed(known) if (one.relative or 0.0) < 0]
        return gains[:most], losses[:most]


def compare_results(
    baseline: Results, candidate: Results, options: TreeOptions
) -> Comparison:
    """Both results were read with the metrics and the limit of `options`."""
    deltas = [
        _measure_delta(metric, baseline.average(metric.name), candidate)
        for metric in options.metrics
    ]
    flags = tuple(
        metric.name
        for metric, one in zip(options.metrics, deltas, strict=True)
        if metric.risk and _falls_by(one.relative, options.gate.max_risk_loss)
    )
    return Comparison(
        recommendation=_recommend(deltas, options, flags),
        primary_delta=deltas[0].delta,
        deltas=tuple(deltas),
        risk_flags=flags,
        baseline_rows_used=len(baseline.rows),
        candidate_rows_used=len(candidate.rows),
    )


def measure_noise(repeats: Sequence[float]) -> float | None:
    """The standard error of one new measurement minus the mean of these repeats of the
    baseline: s * sqrt(1 + 1/n). None: fewer than two tell nothing."""
    if len(repeats) < 2:
        return None
    return stdev(repeats) * math.sqrt(1 + 1 / len(repeats))


def _measure_delta(
    metric: Metric, before: float | None, candidate: Results
) -> MetricDelta:
    after = candidate.average(metric.name)
    if before is None or after is None:
        return MetricDelta(metric.name, before, after)
    delta = after - before if metric.direction == "max" else before - after
    relative = max(-_CLAMP, min(_CLAMP, delta / (abs(before) or 1.0)))
    return MetricDelta(metric.name, before, after, delta, relative)


def _recommend(
    deltas: Sequence[MetricDelta], options: TreeOptions, flags: Sequence[str]
) -> Recommendation:
    score = _measure_score(deltas, options.metrics)
    primary, gate = deltas[0].relative, options.gate
    reasons = [f"{RISK_REGRESSED}:{name}" for name in flags]
    if primary is None:
        reasons.insert(0, PRIMARY_MISSING)
    elif _falls_by(primary, gate.max_primary_loss):
        reasons.insert(0, PRIMARY_REGRESSED)
    is_safe = not reasons
    if primary is not None and primary > 0:
        reasons.append(PRIMARY_IMPROVED)
    reaches = score is not None and _reaches(score, gate.promising)
    has_more = _has_more_gains(deltas)
    reasons.append(SCORE_REACHED if reaches else SCORE_TOO_LOW)
    reasons += [MORE_GAINS] if has_more else []
    explores = is_safe and (reaches or has_more)
    return Recommendation(explores, find_grade(score, gate), score, tuple(reasons))


def _measure_score(
    deltas: Sequence[MetricDelta], metrics: Sequence[Metric]
) -> float | None:
    known = [
        (metric.weight, one.relative)
        for metric, one in zip(metrics, deltas, strict=True)
        if one.relative is not None
    ]
    total = math.fsum(weight for weight, _ in known)
    return math.fsum(w * change for w, change in known) / total if total else None


def find_grade(score: float | None, gate: GateOptions) -> Grade:
    """The grade of a score; without one it is weak."""
    if score is None or not _reaches(score, gate.mixed):
        return "weak"
    if _reaches(score, gate.strong):
        return "strong"
    return "promising" if _reaches(score, gate.promising) else "mixed"


def _has_more_gains(deltas: Sequence[MetricDelta]) -> bool:
    changes = [one.relative for one in deltas if one.relative is not None]
    losses = sum(change < 0 for change in changes)
    return sum(change > 0 for change in changes) >= max(2, losses + 2)


def _falls_by(relative: float | None, allowed: float) -> bool:
    return relative is not None and not _reaches(relative, -allowed)


def _reaches(value: float, bound: float) -> bool:
    return value >= bound - _ROUNDING
