"""Numbers stay short and true."""

from __future__ import annotations

import math

import pytest

from autoexp_tui.cockpit import spans
from autoexp_tui.text import spelling


@pytest.mark.parametrize(
    ("value", "text"),
    [(98.44, "98.4"), (2.6, "2.6"), (2.0, "2"), (0.012345, "0.0123"), (1234.5, "1230")],
)
def test_a_rate_has_three_digits(value: float, text: str) -> None:
    assert spelling.format_pace(value) == f"{text} steps a second"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.9144, "2.914"),
        (12.345, "12.35"),
        (812.34, "812.3"),
        (1e-4, "1.0e-4"),
        (0.0, "0.000"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (None, "-"),
    ],
)
def test_a_measure_has_four_digits(value: float | None, text: str) -> None:
    assert spelling.format_metric(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (65, "1m05"),
        (3 * 3600 + 12 * 60, "3h12"),
        (2 * 86400 + 4 * 3600, "2d04"),
        (None, "-"),
    ],
)
def test_elapsed_time_takes_five_cells(seconds: float | None, text: str) -> None:
    assert spelling.format_elapsed(seconds) == text


def test_progress_without_a_total_is_the_step() -> None:
    assert spelling.format_progress(31_200, None) == "31.2k"


def test_progress_with_a_total_names_both() -> None:
    assert spelling.format_progress(31_200, 60_000) == "31.2k/60k"


def test_a_percentage_needs_a_total() -> None:
    assert spelling.format_percent(500, None) == "500"
    assert spelling.format_percent(500, 1000) == "50 %"


def test_a_sparkline_is_not_wider_than_asked() -> None:
    assert len(spans.render_sparkline(range(100), 8)) == 8


def test_a_sparkline_rises_with_its_values() -> None:
    assert spans.render_sparkline([0, 1], 8) == "▁█"


def test_what_is_not_finite_leaves_a_gap() -> None:
    assert spans.render_sparkline([0, math.nan, 1], 8) == "▁ █"


def test_nothing_finite_draws_nothing() -> None:
    assert spans.render_sparkline([math.nan], 8) == ""


def test_a_flat_line_is_drawn() -> None:
    assert spans.render_sparkline([2.0, 2.0], 8) == "▁▁"


def test_anything_begun_shows_in_a_bar() -> None:
    assert spans.plain(spans.render_bar(0.001, 10)) == "█" + "░" * 9


def test_a_bar_is_never_longer_than_its_cells() -> None:
    assert spans.plain(spans.render_bar(7.0, 10)) == "█" * 10


def test_an_end_today_is_a_time_of_day() -> None:
    assert spelling.format_estimate(3600.0, 0.0) == "~01:00"


def test_an_end_on_another_day_is_a_span() -> None:
    assert spelling.format_estimate(3 * 86400.0, 0.0).startswith("in ~3 d")
