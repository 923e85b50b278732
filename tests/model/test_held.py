"""How long something has held, as far as somebody looked."""

from __future__ import annotations

from autoexp_tui.model.hold_timer import HeldTimes


def test_what_is_looked_at_has_held_since_and_of_long_times_little_counts() -> None:
    held = HeldTimes(most_between=10.0)
    looks = [held.note("a", holds=True, now=now) for now in (0.0, 5.0, 9.0, 3_600.0)]
    assert looks == [0, 5, 9, 19]


def test_what_did_not_hold_once_begins_anew() -> None:
    held = HeldTimes(most_between=10.0)
    held.note("a", holds=True, now=0.0)
    assert held.note("a", holds=False, now=5.0) == 0.0
    assert "a" not in held
    assert held.note("a", holds=True, now=9.0) == 0.0
