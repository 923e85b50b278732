"""Who of the ready jobs goes next, and who is told why it does not."""

from __future__ import annotations

from collections.abc import Set

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.indexes import Ready

NOBODY: Set[str] = frozenset()


def ready(**indexes: int) -> Ready:
    made = Ready()
    for name, index in indexes.items():
        made.add(name, index)
    return made


def test_the_lowest_indexes_come_first_whatever_the_order_they_came_in() -> None:
    assert ready(c=3, a=1, b=2).first(2, NOBODY) == ["a", "b"]


def test_who_was_named_but_did_not_start_is_named_again() -> None:
    jobs = ready(a=1, b=2)
    jobs.first(None, NOBODY)
    assert jobs.first(None, NOBODY) == ["a", "b"]


def test_who_left_is_not_named() -> None:
    jobs = ready(a=1, b=2)
    jobs.discard("a")
    assert jobs.first(None, NOBODY) == ["b"]


def test_who_left_and_came_back_is_named_once() -> None:
    jobs = ready(a=1)
    jobs.discard("a")
    jobs.add("a", 1)
    assert jobs.first(None, NOBODY) == ["a"]


def test_who_is_held_gives_its_place_to_the_next() -> None:
    assert ready(a=1, b=2).first(1, frozenset("a")) == ["b"]


def test_each_is_told_a_reason_once() -> None:
    jobs = ready(a=1, b=2)
    assert jobs.untold("slots", NOBODY) == ["a", "b"]
    assert jobs.untold("slots", NOBODY) == []


def test_another_reason_is_told_to_all() -> None:
    jobs = ready(a=1, b=2)
    jobs.untold("slots", NOBODY)
    assert jobs.untold("paused", NOBODY) == ["a", "b"]


def test_a_newcomer_is_told_what_the_others_were_told() -> None:
    jobs = ready(a=1)
    jobs.untold("slots", NOBODY)
    jobs.add("b", 2)
    assert jobs.untold("slots", NOBODY) == ["b"]


def test_who_was_held_is_told_when_it_is_held_no_more() -> None:
    jobs = ready(a=1)
    assert jobs.untold("slots", frozenset("a")) == []
    assert jobs.untold("slots", NOBODY) == ["a"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.booleans(), st.integers(0, 3)),
        max_size=60,
    )
)
def test_it_names_what_a_sorted_set_would(
    steps: list[tuple[str, bool, int]],
) -> None:
    jobs, model = Ready(), set[str]()
    for name, comes, most in steps:
        if comes:
            jobs.add(name, ord(name))
            model.add(name)
        else:
            jobs.discard(name)
            model.discard(name)
        assert jobs.first(most, NOBODY) == sorted(model)[:most]
    assert set(jobs) == model
