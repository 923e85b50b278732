"""Rules over silence and standstill, seen through whole runs on fakes."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.stop import Cancel
from autoexp_tui.events import events
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

NOTE = Log(message="{name}: {line}")


def says(at: float, text: str) -> Write:
    return Write(at=at, data=text.encode() + b"\n")


def silent(after: float = 30.0, **fields: object) -> LogEvent:
    given = {"name": "silent", "pattern_type": "inactivity", "actions": (NOTE,)}
    return LogEvent(**{**given, "after_seconds": after, **fields})  # type: ignore[arg-type]


def progress(after: float = 30.0, **fields: object) -> LogEvent:
    return silent(after, **{"name": "steps", "pattern_type": "progress", **fields})


def watched(*rules: LogEvent, states: tuple[StateEvent, ...] = ()) -> Plan:
    made = Monitoring(log_events=rules, state_events=states)
    return plan(job("a", stage="train"), monitoring=made)


def bench(the_plan: Plan, *scripts: RunScript) -> Bench:
    return Bench(the_plan, {"a": [[script] for script in scripts]})


def messages(one: Bench) -> list[str]:
    return [event.text for event in one.happened(events.MessageLogged)]


def step(at: float, number: int) -> Write:
    return says(at, f"iteration {number}/1000 | lm loss: 2.5")


HANGS = RunScript(seconds=9000.0, writes=(step(1.0, 10), step(2.0, 20)))
NOISY = RunScript(
    seconds=500.0,
    writes=(step(1.0, 10), *(says(n * 5.0, "noise") for n in range(1, 99))),
)


def test_a_growing_log_does_not_hide_that_the_counter_stands() -> None:
    one = bench(watched(silent(), progress()), NOISY)
    one.run(60)
    assert messages(one) == ["a: no step after 10 for 30 s"]


def test_a_run_may_be_ended_as_a_stall_by_a_rule_of_its_own() -> None:
    one = bench(watched(progress(actions=(Cancel(cause="stall"),))), NOISY)
    one.until(one.is_("a", JobState.FAILED), 100)
    assert one.job("a").cause is Cause.STALL


def test_another_engine_does_not_repeat_what_was_told() -> None:
    one = bench(watched(silent(), progress()), HANGS)
    one.run(60)
    told = messages(one)
    one.start()
    one.run(120)
    assert messages(one) == told
    assert len(told) == 2


def test_another_engine_counts_from_its_first_look() -> None:
    one = bench(watched(silent()), HANGS)
    one.run(25)
    one.clock.advance(3600.0)  # nobody lived meanwhile
    one.start()
    one.run(25)
    assert messages(one) == []
    one.run(20)
    assert len(messages(one)) == 1


@pytest.mark.parametrize("seconds", [100.0, 3600.0])
def test_a_jump_of_the_clock_is_no_silence_and_no_stall(seconds: float) -> None:
    rules = Monitoring(
        stall_after_seconds=60.0,
        log_events=(silent(60.0), progress(60.0)),
        state_events=(StateEvent(name="stalled", state="stall"),),
    )
    script = RunScript(seconds=9000.0, writes=(step(1.0, 10),))
    one = bench(plan(job("a"), monitoring=rules), script)
    one.run(30)
    one.clock.advance(seconds)  # the machine slept
    one.run(45)
    assert (messages(one), one.engine.state.warnings) == ([], {})
    assert one.job("a").state is JobState.RUNNING


def test_a_match_once_rule_fires_once_a_run() -> None:
    writes = (says(1.0, "up"), says(60.0, "again"), says(120.0, "and again"))
    script = RunScript(seconds=300.0, writes=writes)
    one = bench(watched(silent(match_once=True)), script)
    one.run(200)
    assert len(messages(one)) == 1


def test_a_requeued_run_counts_anew() -> None:
    requeued = RunScript(seconds=25.0, ends="requeue")
    waits = RunScript(seconds=500.0, begin_delay=60.0)
    one = Bench(watched(silent()), {"a": [[requeued, waits]]})
    one.run(110)
    assert one.job("a").attempts[-1].run == 1
    assert messages(one) == []
    one.run(20)
    assert messages(one) == ["a: no new output for 30 s"]


def test_a_stall_rule_of_another_stage_ends_nothing() -> None:
    rules = Monitoring(
        stall_after_seconds=30.0,
        state_events=(StateEvent(name="s", state="stall", stages=("cooldown",)),),
    )
    one = bench(plan(job("a", stage="stable"), monitoring=rules), HANGS)
    one.run(60)
    assert one.job("a").state is JobState.RUNNING
    assert one.warned() == ["stall"]
