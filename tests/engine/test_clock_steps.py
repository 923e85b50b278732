"""The wall clock is set by an hour and by a year under every timer, and stays so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Cooldown,
    FileExists,
    TimeReached,
)
from autoexp_tui.events import events
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import clock_time
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

HOUR: Final = 3600.0
YEAR: Final = 365.25 * 24 * HOUR
STEPS: Final = {
    "an hour back": -HOUR,
    "an hour forward": HOUR,
    "a year back": -YEAR,
    "a year forward": YEAR,
}
LASTS: Final = 12.0
"""Seconds of each timer."""
CRASH = RunScript(seconds=2.0, exit_code=1)
OK = RunScript(seconds=5.0)
NEVER = FileExists(path="/never", timeout_seconds=LASTS)

Step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
Anew = pytest.mark.parametrize("anew", [False, True], ids=["lives on", "restarts"])


def waits(*start: Condition, **rules: object) -> Bench:
    """A job that waits, and has been judged."""
    bench = Bench(
        plan(job("j", start_conditions=start), monitoring=Monitoring(**rules))  # type: ignore[arg-type]
    )
    bench.run(2)
    return bench


def set_clock(bench: Bench, step: float, *, anew: bool) -> None:
    """The wall clock is set, and perhaps another engine takes the session."""
    bench.clock.set_utc(bench.clock.utc() + step)
    if anew:
        bench.gap_seconds = max(0.0, step)
        bench.start()
    bench.run(1)


def takes(bench: Bench, holds: Callable[[], bool]) -> float:
    """Seconds until something holds."""
    before = bench.clock.monotonic()
    bench.until(holds, 4 * LASTS)
    return bench.clock.monotonic() - before


def warned_of(bench: Bench) -> set[str]:
    return {warned.why.code for warned in bench.engine.state.warnings.values()}


def crashes_and_cools(**fields: object) -> Plan:
    restart = Restart(conditions=(Cooldown(cooldown_seconds=LASTS),))
    rule = StateEvent(name="again", state="crash", actions=(restart,))
    return plan(job("j"), monitoring=Monitoring(state_events=(rule,), **fields))  # type: ignore[arg-type]


@Step
@Anew
def test_a_cooldown_lasts_as_long_as_it_says(step: float, anew: bool) -> None:
    bench = Bench(crashes_and_cools(), {"j": [[CRASH], [CRASH], [OK]]})
    bench.until(lambda: len(bench.job("j").attempts) == 2, 60)
    bench.until(bench.is_("j", JobState.RETRYING), 60)
    set_clock(bench, step, anew=anew)
    assert takes(bench, lambda: len(bench.job("j").attempts) == 3) <= LASTS + 1


@Step
@Anew
def test_an_action_put_off_by_a_cooldown_fires(step: float, anew: bool) -> None:
    log = Log(message="seen", conditions=(Cooldown(cooldown_seconds=LASTS),))
    rule = LogEvent(name="r", pattern="HIT", actions=(log,))
    script = RunScript(
        seconds=200.0, writes=tuple(Write(at=at, data=b"HIT\n") for at in (1.0, 3.0))
    )
    bench = Bench(
        plan(job("j"), monitoring=Monitoring(log_events=(rule,))), {"j": [[script]]}
    )
    bench.until(lambda: bool(bench.job("j").deferred), 60)
    set_clock(bench, step, anew=anew)
    fired = lambda: len(bench.happened(events.ActionFired)) == 2  # noqa: E731
    assert takes(bench, fired) <= LASTS + 1


@Step
@Anew
@pytest.mark.parametrize(
    ("start", "state"),
    [
        (NEVER, JobState.SKIPPED),
        (TimeReached(after_seconds=LASTS), JobState.RUNNING),
        (
            Approval(prompt="?", timeout_seconds=LASTS, on_timeout="reject"),
            JobState.SKIPPED,
        ),
    ],
    ids=["a time-out", "a span of time", "an approval that nobody gives"],
)
def test_a_wait_is_over_in_its_time(
    start: Condition, state: JobState, step: float, anew: bool
) -> None:
    bench = waits(start)
    set_clock(bench, step, anew=anew)
    took = takes(bench, bench.is_("j", state))
    assert LASTS - 4 <= took <= LASTS + 1
    if start is NEVER:
        assert bench.job("j").cause is Cause.START_TIMEOUT


@Step
@Anew
def test_a_file_that_cannot_come_is_given_up_after_its_grace(
    step: float,
    anew: bool,
) -> None:
    spec = FileExists(path="/out/w/file", writer="w")
    rules = Monitoring(doomed_grace_seconds=LASTS)
    jobs = (job("w"), job("j", 1, start_conditions=(spec,), depends_on=("w",)))
    bench = Bench(plan(*jobs, monitoring=rules), {"w": [[CRASH]]})
    bench.until(lambda: bench.job("w").ended, 60)
    set_clock(bench, step, anew=anew)
    took = takes(bench, bench.is_("j", JobState.SKIPPED))
    assert LASTS - 4 <= took <= 2 * LASTS + 5


@Step
@Anew
def test_a_run_that_goes_on_is_no_stall(step: float, anew: bool) -> None:
    rules = Monitoring(stall_after_seconds=60.0)
    writes = tuple(
        Write(at=float(at), data=f"step {at} loss 1.0\n".encode())
        for at in range(1, 100, 5)
    )
    script = RunScript(seconds=100.0, writes=writes)
    bench = Bench(plan(job("j"), monitoring=rules), {"j": [[script]]})
    bench.run(30)
    set_clock(bench, step, anew=anew)
    bench.run(40)
    assert "stall" not in warned_of(bench)


@Step
@Anew
def test_a_run_that_stands_still_is_a_stall_all_the_same(
    step: float,
    anew: bool,
) -> None:
    rules = Monitoring(stall_after_seconds=60.0)
    writes = tuple(
        Write(at=float(at), data=f"step {at} loss 1.0\n".encode()) for at in (1, 3, 5)
    )
    script = RunScript(seconds=900.0, writes=writes)
    bench = Bench(plan(job("j"), monitoring=rules), {"j": [[script]]})
    bench.run(20)
    set_clock(bench, step, anew=anew)
    bench.until(lambda: "stall" in warned_of(bench), 240)


# ------------------------------------------------------------------ the one that asks
def test_a_time_of_day_comes_by_the_wall_clock() -> None:
    bench = waits()
    at = bench.clock.utc() + HOUR
    bench = waits(TimeReached(at=at))
    bench.clock.set_utc(at)
    assert takes(bench, lambda: bool(bench.job("j").attempts)) <= 6


def test_a_time_of_day_goes_away_with_the_wall_clock() -> None:
    bench = Bench(plan(job("j")))
    at = bench.clock.utc() + 60
    bench = waits(TimeReached(at=at))
    set_clock(bench, -HOUR, anew=False)
    bench.run(120)
    assert bench.job("j").state is JobState.WAITING


# ------------------------------------------------------------------------- people
@pytest.mark.parametrize("anew", [False, True])
def test_a_step_is_told_once_with_its_size(anew: bool) -> None:
    bench = waits(NEVER)
    set_clock(bench, -HOUR, anew=anew)
    bench.run(5)
    told = [
        event
        for event in bench.happened(events.WarningRaised)
        if event.why.code == "clock_set"
    ]
    (event,) = told
    assert event.why.arg("seconds") == pytest.approx(HOUR, abs=5)
    assert sentence(event.why, 0.0).startswith("the wall clock was set back by ")


@Step
def test_ages_and_times_of_day_make_sense_after_a_step(step: float) -> None:
    bench = Bench(plan(job("j")), {"j": [[RunScript(seconds=900.0)]]})
    bench.until(bench.is_("j", JobState.RUNNING), 60)
    bench.run(600)
    set_clock(bench, step, anew=False)
    bench.run(5)
    snapshot, record = bench.snapshots[-1], bench.job("j")
    attempt = record.attempts[-1]
    assert attempt.began_at is not None
    assert snapshot.now - attempt.began_at == pytest.approx(606, abs=10)
    assert snapshot.now - record.since == pytest.approx(606, abs=10)
    assert clock_time(snapshot.now, snapshot.now) == clock_time(bench.clock.utc())


@Step
def test_a_run_over_a_step_took_what_it_took(step: float) -> None:
    bench = Bench(plan(job("j")), {"j": [[RunScript(seconds=100.0)]]})
    bench.until(bench.is_("j", JobState.RUNNING), 60)
    bench.run(20)
    set_clock(bench, step, anew=False)
    bench.until(lambda: bench.job("j").ended, 300)
    attempt = bench.job("j").attempts[-1]
    assert attempt.ended_at is not None
    assert attempt.began_at is not None
    assert attempt.ended_at - attempt.began_at == pytest.approx(100, abs=3)


def test_records_keep_their_order_over_steps() -> None:
    bench = Bench(crashes_and_cools(), {"j": [[CRASH]] * 4 + [[OK]]})
    for step in (-HOUR, YEAR, -2 * YEAR, HOUR):
        bench.run(10)
        set_clock(bench, step, anew=True)
    bench.until(lambda: bench.job("j").ended, 300)
    records = bench.world.session.records
    times = [record.t for record in records]
    assert times == sorted(times)
    lived = [record.lived or 0.0 for record in records]
    assert lived == sorted(lived)
    assert lived[-1] <= bench.clock.monotonic()
