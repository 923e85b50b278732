"""Whether a candidate may be promoted: a list of checks, each with its reason.

The gate compares with the parent. It sees facts that were recorded (commit, files and
checksums, counts, the comparison) and no file. Every check that fails is told, in
order; the first is the reason. `list_doubts` looks at the rows themselves, once, when
they are collected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.states import Why, why
from autoexp_tui.tree.options import Metric, TreeOptions
from autoexp_tui.tree.results_csv import Results, RowCounts
from autoexp_tui.tree.scores import PRIMARY_REGRESSED, Comparison

Side: TypeAlias = Literal["candidate_results", "parent_baseline"]
_NAMES: Final = {"candidate_results": "its results", "parent_baseline": "the baseline"}
_FEW_ROWS: Final = 3
"""Rows of which it says little that they have the same value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A file of results, as it was recorded and as it is now."""

    path: str
    sha256: str
    """When it was recorded."""
    sha256_now: str
    """Empty: it is not there."""
    in_artifacts: bool = True
    """Whether it lies in the run's own directory of artifacts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What is known of an evaluation that ended."""

    completed: bool = True
    ended_by: str = ""
    """Why it did not complete, in a few words."""
    commit: str = ""
    candidate_results: CheckedFile | None = None
    parent_baseline: CheckedFile | None = None
    counts: RowCounts | None = None
    comparison: Comparison | None = None
    """With the parent."""
    doubts: tuple[Why, ...] = ()
    """Of `list_doubts`."""
    standard_error: float | None = None
    """Of a gain in the primary metric (`scores.measure_noise`); None: not measured."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    why: Why
    """The first refusal, or with what it passed."""
    refusals: tuple[Why, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.refusals

    @property
    def primary_regressed(self) -> bool:
        return any(one.code == "primary_regressed" for one in self.refusals)


def judge_gate(facts: GateFacts, options: TreeOptions) -> GateOutcome:
    """Ask every check; all must let it pass."""
    refusals = tuple(one for check in _CHECKS for one in check(facts, options))
    if refusals:
        return GateOutcome(refusals[0], refusals)
    return GateOutcome(why("gate_passed", **_describe_grade(facts.comparison)))


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
    least, most = (
        -math.inf if low is None else low,
        math.inf if high is None else high,
    )
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
    if not facts.completed:
        yield why("eval_not_completed", reason=facts.ended_by)
    elif not facts.commit:
        yield why("missing_candidate_commit")


def _check_artifacts(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    if facts.completed:
        yield from _check_artifact("candidate_results", facts, options)
    yield from _check_artifact("parent_baseline", facts, options)


def _check_artifact(
    side: Side, facts: GateFacts, options: TreeOptions
) -> Iterator[Why]:
    artifact: CheckedFile | None = getattr(facts, side)
    if artifact is None:
        yield Why(f"missing_{side}")
        return
    about = {"what": _NAMES[side], "path": artifact.path}
    if options.artifact_policy == "copy_to_run_root" and not artifact.in_artifacts:
        yield Why(f"{side}_not_in_artifacts", tuple(about.items()))
    if not artifact.sha256_now:
        yield Why(f"{side}_not_there", tuple(about.items()))
    elif artifact.sha256_now != artifact.sha256:
        yield Why(f"{side}_changed", tuple(about.items()))


def _check_completeness(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    counts, limit, gate = facts.counts, options.sweep_config_limit, options.gate
    if counts is None:
        if facts.completed:
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
    yield from facts.doubts


def _check_primary(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    compared = facts.comparison
    delta = compared.primary_delta if compared else None
    reasons = compared.recommendation.reasons if compared else ()
    if delta is None or math.isnan(delta):
        if facts.completed:
            yield why("missing_primary_delta")
    elif delta < -options.gate.tolerance or PRIMARY_REGRESSED in reasons:
        yield why("primary_regressed", metric=options.primary.name, delta=delta)


def _check_recommendation(facts: GateFacts, options: TreeOptions) -> Iterator[Why]:
    if (compared := facts.comparison) is None:
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
    error, compared = facts.standard_error, facts.comparison
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
