"""Text in columns: what is cut, wrapped and padded, wide characters counted as two."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.wording import columns
from autoexp_tui.planning.chart_text import cut, hanging, pad, said, wrapped


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefghij", 6, "abc…ij"),
        ("日本語日本語", 7, "日…語"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_the_middle_is_cut(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


def test_padding_counts_wide_characters_as_two() -> None:
    assert pad("日本", 6) == "日本  "


def test_lines_break_at_blanks_and_long_words_where_the_line_ends() -> None:
    assert wrapped("ab cd abcdefgh i", 5) == ["ab cd", "abcde", "fgh i"]


def test_an_empty_text_is_one_empty_line() -> None:
    assert wrapped("", 5) == [""]


def test_further_lines_hang_beside_the_head() -> None:
    assert hanging("- ", "ab cd", 4) == ["- ab", "  cd"]


@settings(deadline=None)
@given(st.text(), st.integers(2, 30))
def test_wrapping_loses_nothing_and_keeps_to_the_width(text: str, width: int) -> None:
    clean = said(text)
    lines = wrapped(clean, width)
    assert "".join(lines).replace(" ", "") == clean.replace(" ", "")
    assert max(map(columns, lines)) <= width
