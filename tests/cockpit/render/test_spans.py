"""Widths are exact whatever the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from autoexp_tui.cockpit import spans
from autoexp_tui.cockpit.spans import Span, line, plain

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
