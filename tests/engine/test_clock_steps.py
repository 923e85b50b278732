"""The wall clock is set by an hour and by a year under every timer, and stays so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from autoexp_tui.conditions.kinds import Approval, FileExists, TimeReached
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Monitoring
from tests.engine.bench import Bench, alone
from tests.engine.parts import LONG, says, writes

HOUR: Final = 3600.0
YEAR: Final = 365.25 * 24 * HOUR
LASTS: Final = 12.0
"""Seconds of each timer."""
Step = pytest.mark.parametrize(
    "step",
    [-HOUR, HOUR, -YEAR, YEAR],
    ids=["an hour back", "an hour forward", "a year back", "a year forward"],
)
Anew = pytest.mark.parametrize("anew", [False, True], ids=["lives on", "restarts"])


def waits(*start: Condition) -> Bench:
    """A job that waits, and has been judged."""
    bench = alone(LONG, start_conditions=start)
    bench.run(2)
    return bench


def set_clock(bench: Bench, step: float, anew: bool) -> Bench:
    """The wall clock is set, and perhaps another engine takes the session."""
    bench.clock.set_utc(bench.clock.utc() + step)
    if anew:
        bench.gap_seconds = max(0.0, step)
        bench.start()
    bench.run(1)
    return bench


def takes(bench: Bench, holds: Callable[[], bool]) -> float:
    """Seconds until something holds."""
    before = bench.clock.monotonic()
    bench.until(holds, 4 * LASTS)
    return bench.clock.monotonic() - before


ANSWERED: dict[str, Any] = {"timeout_seconds": LASTS, "on_timeout": "reject"}


@Step
@Anew
@pytest.mark.parametrize(
    ("start", "state", "cause"),
    [
        (FileExists(path="/x", timeout_seconds=LASTS), "SKIPPED", "start_timeout"),
        (TimeReached(after_seconds=LASTS), "RUNNING", None),
        (Approval(**ANSWERED), "SKIPPED", "approval_refused"),
    ],
    ids=["a time-out", "a span of time", "an approval that nobody gives"],
)
def test_a_wait_is_over_in_its_time(
    start: Condition, state: str, cause: str | None, step: float, anew: bool
) -> None:
    bench = set_clock(waits(start), step, anew)
    took = takes(bench, lambda: bench.state("a") == state)
    assert LASTS - 4 <= took <= LASTS + 1
    assert bench.cause("a") == cause


@Step
@Anew
def test_only_a_run_that_stands_still_is_a_stall(step: float, anew: bool) -> None:
    lines = (says(float(at), f"step {at} loss 1.0") for at in range(1, 70, 5))
    bench = alone(writes(*lines), rules=Monitoring(stall_after_seconds=60.0))
    bench.run(30)
    set_clock(bench, step, anew)
    bench.run(40)
    assert "stall" not in bench.warned()
    bench.until(lambda: "stall" in bench.warned(), 240)


def test_a_time_of_day_comes_and_goes_away_by_the_wall_clock() -> None:
    at = waits().clock.utc() + HOUR
    bench = waits(TimeReached(at=at))
    bench.clock.set_utc(at)
    assert takes(bench, lambda: bench.tries("a") == 1) <= 6
    bench = set_clock(waits(TimeReached(at=at - HOUR + 60)), -HOUR, anew=False)
    bench.run(120)
    assert bench.state("a") == "WAITING"
