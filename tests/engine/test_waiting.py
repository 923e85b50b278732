"""How conditions hold jobs back, let them go, and doom them, through whole runs; and
while the wall clock is set by an hour or by a year."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise
from typing import Any, Final
from unittest.mock import Mock

import pytest

from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import Approval, Composite, FileExists, TimeReached
from autoexp_tui.events import events
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.facts import CommandResult
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.states import Result
from tests.engine.bench import Bench, alone, require
from tests.engine.parts import CRASH, LONG, OK, again, done, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript
from tests.support.sim_world import Files

NEVER = FileExists(path="/never")
READY = kinds.LogPattern(log_path="/logs/x.log", pattern="ready")


def waiting(*start: Condition, cancel: tuple[Condition, ...] = ()) -> Bench:
    spec = job("j", start_conditions=start, cancel_conditions=cancel)
    return Bench(plan(spec), {"j": [[LONG]]})


def results(bench: Bench) -> list[str]:
    return [status.result.value for status in bench.job("j").start if status]


def code(bench: Bench, name: str) -> str:
    return bench.wait(name).why.code


@pytest.mark.parametrize(
    "spec",
    [READY, Composite(conditions=(READY, kinds.TimeReached(after_seconds=0.0)))],
)
def test_a_pattern_that_was_found_stays_found_until_the_job_is_brought_back(
    spec: Condition,
) -> None:
    bench = waiting(spec, NEVER)
    bench.files.append("/logs/x.log", b"ready\n")
    bench.run(5)
    del bench.files.data["/logs/x.log"]
    for _ in range(2):
        bench.run(10)
        assert results(bench) == ["pass", "wait"]
        bench.start()
    bench.run(5)
    assert len(bench.happened(events.ConditionLatched)) == 1
    bench.kill("j")
    bench.run(2)
    bench.resubmit("j")
    bench.run(5)
    assert results(bench) == ["wait", "wait"]


def test_a_condition_that_does_not_block_neither_holds_nor_ends_the_wait() -> None:
    spec = FileExists(path="/never", timeout_seconds=10.0, blocking=False)
    bench = waiting(spec, kinds.TimeReached(after_seconds=30.0))
    bench.run(20)
    assert results(bench) == ["fail", "wait"]
    bench.reach(20, j="RUNNING")


def test_a_command_that_keeps_failing_is_asked_ever_more_seldom_whatever_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = (CommandResult(n % 5 or None, f"{n} to go") for n in count())
    see = Mock(side_effect=answers)
    monkeypatch.setattr(Files, "_see", see)
    bench = waiting(kinds.CommandPasses(command=("check",)))
    bench.run(600)
    assert 5 < see.call_count < 20
    verdict = require(bench.live().start[0])
    assert f"{see.call_count - 1} to go" in bench.words(verdict.why)


def test_a_reference_whose_job_ended_without_the_value_is_doomed() -> None:
    best = FileExists(path="/out/{runtime.a.best}")
    b = job("b", 1, depends_on=("a",), start_conditions=(best,))
    bench = Bench(plan(job("a"), b), {"a": [[OK]]})
    bench.run(10)
    assert code(bench, "b") == "no_metadata"
    bench.reach(80, b="SKIPPED")
    assert bench.cause("b") == "upstream"


@pytest.mark.parametrize(
    "refused",
    [
        kinds.LogPattern(log_path="/x", pattern="a(?=b)"),
        kinds.FileContent(path="/x", pattern="a(?=b)", mode="regex"),
    ],
)
def test_a_stored_pattern_that_is_refused_waits_and_is_told_once(
    refused: Condition,
) -> None:
    bench = waiting(refused)
    bench.files.append("/x", b"ab\n")
    bench.run(120)
    assert (bench.state("j"), code(bench, "j")) == ("WAITING", "bad_condition")
    assert bench.warned() == ["bad_condition"]


@pytest.mark.parametrize(("blocking", "end"), [(True, "CANCELLED"), (False, "RUNNING")])
def test_a_file_cancels_what_runs_and_is_looked_at_no_more_or_is_only_shown(
    blocking: bool, end: str
) -> None:
    bench = waiting(cancel=(FileExists(path="/stop", blocking=blocking),))
    bench.reach(j="RUNNING")
    bench.files.append("/stop", b"x")
    bench.run(60)
    assert bench.state("j") == end
    if blocking:
        assert not bench.executor.living()
        assert bench.engine._outside_facts == {}
    else:
        assert require(bench.job("j").cancel[0]).result is Result.PASS


FATAL = kinds.LogPattern(log_path="/logs/a/current.log", pattern="FATAL", writer="a")


@pytest.mark.parametrize(
    "cancel",
    [FATAL, Composite(conditions=(FATAL,)), Composite(mode="any", conditions=(FATAL,))],
)
def test_a_log_whose_job_may_restart_cancels_nobody_however_it_is_asked(
    cancel: Condition,
) -> None:
    waits = {"start_conditions": (done("a"),), "cancel_conditions": (cancel,)}
    jobs = (job("a"), job("b", 1, depends_on=("a",), **waits))
    rules = Monitoring(state_events=(on_end("crash", again(2)),))
    first = writes(says(1.0, "FATAL: out of luck"), seconds=4.0, exit_code=1)
    fresh = writes(says(0.5, "a fresh start"), seconds=5.0)
    bench = Bench(plan(*jobs, monitoring=rules), {"a": [[first], [fresh]]})
    bench.reach(120, b="COMPLETED")


def chain(*attempts: RunScript, **rules: Any) -> Bench:
    """a -> b -> c, each waiting for a file of the one before."""
    specs = [job("a")]
    for index, (before, name) in enumerate(pairwise("abc"), 1):
        waits = (FileExists(path=f"/out/{before}/done", writer=before),)
        specs.append(job(name, index, depends_on=(before,), start_conditions=waits))
    the_plan = plan(*specs, monitoring=Monitoring(**rules))
    return Bench(the_plan, {"a": [[run] for run in attempts]})


@pytest.mark.parametrize("doomed", ["skip", "hold"])
def test_bringing_the_writer_back_brings_the_chain_back(doomed: str) -> None:
    bench = chain(CRASH, LONG, doomed=doomed)
    if doomed == "skip":
        bench.reach(200, c="SKIPPED")
        assert [bench.cause(n) for n in "bc"] == ["upstream", "upstream"]
    else:
        bench.until(lambda: code(bench, "b") == "doomed_file", 100)
    bench.resubmit("a")
    bench.run(5)
    assert bench.states() == {"a": "RUNNING", "b": "WAITING", "c": "WAITING"}
    assert code(bench, "b") == "file_missing"


def test_a_writer_that_will_be_tried_again_dooms_nobody() -> None:
    cooled = (*again(3).conditions, kinds.Cooldown(cooldown_seconds=300.0))
    rule = on_end("crash", replace(again(), conditions=cooled))
    bench = chain(CRASH, CRASH, LONG, state_events=(rule,))
    bench.run(200)
    assert bench.states() == {"a": "RETRYING", "b": "WAITING", "c": "WAITING"}
    assert code(bench, "b") == "file_missing"


HOUR: Final = 3600.0
YEAR: Final = 365.25 * 24 * HOUR
LASTS: Final = 12.0
"""Seconds of each timer."""
Step = pytest.mark.parametrize("step", [-HOUR, HOUR, -YEAR, YEAR])
Anew = pytest.mark.parametrize("anew", [False, True])


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
