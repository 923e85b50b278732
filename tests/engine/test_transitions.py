"""Rules over ends by class, over the ways of jobs between their states, and two rules
that restart after one end: one further attempt, and the other is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, get_args

import pytest

from autoexp_tui.actions.kinds import Log, Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts, MetadataIs
from autoexp_tui.events import events
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import LogEvent, Monitoring, StateClass, StateEvent
from autoexp_tui.model.states import Cause
from tests.engine.bench import Bench, alone
from tests.engine.parts import CRASH, again, finds, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

SAYS = Log(message="{name} at {attempt}")
OK = RunScript(seconds=2.0)


def moves(old: str | None, new: str, *more: StateEvent) -> Monitoring:
    """A rule over a way tells of it."""
    rule = StateEvent(name="moved", transition=(old, new), actions=(SAYS,))
    return Monitoring(state_events=(*more, rule))


def runs_of(rules: Monitoring, *runs: RunScript, **how: Any) -> Bench:
    """One job, whose only attempt has these runs."""
    return Bench(plan(job("a"), monitoring=rules), {"a": [list(runs)]}, **how)


@pytest.mark.parametrize(
    ("state", "script"),
    [
        ("success", OK),
        ("crash", CRASH),
        ("crash", RunScript(seconds=2.0, exit_code=None, signal=11)),
        ("crash", RunScript(seconds=2.0, ends="vanish")),
        ("timeout", replace(OK, cause=Cause.TIMEOUT)),
        ("oom", replace(OK, cause=Cause.OUT_OF_MEMORY)),
        ("node_fail", replace(OK, cause=Cause.NODE_FAIL)),
        ("preempted", replace(OK, cause=Cause.PREEMPTED)),
        ("stall", writes(says(1.0, "iteration 5 | lm loss: 2"))),
    ],
)
def test_an_end_is_of_one_class(state: StateClass, script: RunScript) -> None:
    rules = (
        on_end(name, Log(message=name), name=name) for name in get_args(StateClass)
    )
    given = Monitoring(stall_after_seconds=20.0, state_events=tuple(rules))
    one = alone(script, rules=given)
    one.ends(600)
    assert one.logged() == [state]


REQUEUED = RunScript(seconds=5.0, ends="requeue")
QUEUED = RunScript(begin_delay=5.0)


@pytest.mark.parametrize(
    ("rules", "runs", "told"),
    [
        (moves("QUEUED", "RUNNING"), [QUEUED], 1),
        (
            moves("RUNNING", "QUEUED"),
            [REQUEUED, replace(REQUEUED, begin_delay=5.0), QUEUED],
            2,
        ),
    ],
)
def test_a_way_between_two_states_is_told_each_time(
    rules: Monitoring, runs: list[RunScript], told: int
) -> None:
    one = runs_of(rules, *runs)
    one.reach(a="COMPLETED")
    assert one.logged() == ["a at 1"] * told
    one.start()
    one.run(20)
    assert one.logged() == ["a at 1"] * told  # another engine tells no move again


BAD = finds("bad", "bad (?P<what>.*)", SAYS, reason="what")


def test_a_rule_that_matches_once_does_so_in_each_run() -> None:
    rules = Monitoring(log_events=(replace(BAD, match_once=True),))
    requeued = replace(REQUEUED, writes=(says(1.0, "bad a", "bad b"),))
    one = runs_of(rules, requeued, writes(says(1.0, "bad c"), seconds=5.0))
    one.reach(a="COMPLETED")
    assert len(one.logged()) == 2


LATE: Final = "/late"
"""A file that comes while the second attempt runs."""
FATAL: Final = writes(says(1.0, "FATAL"), seconds=4.0, exit_code=1)
WELL: Final = RunScript(seconds=60.0)
Conditions = tuple[Condition, ...]
CONDITIONS: Final[dict[str, Conditions]] = {
    "none": (),
    "attempts": (MaxAttempts(max_attempts=3),),
    "no more": (MaxAttempts(max_attempts=1),),
    "cooldown": (Cooldown(cooldown_seconds=5.0),),
    "file": (FileExists(path=LATE, timeout_seconds=600.0),),
    "file of old": (FileExists(path=LATE),),
    "metadata": (MetadataIs(key="never", value="1"),),
}


def by_end(name: str, on: str = "none") -> StateEvent:
    restart = Restart(reason=name, conditions=CONDITIONS[on])
    return on_end("crash", restart, name=name)


def after_a_crash(*rules: StateEvent | LogEvent) -> Bench:
    """A job that crashes once and then runs well; seen until that is done.

    What a restart may have waited for comes while the second attempt runs.
    """
    given = Monitoring(
        state_events=tuple(rule for rule in rules if isinstance(rule, StateEvent)),
        log_events=tuple(rule for rule in rules if isinstance(rule, LogEvent)),
    )
    bench = alone(FATAL, WELL, rules=given)
    bench.until(lambda: bench.tries("a") == 2, 60)
    bench.run(20)
    bench.files.append(LATE, b"x")
    bench.ends(600)
    bench.run(20)
    assert (bench.state("a"), bench.tries("a")) == ("COMPLETED", 2)
    return bench


def retries(bench: Bench) -> list[str]:
    """The reasons of the restarts that were decided."""
    happened = bench.happened(events.RetryOrdered)
    return [str(one.why.arg("reason")) for one in happened if not one.held and one.why]


@pytest.mark.parametrize("on", CONDITIONS)
def test_of_two_rules_the_first_that_holds_restarts_once(on: str) -> None:
    bench = after_a_crash(by_end("first"), by_end("second", on))
    assert retries(bench) == ["first"]
    (dropped,) = bench.happened(events.ActionDropped)
    assert (dropped.action, dropped.why.code) == ("second/0", "restarted_already")
    said = finds("said", "FATAL", Restart(reason="said"))
    bench = after_a_crash(by_end("ended", on), said)  # logs come before
    assert retries(bench) == ["said"]
    bench = after_a_crash(by_end("first", on), by_end("second"))
    at_once = on in ("none", "attempts", "cooldown")
    assert retries(bench) == ["first" if at_once else "second"]


def test_no_restart_goes_beyond_its_own_bound() -> None:
    bounds = {"twice": 2, "thrice": 3}
    rules = (on_end("crash", again(n, reason=r), name=r) for r, n in bounds.items())
    bench = alone(FATAL, rules=Monitoring(state_events=tuple(rules)))
    bench.reach(600, a="FAILED")
    assert (retries(bench), bench.tries("a")) == (["twice", "thrice"], 3)
