"""The manual clock."""

from __future__ import annotations

import pytest

from autoexp_tui.testing.clock import ManualClock


def test_time_passes_as_told_and_never_goes_back() -> None:
    clock = ManualClock(utc=100.0, monotonic=5.0)
    clock.set_utc(40.0)
    assert (clock.utc(), clock.monotonic()) == (40.0, 5.0)
    clock.advance(1.0)
    assert (clock.utc(), clock.monotonic()) == (41.0, 6.0)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
