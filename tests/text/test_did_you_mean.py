"""Near misses of words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoexp_tui.text.did_you_mean import did_you_mean, find_nearest, find_slip


@pytest.mark.parametrize(
    ("word", "candidates", "hint"),
    [
        ("stabble", ["stable", "cooldown"], "did you mean `stable`?"),
        ("x", ["stable", "cooldown"], "stages: stable, cooldown"),
        ("?", [f"k{at}" for at in range(20)], "k11 and 8 more"),
        ("x", [], "there are no stages"),
    ],
)
def test_a_near_word_is_offered_or_what_there_is(
    word: str, candidates: Sequence[str], hint: str
) -> None:
    assert did_you_mean(word, candidates, "stages").endswith(hint)


def test_case_does_not_matter() -> None:
    assert find_nearest("Stable", ["STABLE"]) == "STABLE"


WORD = st.text("ab1_\u00df\u00c4", max_size=7)


@given(WORD, st.lists(WORD, max_size=12))
@example("", [""])
@example("ab", ["abc", "abd"])
def test_the_nearest_is_the_one_that_going_through_all_finds(
    word: str, candidates: Sequence[str]
) -> None:
    folded = {one.casefold(): one for one in candidates}
    found = get_close_matches(word.casefold(), folded, n=1, cutoff=0.72)
    assert find_nearest(word, candidates) == (folded[found[0]] if found else None)


def test_among_thousands_of_names_none_is_looked_for() -> None:
    names = [f"job_{at}" for at in range(1001)]
    assert find_nearest("jbo_978", names) is None
    assert find_nearest("jbo_978", names[:-1]) == "job_978"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((word, "lr") for word in ("lrr", "rl", "l", "lx")),
        *((word, "batch_size") for word in ("batch_sze", "btach_sze", "bat_size")),
        *((word, None) for word in ("xy", "ba_size", "lr")),
    ],
)
def test_a_slip_is_one_edit_or_two_in_long_words(
    word: str, expected: str | None
) -> None:
    assert find_slip(word, ["lr", "batch_size"]) == expected
    assert find_slip("a", ["b"]) is None
