from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.tree.options import GateOptions, Metric, TreeOptions
from autoexp_tui.tree.scores import (
    Grade,
    Recommendation,
    compare_results,
    find_grade,
    measure_noise,
)
from tests.tree.results import make_results

MORE, LESS = Metric(name="a"), Metric(name="b", direction="min", weight=3.0)
RISK = Metric(name="b", direction="min", weight=0.0, risk=True)


def compare(
    baseline: tuple[float, ...], candidate: tuple[float, ...], *metrics: Metric
) -> Recommendation:
    names = " ".join(metric.name for metric in metrics)
    before, after = (make_results(one, metrics=names) for one in (baseline, candidate))
    return compare_results(before, after, TreeOptions(metrics=metrics)).recommendation


@pytest.mark.parametrize(("baseline", "candidate", "metrics", "score", "grade"), [
    ((100,), (112,), (MORE,), 0.12, "strong"),
    ((-100,), (-95,), (MORE,), 0.05, "promising"),  # over |baseline|
    ((0,), (0.5,), (MORE,), 0.5, "strong"),  # over 1
    ((1,), (9,), (MORE,), 2.0, "strong"),  # clamped
    ((1,), (-9,), (MORE,), -2.0, "weak"),
    ((100, 100), (100, 104), (MORE, LESS), -0.03, "weak"),  # (0 * 1 - 0.04 * 3) / 4
    ((100, 100), (104, 100), (MORE, LESS), 0.01, "mixed"),
    ((100, 1), (110, 1.05), (MORE, RISK), 0.1, "strong"),  # without weight
])  # fmt: skip
def test_a_score_is_the_weighted_mean_of_clamped_relative_changes(
    baseline: tuple[float, ...],
    candidate: tuple[float, ...],
    metrics: tuple[Metric, ...],
    score: float,
    grade: str,
) -> None:
    found = compare(baseline, candidate, *metrics)
    assert found.score == pytest.approx(score)
    assert found.grade == grade


@pytest.mark.parametrize(("score", "grade"), [
    (None, "weak"), (0.1, "strong"), (0.0999, "promising"), (0.03, "promising"),
    (0.0299, "mixed"), (-0.02, "mixed"), (-0.0201, "weak"), (1.1 - 1.0, "strong"),
])  # fmt: skip
def test_a_grade_begins_at_its_bound(score: float | None, grade: Grade) -> None:
    assert find_grade(score, GateOptions()) == grade


FIVE = tuple(Metric(name=name) for name in "abcde")


@pytest.mark.parametrize(("baseline", "candidate", "metrics", "explores", "reasons"), [
    ((1,), (1.03,), (MORE,), True, "primary_metric_improved score_reached"),
    ((1,), (1.02,), (MORE,), False, "primary_metric_improved score_too_low"),
    ((1, 1), (0.95, 0.5), (MORE, LESS), True, "score_reached"),
    ((1, 1), (0.94, 0.5), (MORE, LESS), False,
     "primary_metric_regressed score_reached"),
    ((1, 1), (1.5, 1.1), (MORE, RISK), True, "primary_metric_improved score_reached"),
    ((1, 1), (1.5, 1.11), (MORE, RISK), False,
     "risk_metric_regressed:b primary_metric_improved score_reached"),
    ((1,) * 5, (1.001, 1.001, 1.001, 0.999, 1), FIVE, True,
     "primary_metric_improved score_too_low more_gains_than_losses"),
    ((1,) * 5, (1.001, 1.001, 1, 0.999, 1), FIVE, False,
     "primary_metric_improved score_too_low"),
    ((1, 1), (1.01, 1.001), FIVE[:2], True,
     "primary_metric_improved score_too_low more_gains_than_losses"),
])  # fmt: skip
def test_what_is_worth_exploring_gains_without_a_loss_that_matters(
    baseline: tuple[float, ...],
    candidate: tuple[float, ...],
    metrics: tuple[Metric, ...],
    explores: bool,
    reasons: str,
) -> None:
    found = compare(baseline, candidate, *metrics)
    assert (found.should_explore, " ".join(found.reasons)) == (explores, reasons)


def test_without_a_row_that_is_ok_there_is_no_score() -> None:
    options = TreeOptions(metrics=(MORE,))
    found = compare_results(make_results((1,)), make_results("failed"), options)
    assert found.primary_delta is None
    expected = ("primary_metric_missing", "score_too_low")
    assert found.recommendation == Recommendation(False, "weak", None, expected)
    assert (found.baseline_rows_used, found.candidate_rows_used) == (1, 1)


def test_the_largest_deltas_are_the_gains_and_losses_that_count_most() -> None:
    before, after = (
        make_results(values, metrics="a b c d e")
        for values in ((1, 1, 1, 1, 1), (2, 0.5, 1, 1.5, 0.9))
    )
    compared = compare_results(before, after, TreeOptions(metrics=FIVE))
    gains, losses = compared.list_largest_deltas(1)
    assert [one.name for one in (*gains, *losses)] == ["a", "b"]


NUMBERS = st.floats(-1e150, 1e150)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_scores_are_bounded_and_signed_by_direction(
    a: float, b: float, c: float, d: float
) -> None:
    metrics = (MORE, LESS)
    found = compare((a, b), (c, d), *metrics)
    assert found.score is not None
    assert abs(found.score) <= 2.0
    turned = (Metric(name="a", direction="min"), Metric(name="b", weight=3.0))
    assert compare((-a, -b), (-c, -d), *turned) == found
    assert compare((a, b), (a, b), *metrics).score == 0.0


def test_noise_is_that_of_one_more_measurement_beside_the_mean_of_repeats() -> None:
    assert measure_noise([1.0, 2.0, 3.0]) == pytest.approx(math.sqrt(1 + 1 / 3))
    assert measure_noise([1.0]) is None
