"""Widths are exact whatever the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from autoexp_tui.cockpit import spans
from autoexp_tui.cockpit.spans import Span, line, plain
from autoexp_tui.text import spelling

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=60)
LINES = st.lists(st.builds(Span, TEXTS), max_size=5).map(tuple)


@given(TEXTS, st.integers(0, 40))
def test_a_fitted_text_takes_exactly_its_cells(text: str, cells: int) -> None:
    assert cell_len(spans.fit(text, cells)) == cells


@given(TEXTS, st.integers(1, 40))
def test_a_text_shortened_in_the_middle_is_never_too_wide(
    text: str, cells: int
) -> None:
    assert cell_len(spans.shorten_middle(text, cells)) <= cells


@given(LINES, st.integers(1, 40))
def test_a_cut_line_is_never_too_wide(content: spans.Line, cells: int) -> None:
    assert spans.width(spans.cut(content, cells)) <= cells


@given(LINES, st.integers(1, 60))
def test_a_padded_line_takes_exactly_its_cells(content: spans.Line, cells: int) -> None:
    assert spans.width(spans.pad(content, cells)) == cells


@given(LINES, st.integers(12, 60))
def test_no_wrapped_line_is_too_wide(content: spans.Line, cells: int) -> None:
    assert all(spans.width(row) <= cells for row in spans.wrap(content, cells, "    "))


def test_wrapping_loses_no_word() -> None:
    content = line("alpha beta ", Span("gamma delta", "failed"), " epsilon zeta eta")
    rows = spans.wrap(content, 14, "  ")
    assert " ".join(" ".join(plain(row) for row in rows).split()) == plain(content)


def test_a_cut_line_says_so_and_a_short_one_is_left_alone() -> None:
    assert plain(spans.cut(line("abcdef"), 4)) == "abc…"
    assert plain(spans.cut(line("short"), 10)) == "short"


@pytest.mark.parametrize(
    ("left", "shown"),
    [("left", "left   right"), ("a long left end", "a long…right")],
)
def test_both_ends_are_kept_and_the_left_one_gives_way(left: str, shown: str) -> None:
    assert plain(spans.spread(line(left), line("right"), 12)) == shown


def test_text_from_outside_is_one_clean_line() -> None:
    assert spans.outside("a\x1b]52;c;ZXZpbA==\x07b\nc") == "ab c"


@pytest.mark.parametrize(
    ("value", "text"),
    [(98.44, "98.4"), (2.6, "2.6"), (2.0, "2"), (0.012345, "0.0123"), (1234.5, "1230")],
)
def test_a_rate_has_three_digits(value: float, text: str) -> None:
    assert spelling.format_pace(value) == f"{text} steps a second"


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.9144, "2.914"), (12.345, "12.35"), (812.34, "812.3"), (1e-4, "1.0e-4"),
     (0.0, "0.000"), (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"),
     (None, "-")],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("spell", "step", "total", "text"),
    [
        (spelling.format_progress, 31_200, None, "31.2k"),
        (spelling.format_progress, 31_200, 60_000, "31.2k/60k"),
        (spelling.format_percent, 500, None, "500"),
        (spelling.format_percent, 500, 1000, "50 %"),
    ],
)
def test_progress_names_the_total_that_is_known(
    spell: Callable[[int, int | None], str], step: int, total: int | None, text: str
) -> None:
    assert spell(step, total) == text


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([0, 1], "▁█"),
        ([0, math.nan, 1], "▁ █"),
        ([math.nan], ""),
        ([2.0, 2.0], "▁▁"),
        (range(100), "▁▂▃▄▅▆▇█"),
    ],
    ids=["rising", "gap", "nothing", "flat", "thinned"],
)
def test_a_sparkline_has_the_shape_of_its_values(
    values: Sequence[float], drawn: str
) -> None:
    assert spans.render_sparkline(values, 8) == drawn


@pytest.mark.parametrize(("done", "filled"), [(0.001, 1), (7.0, 10), (0.0, 0)])
def test_anything_begun_shows_in_a_bar(done: float, filled: int) -> None:
    bar = "█" * filled + "░" * (10 - filled)
    assert spans.plain(spans.render_bar(done, 10)) == bar


@pytest.mark.parametrize(("t", "text"), [(3600.0, "~01:00"), (3 * 86400.0, "in ~3 d")])
def test_an_end_today_is_a_time_of_day_another_one_a_span(t: float, text: str) -> None:
    assert spelling.format_estimate(t, 0.0) == text
