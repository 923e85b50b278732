"""Near misses of words."""

from __future__ import annotations

from difflib import get_close_matches

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoexp_tui.text.did_you_mean import did_you_mean, find_nearest, find_slip

WORD = st.text("ab1_\u00df\u00c4", max_size=7)


@pytest.mark.parametrize(("word", "known", "hint"), [
    ("stabble", ["stable", "cooldown"], "did you mean `stable`?"),
    ("x", ["stable", "cooldown"], "stages: stable, cooldown"),
    ("?", [f"k{at}" for at in range(20)], "k11 and 8 more"),
    ("x", [], "there are no stages"),
])  # fmt: skip
def test_a_near_word_is_offered(word: str, known: list[str], hint: str) -> None:
    assert did_you_mean(word, known, "stages").endswith(hint)


@given(WORD, st.lists(WORD, max_size=12))
@example("", [""])
@example("ab", ["abc", "abd"])
@example("Stable", ["STABLE"])
def test_the_nearest_is_what_going_through_all_finds(word: str, of: list[str]) -> None:
    folded = {one.casefold(): one for one in of}
    found = get_close_matches(word.casefold(), folded, n=1, cutoff=0.72)
    assert find_nearest(word, of) == (folded[found[0]] if found else None)


def test_among_thousands_of_names_none_is_looked_for() -> None:
    names = [f"job_{at}" for at in range(1001)]
    assert find_nearest("jbo_978", names) is None
    assert find_nearest("jbo_978", names[:-1]) == "job_978"


@pytest.mark.parametrize(("expected", "words"), [
    ("lr", "lrr rl l lx"), ("batch_size", "batch_sze btach_sze bat_size"),
    (None, "xy ba_size lr"),
])  # fmt: skip
def test_a_slip_is_one_edit_or_two(expected: str | None, words: str) -> None:
    found = {word: find_slip(word, ["lr", "batch_size"]) for word in words.split()}
    assert found == dict.fromkeys(words.split(), expected)
    assert find_slip("a", ["b"]) is None
