"""Where interpolations end."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.sweep.interpolation_scanner import (
    find_interpolation_end,
    split_interpolations,
)


@pytest.mark.parametrize("text", [
    "${a}", "${a.${b}}", "${f:{a:1}}", "${f:'}'}", '${f:"}"}', "${f:'\\'}'}",
    "${f:'${g:\"}\"}'}", "${oc.eval:int(${a}*2)}",
])  # fmt: skip
def test_an_interpolation_ends_at_its_brace(text: str) -> None:
    assert find_interpolation_end(f"{text} }}", 0) == len(text)


@pytest.mark.parametrize("text", ["${a", "${a${b}", "${'a}", "${'${'${'" * 500])
def test_what_does_not_close_has_no_end(text: str) -> None:
    began = time.thread_time()
    assert find_interpolation_end(text, 0) == -1
    assert time.thread_time() - began < 0.5


@given(st.text(alphabet="${}'\"\\ab.", max_size=40))
def test_the_pieces_are_the_text(text: str) -> None:
    assert "".join(piece for piece, _ in split_interpolations(text)) == text
    assert list(split_interpolations(r"a${b}c\${d}${e}")) == [
        ("a", False), ("${b}", True), (r"c\${d}", False), ("${e}", True),
    ]  # fmt: skip
