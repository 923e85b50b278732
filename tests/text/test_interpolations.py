"""Where a `${...}` and a string end."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.text.interpolations import Unbalanced, find_end, split_tokens


@pytest.mark.parametrize("text", [
    "${a}", "${a.${b}}", "${f:{a:1}}", "${f:'}'}", '${f:"}"}', "${f:'\\'}'}",
    "${f:'${g:\"}\"}'}", "${oc.eval:int(${a}*2)}",
])  # fmt: skip
def test_an_interpolation_ends_at_its_brace(text: str) -> None:
    assert find_end(f"{text} }}", 0) == len(text)


@pytest.mark.parametrize("text", [
    "${a", "${a${b}", "${'a}", "${'${'${'" * 500, "${oc.eval:'a}", "${oc.eval:{1}",
])  # fmt: skip
def test_what_does_not_close_is_told_at_once(text: str) -> None:
    begun = time.thread_time()
    with pytest.raises(Unbalanced):
        find_end(text, 0)
    assert time.thread_time() - begun < 0.5


@given(st.text(alphabet="${}'\"\\ab.", max_size=40))
def test_the_tokens_are_the_text(text: str) -> None:
    with suppress(Unbalanced):
        assert "".join(split_tokens(text)) == text
    assert split_tokens(r"a${b}\${'x}'") == ["a", "${b}", "\\", "$", "{", "'x}'"]
