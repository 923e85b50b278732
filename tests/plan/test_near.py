"""Near misses of words."""

from __future__ import annotations

import pytest

from autoexp_tui.plan.near import did_you_mean, nearest, slip_of


def test_a_near_word_is_offered() -> None:
    assert did_you_mean("stabble", ["stable", "cooldown"], "stages") == (
        "did you mean `stable`?"
    )


def test_without_a_near_word_the_candidates_are_listed_in_their_order() -> None:
    assert did_you_mean("x", ["stable", "cooldown"], "stages") == (
        "stages: stable, cooldown"
    )


def test_many_candidates_are_counted() -> None:
    hint = did_you_mean("?", [f"k{at}" for at in range(20)], "keys")
    assert hint.endswith("k11 and 8 more")


def test_no_candidates_is_said() -> None:
    assert did_you_mean("x", [], "stages") == "there are no stages"


def test_case_does_not_matter() -> None:
    assert nearest("Stable", ["STABLE"]) == "STABLE"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("lrr", "lr"),
        ("rl", "lr"),
        ("l", "lr"),
        ("lx", "lr"),
        ("xy", None),
        ("batch_sze", "batch_size"),
        ("btach_sze", "batch_size"),
        ("bat_size", "batch_size"),
        ("ba_size", None),
        ("lr", None),
    ],
)
def test_a_slip_is_one_edit_or_two_in_long_words(
    word: str, expected: str | None
) -> None:
    assert slip_of(word, ["lr", "batch_size"]) == expected


def test_single_letters_are_no_slips_of_each_other() -> None:
    assert slip_of("a", ["b"]) is None
