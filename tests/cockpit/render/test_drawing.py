"""Widths are exact whatever the text; curves, bars and numbers have their shape."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from autoexp_tui.cockpit import spans
from autoexp_tui.cockpit.render.plot import render_legend, render_plot
from autoexp_tui.cockpit.spans import Span, line, plain, width
from autoexp_tui.cockpit.state.curves import Frame, Series
from autoexp_tui.model.snapshot import Curve
from autoexp_tui.text import spelling
from tests.planning.plans import job

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=60)
LINES = st.lists(st.builds(Span, TEXTS), max_size=5).map(tuple)


@given(TEXTS, LINES, st.integers(1, 60))
def test_no_text_is_wider_than_its_cells(
    text: str, content: spans.Line, cells: int
) -> None:
    assert cell_len(spans.fit(text, cells)) == cells
    assert cell_len(spans.shorten(text, cells, middle=True)) <= cells
    assert width(spans.cut(content, cells)) <= cells
    assert width(spans.pad(content, cells)) == cells
    rows = spans.wrap(content, cells + 11, "    ")
    assert all(width(row) <= cells + 11 for row in rows)


def test_wrapping_loses_no_word_and_a_cut_says_so() -> None:
    content = line("alpha beta ", Span("gamma delta", "failed"), " epsilon zeta eta")
    rows = spans.wrap(content, 14, "  ")
    assert " ".join(" ".join(plain(row) for row in rows).split()) == plain(content)
    assert spans.fit("abc", 0) == ""
    assert spans.fit("abc", 5, right=True) == "  abc"
    assert (
        plain(spans.spread(line("a long left end"), line("right"), 12))
        == "a long…right"
    )
    assert spans.shorten("漢字漢字漢字", 8, middle=True) == "漢字…字"
    assert plain(spans.cut(line("abcdef"), 4)) == "abc…"
    assert plain(spans.cut(line("short"), 10)) == "short"
    assert spans.outside("a\x1b]52;c;ZXZpbA==\x07b\nc") == "ab c"


def spell(function: Callable[..., str], *values: object) -> str:
    """Each value as the function spells it; a pair is a step and its total."""
    given = [one if isinstance(one, tuple) else (one,) for one in values]
    return " ".join(function(*one) for one in given)


def test_numbers_are_spelled_in_few_cells() -> None:
    measures = (2.9144, 12.345, 812.34, 1e-4, 0.0, math.nan, -math.inf, None)
    told = "2.914 12.35 812.3 1e-4 0.000 nan -inf - 0.9812 1.5e-3 -0.0251"
    small = (0.98123, 1.5e-3, -0.0251)
    assert spell(spelling.format_metric, *measures, *small) == told
    elapsed = (0, 59.9, 65, 3 * 3600 + 12 * 60, 2 * 86400 + 4 * 3600, None)
    assert spell(spelling.format_elapsed, *elapsed) == "0s 59s 1m05 3h12 2d04 -"
    paces = spell(spelling.format_pace, 98.44, 2.6, 2.0, 0.012345, 1234.5)
    assert paces.replace(" steps a second", "") == "98.4 2.6 2 0.0123 1230"
    ends = ((3600.0, 0.0), (3 * 86400.0, 0.0))
    assert spell(spelling.format_estimate, *ends) == "~01:00 in ~3 d"
    steps = ((31_200, None), (31_200, 60_000))
    assert spell(spelling.format_progress, *steps) == "31.2k 31.2k/60k"
    assert spell(spelling.format_percent, (500, None), (500, 1000)) == "500 50 %"


def test_a_sparkline_has_the_shape_of_its_values() -> None:
    given = ([0, 1], [0, math.nan, 1], [math.nan], [2.0, 2.0], range(100))
    drawn = [spans.render_sparkline(values, 8) for values in given]
    assert drawn == ["▁█", "▁ █", "", "▁▁", "▁▂▃▄▅▆▇█"]


FALLING = Curve((0, 100, 200), (4.0, 3.0, 2.0))


def series(name: str, curve: Curve, place: int = 0) -> Series:
    best = curve.find_best(rising=False)
    return Series(name, name, job(name, place), curve, best, place)


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(NUMBERS, max_size=40), st.booleans(), st.sampled_from([30, 60, 119]))
def test_any_values_can_be_drawn_and_no_row_is_too_wide(
    values: list[float], log: bool, cells: int
) -> None:
    curve = Curve(tuple(range(len(values))), tuple(values))
    frame = Frame(log_x=log, log_y=log, cursor=3)
    known = [series("a", FALLING), series("b" * 200, curve, place=1)]
    drawn = [one.draw(0.9, faint=True) for one in known]
    rows = [*render_plot(drawn, cells, 14, frame)]
    rows += render_legend([("loss", known)], [False], frame, cells)
    assert all(width(row) <= cells for row in rows)
