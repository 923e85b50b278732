"""Series of bounded length; samples of GPUs become means, curves and idle time."""

from __future__ import annotations

import json
import math
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.snapshot import Curve
from autoexp_tui.telemetry.curves import (
    BUSY,
    Curves,
    GpuTrack,
    ThinnedCurve,
    Trend,
    compute_trend,
)

VALUES = st.floats(-1e6, 1e6)
Dots: TypeAlias = list[tuple[int, float]]


def thinned(dots: Dots, most: int = 16) -> ThinnedCurve:
    series = ThinnedCurve(most)
    for step, value in dots:
        series.add(step, value)
    return series


def curve(series: ThinnedCurve) -> Curve:
    return series.snapshot().curve


def rows(shown: Curve) -> Dots:
    return list(zip(shown.steps, shown.values, strict=True))


def test_a_short_series_is_kept_but_for_what_a_resumed_run_overlaps_and_gaps() -> None:
    series = thinned([(step, float(step)) for step in range(12)], 64)
    before = curve(series)
    assert rows(before) == [(n, float(n)) for n in range(12)]
    assert curve(series) is before  # until a point comes
    series.add(5, 50.0)
    assert rows(curve(series)) == [(n, float(n)) for n in range(5)] + [(5, 50.0)]

    series = thinned([(1, 1.0), (2, math.nan), (3, math.inf), (4, -math.inf)])
    series.add(5, 5.0)
    assert rows(curve(series)) == [(1, 1.0), (5, 5.0)]
    series.add(3, 3.0)
    assert rows(curve(series)) == [(1, 1.0), (3, 3.0)]
    assert curve(series).gaps == (2,)


@given(st.lists(VALUES, min_size=1, max_size=400), st.integers(8, 40))
def test_a_bounded_series_keeps_first_newest_lowest_and_highest(
    values: list[float], most: int
) -> None:
    dots = list(enumerate(values))
    kept = rows(curve(thinned(dots, most)))
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (dots[0], dots[-1])
    kept_values = [value for _, value in kept]
    assert (min(kept_values), max(kept_values)) == (min(values), max(values))


@given(st.lists(st.tuples(st.integers(0, 30), st.floats()), max_size=200))
def test_steps_only_rise_and_dots_are_the_logs_own(dots: Dots) -> None:
    kept = rows(curve(thinned(dots)))
    assert [step for step, _ in kept] == sorted({step for step, _ in kept})
    assert set(kept) <= set(dots)


@given(st.lists(st.floats(allow_nan=True), max_size=300), st.integers(1, 40))
def test_a_trend_is_the_means_of_equal_stretches_finite(
    values: list[float], n: int
) -> None:
    assert compute_trend([4.0, 2.0, 3.0, 1.0], 2) == (3.0, 2.0)
    small = [value if abs(value) < 1e300 else math.nan for value in values]
    numbers = compute_trend(small, n)
    assert len(numbers) <= n
    assert all(math.isfinite(number) for number in numbers)


DOTS = st.lists(st.tuples(st.integers(0, 60), VALUES), max_size=60)


@given(DOTS, DOTS)
def test_a_curve_or_trend_that_was_taken_stays_whenever_it_is_looked_at(
    before: Dots, after: Dots
) -> None:
    series, expected = thinned(before, 8), curve(thinned(before, 8))
    taken, trend = Curves({"loss": series}), Trend(series, 8)
    for step, value in after:
        series.add(step, value)
    shown = taken["loss"]
    assert (shown.steps, shown.values) == (expected.steps, expected.values)
    assert tuple(trend) == compute_trend(expected.values, 8)


def sample(t: float, *busy: float | None, **fields: object) -> bytes:
    usual = {"used_mib": 40.0, "total_mib": 80.0, "watts": 300.0, **fields}
    gpus = [{"index": n, "util_percent": one, **usual} for n, one in enumerate(busy)]
    return json.dumps({"t": t, "gpus": gpus}).encode() + b"\n"


def test_several_gpus_are_metrics_of_their_own_beside_their_mean() -> None:
    track = GpuTrack()
    track.add_lines(sample(100.0, 90.0, 70.0))
    assert (track.newest[BUSY], track.newest["gpu1_util"]) == (80.0, 70.0)
    track = GpuTrack()  # what a GPU does not tell is no metric
    track.add_lines(sample(100.0, None, watts=None, used_mib=None))
    assert (track.newest, track.loads[0].busy_percent) == ({}, None)


def test_idle_time_counts_from_the_first_sample_without_work() -> None:
    track = GpuTrack()
    for t, busy in ((0.0, 50.0), (30.0, 0.0), (60.0, 0.0), (630.0, 0.0)):
        track.add_lines(sample(t, busy))
    assert track.idle_seconds == 600.0
    track.add_lines(sample(660.0, 5.0))
    assert track.idle_seconds == 0.0


@pytest.mark.parametrize(("samples", "seconds"), [
    ([(30, 0, 39), (60, 10, 29), (180, 19, 0)], 150.0),  # the mean of a run's GPUs
    ([(30, 5), (60, 20), (90, 5), (120, 5)], 30.0), ([(30, 5), (60, 90)], 0.0),
    ([(30, None), (90, None)], 0.0), ([(90, 5), (60, 5), (100, 5)], 40.0),
])  # fmt: skip
def test_low_use_counts_from_the_first_sample_below_a_fifth(
    samples: list[tuple[float, ...]], seconds: float
) -> None:
    track = GpuTrack()
    for t, *busy in samples:
        track.add_lines(sample(t, *busy))
    assert track.low_seconds == seconds


@pytest.mark.parametrize(
    "line",
    [b"", b"\x00\x00", b'{"t": 1', b"[]", b'{"t": "x", "gpus": [{}]}', b'{"t": 1}'],
)
def test_a_torn_sample_is_none(line: bytes) -> None:
    assert not GpuTrack().add_lines(line + b"\n")
