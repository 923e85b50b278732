"""Whether a candidate may be promoted: a list of checks, each with its reason.

The gate compares with the parent. It sees what was recorded, and no file. Every check
that fails is told, in order; the first is the reason. `list_doubts` looks at the rows
themselves, once, when they are collected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.model.states import Why, why
from autoexp_tui.tree.options import Metric, TreeOptions
from autoexp_tui.tree.results_csv import Results
from autoexp_tui.tree.scores import PRIMARY_REGRESSED, Comparison
from autoexp_tui.tree.state import Artifact, GateOutcome, Judgement

_FEW_ROWS: Final = 3
"""Rows of which it says little that they have the same value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What the gate asks of an evaluation that ended."""

    judged: Judgement
    baseline: Artifact | None
    """Its parent's results."""
    hashes: Mapping[str, str]
    """Path of an artifact -> its sha256 now; what is not in it is not there."""
    standard_error: float | None = None
    """Of a gain in the primary metric; None: not measured."""

    @property
    def has_completed(self) -> bool:
        return self.judged.outcome == "scored"


def judge_gate(facts: GateFacts, options: TreeOptions) -> GateOutcome:
    """Ask every check; all must let it pass."""
    refusals = tuple(one for check in _CHECKS for one in check(facts, options))
    if refusals:
        return GateOutcome(refusals[0], refusals)
    return GateOutcome(why("gate_passed", **_describe_grade(facts.judged.parent)))


def list_doubts(
    candidate: Results, baseline: Results, options: TreeOptions
) -> tuple[Why, ...]:
    """What makes results suspicious: other rows than the baseline's, values outside
    declared bounds, one value in all rows where the baseline has several."""
    metrics = options.metrics
    found = [
        _find_other_row(candidate, baseline),
        *(_find_outside(candidate, metric) for metric in metrics),
        *(_find_constant(candidate, baseline, metric.name) for metric in metrics),
    ]
    return tuple(one for one in found if one)


def _find_other_row(candidate: Results, baseline: Results) -> Why | None:
    ours, theirs = ({row.config_id for row in r.rows} for r in (candidate, baseline))
    differing = min(ours ^ theirs, default=None)
    if differing is None:
        return None
    fault = "new" if differing in ours else "missing"
    return why("results_other_rows", row=differing, fault=fault)


def _find_outside(results: Results, metric: Metric) -> Why | None:
    low, high = metric.bounds or (None, None)
    least = -math.inf if low is None else low
    most = math.inf if high is None else high
    for row in results.rows:
        if row.is_ok and not least <= (value := row.values[metric.name]) <= most:
            name, at = metric.name, row.config_id
            return why("results_outside_bounds", metric=name, value=value, row=at)
    return None


def _find_constant(candidate: Results, baseline: Results, name: str) -> Why | None:
    ours, theirs = (
        {row.values[name] for row in one.rows if row.is_ok}
        for one in (candidate, baseline)
    )
    if len(ours) != 1 or len(theirs) == 1 or len(candidate.rows) < _FEW_ROWS:
        return None
    rows = len(candidate.rows)
    return why("results_constant", metric=name, value=ours.pop(), rows=rows)


Check: TypeAlias = Callable[[GateFacts, TreeOptions], Iterator[Why]]


def _check_end(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    if not facts.has_completed:
        reason = facts.judged.why
        yield why("eval_not_completed", reason=reason.code if reason else "")
    elif not facts.judged.commit:
        yield why("missing_candidate_commit")


def _check_artifacts(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    """Each is in its place, as it was recorded."""
    sides = {"parent_baseline": (facts.baseline, "the baseline")}
    if facts.has_completed:
        results = (facts.judged.artifact, "its results")
        sides = {"candidate_results": results, **sides}
    for side, (artifact, name) in sides.items():
        if artifact is None:
            yield why(f"missing_{side}")
            continue
        about = {"what": name, "path": artifact.path}
        is_copied = options.artifact_policy == "copy_to_run_root"
        if is_copied and not artifact.path.startswith("artifacts/"):
            yield why(f"{side}_not_in_artifacts", **about)
        now = facts.hashes.get(artifact.path)
        if now is None:
            yield why(f"{side}_not_there", **about)
        elif now != artifact.sha256:
            yield why(f"{side}_changed", **about)


def _check_completeness(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    counts, limit, gate = facts.judged.counts, options.sweep_config_limit, options.gate
    if counts is None:
        if facts.has_completed:
            yield why("missing_candidate_rows_used")
        return
    used, ok, first = counts.rows_used, counts.ok_count, counts.first_error
    if limit is not None:
        if used != limit:
            yield why("candidate_rows_used_mismatch", used=used, expected=limit)
        elif ok != limit:
            yield why("incomplete_or_failed_rows", ok=ok, expected=limit, first=first)
    elif used < gate.min_rows:
        yield why("too_few_rows", used=used, expected=gate.min_rows)
    elif ok / used < gate.min_ok_rate:
        rate = gate.min_ok_rate
        yield why("ok_rate_too_low", ok=ok, used=used, rate=rate, first=first)


def _check_doubts(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    yield from facts.judged.doubts


def _check_primary(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    compared = facts.judged.parent
    delta = compared.primary_delta if compared else None
    reasons = compared.recommendation.reasons if compared else ()
    if delta is None or math.isnan(delta):
        if facts.has_completed:
            yield why("missing_primary_delta")
    elif delta < -options.gate.tolerance or PRIMARY_REGRESSED in reasons:
        yield why("primary_regressed", metric=options.primary.name, delta=delta)


def _check_recommendation(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    if (compared := facts.judged.parent) is None:
        return
    made = compared.recommendation
    if not made.should_explore and made.grade != "mixed":
        told = ", ".join(made.reasons)
        yield why("should_explore_false", reasons=told, **_describe_grade(compared))


def _describe_grade(compared: Comparison | None) -> dict[str, str | float]:
    if compared is None:
        return {}
    score = compared.recommendation.score
    return {
        "grade": compared.recommendation.grade,
        "score": "" if score is None else score,
    }


def _check_noise(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    """One that did not regress is indecisive where it did not gain enough."""
    error, compared = facts.standard_error, facts.judged.parent
    gain = compared.primary_delta if compared else None
    if not options.noise.repeats or gain is None or gain < -options.gate.tolerance:
        return
    if error is None:
        yield why("noise_not_measured")
    elif gain < options.noise.k * error:
        yield why("indecisive", gain=gain, error=error, k=options.noise.k)


_CHECKS: Final[tuple[Check, ...]] = (
    _check_end,
    _check_artifacts,
    _check_completeness,
    _check_doubts,
    _check_primary,
    _check_recommendation,
    _check_noise,
)
"""In the order in which their reasons count."""
