"""Series of bounded length."""

from __future__ import annotations

import math
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.snapshot import Curve
from autoexp_tui.telemetry.curves import Curves, ThinnedCurve, Trend, compute_trend

VALUES = st.floats(-1e6, 1e6)


def thinned(dots: list[tuple[int, float]], most: int = 16) -> ThinnedCurve:
    series = ThinnedCurve(most)
    for step, value in dots:
        series.add(step, value)
    return series


def rows(curve: Curve) -> list[tuple[int, float]]:
    return list(zip(curve.steps, curve.values, strict=True))


def test_a_short_series_is_kept_whole() -> None:
    dots = [(step, float(-step)) for step in range(0, 60, 10)]
    assert rows(thinned(dots).curve()) == dots


@given(st.lists(VALUES, max_size=400), st.integers(8, 40))
def test_a_series_never_grows_beyond_its_bound(values: list[float], most: int) -> None:
    assert len(thinned(list(enumerate(values)), most).curve().steps) <= most


@given(st.lists(VALUES, min_size=1, max_size=400))
def test_first_newest_lowest_and_highest_stay(values: list[float]) -> None:
    dots = list(enumerate(values))
    kept = rows(thinned(dots).curve())
    assert (kept[0], kept[-1]) == (dots[0], dots[-1])
    assert min(v for _, v in kept) == min(values)
    assert max(v for _, v in kept) == max(values)


@given(st.lists(st.tuples(st.integers(0, 30), st.floats()), max_size=200))
def test_steps_only_rise_and_dots_are_the_logs_own(
    dots: list[tuple[int, float]],
) -> None:
    kept = rows(thinned(dots).curve())
    assert [step for step, _ in kept] == sorted({step for step, _ in kept})
    assert set(kept) <= set(dots)


@given(st.lists(VALUES, min_size=1, max_size=200), st.integers(0, 250))
def test_a_resumed_run_cuts_what_it_overlaps(values: list[float], step: int) -> None:
    series = thinned(list(enumerate(values)))
    series.add(step, 7.5)
    kept = rows(series.curve())
    assert kept[-1] == (step, 7.5)
    assert all(before < step for before, _ in kept[:-1])


def test_what_came_before_the_resumed_step_stays() -> None:
    series = thinned([(step, float(step)) for step in range(12)], 64)
    series.add(5, 50.0)
    assert rows(series.curve()) == [(n, float(n)) for n in range(5)] + [(5, 50.0)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out(value: float) -> None:
    assert rows(thinned([(1, 1.0), (2, value), (3, 3.0)]).curve()) == [
        (1, 1.0),
        (3, 3.0),
    ]


def test_where_it_was_not_finite_is_kept_however_long_the_run() -> None:
    series = ThinnedCurve(16)
    for step in range(10_000):
        series.add(step, math.nan if step % 50 == 7 else float(step))
    gaps = series.curve().gaps
    assert (gaps[0], gaps[-1], len(gaps)) == (7, 9957, 16)
    assert gaps == tuple(sorted(set(gaps)))


def test_a_resumed_run_cuts_where_it_was_not_finite_too() -> None:
    series = thinned([(1, 1.0), (2, math.nan), (3, math.inf)])
    series.add(3, 3.0)
    assert series.curve().gaps == (2,)


def test_ever_so_many_points_stay_small() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    many = [ThinnedCurve() for _ in range(20)]
    for step in range(10_000):
        for series in many:
            series.add(step, 2.0 + step % 1000 / 1e3)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert (after - before) / len(many) < 24_000
    values = many[0].curve().values
    assert (min(values), max(values)) == (2.0, 2.999)


def test_a_curve_is_the_same_object_until_a_point_comes() -> None:
    series = thinned([(1, 1.0)])
    before = series.curve()
    assert series.curve() is before
    series.add(2, 2.0)
    assert series.curve() is not before


def test_points_of_a_long_series_lie_evenly() -> None:
    steps = thinned([(n, math.sin(n)) for n in range(10_000)], 64).curve().steps
    assert max(after - before for before, after in pairwise(steps)) < 1200


def test_a_trend_is_the_means_of_equal_stretches() -> None:
    assert compute_trend([4.0, 2.0, 3.0, 1.0], 2) == (3.0, 2.0)


@given(st.lists(st.floats(allow_nan=True), max_size=300), st.integers(1, 40))
def test_a_trend_is_bounded_and_finite(values: list[float], n: int) -> None:
    small = [value if abs(value) < 1e300 else math.nan for value in values]
    numbers = compute_trend(small, n)
    assert len(numbers) <= n
    assert all(math.isfinite(number) for number in numbers)


DOTS = st.lists(st.tuples(st.integers(0, 60), VALUES), max_size=60)


@given(DOTS, DOTS)
def test_a_curve_that_was_taken_stays_as_it_was_whenever_it_is_looked_at(
    before: list[tuple[int, float]], after: list[tuple[int, float]]
) -> None:
    series, expected = thinned(before, 8), thinned(before, 8).curve()
    taken = Curves({"loss": series})
    for step, value in after:
        series.add(step, value)
    shown = taken["loss"]
    assert (shown.steps, shown.values) == (expected.steps, expected.values)


def test_a_trend_is_that_of_the_curve_as_it_was_taken() -> None:
    dots = [(step, float(step)) for step in range(100)]
    series, expected = (
        thinned(dots, 512),
        compute_trend(thinned(dots, 512).curve().values, 8),
    )
    taken = Trend(series, 8)
    series.add(100, 1e9)
    assert tuple(taken) == expected
