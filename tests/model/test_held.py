"""How long something has held, as far as somebody looked."""

from __future__ import annotations

from autoexp_tui.model.hold_timer import HeldTimes


def test_what_is_looked_at_often_has_held_since_the_first_look() -> None:
    held = HeldTimes(most_between=10.0)
    assert [held.note("a", holds=True, now=now) for now in (0.0, 5.0, 9.0)] == [0, 5, 9]


def test_of_a_long_time_without_a_look_only_a_little_counts() -> None:
    held = HeldTimes(most_between=10.0)
    held.note("a", holds=True, now=0.0)
    assert held.note("a", holds=True, now=3_600.0) == 10.0
    assert held.note("a", holds=True, now=3_605.0) == 15.0


def test_what_did_not_hold_once_begins_anew() -> None:
    held = HeldTimes(most_between=10.0)
    held.note("a", holds=True, now=0.0)
    assert held.note("a", holds=False, now=5.0) == 0.0
    assert "a" not in held
    assert held.note("a", holds=True, now=9.0) == 0.0


def test_keys_are_apart() -> None:
    held = HeldTimes(most_between=10.0)
    held.note("a", holds=True, now=0.0)
    held.note("b", holds=True, now=4.0)
    held.note("a", holds=False, now=5.0)
    assert held.note("b", holds=True, now=6.0) == 2.0
