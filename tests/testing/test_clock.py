"""The manual clock."""

from __future__ import annotations

import pytest

from autoexp_tui.testing.clock import ManualClock


def test_setting_the_wall_clock_back_lets_no_time_pass() -> None:
    clock = ManualClock(utc=100.0, monotonic=5.0)
    clock.set_utc(40.0)
    assert (clock.utc(), clock.monotonic()) == (40.0, 5.0)


def test_advancing_to_what_is_over_does_nothing() -> None:
    clock = ManualClock(utc=100.0, monotonic=5.0)
    clock.advance_to(4.0)
    assert clock.monotonic() == 5.0
    clock.advance_to(6.0)
    assert clock.monotonic() == 6.0


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance(-1)
