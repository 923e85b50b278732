"""Rules over ends by class, and over the ways of jobs between their states."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.actions.stop import Cancel
from autoexp_tui.conditions.kinds import JobStateIs, MaxAttempts
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.rules import LogEvent, Monitoring, StateClass, StateEvent
from autoexp_tui.model.states import Cause, JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import Fault, RunScript, Write

SAYS = Log(message="{name} at {attempt}")
LONG = RunScript(seconds=500.0)
STANDS = RunScript(
    seconds=500.0, writes=(Write(at=1.0, data=b"iteration 5 | lm loss: 2\n"),)
)


def on(old: str | None, new: str, *actions: Log | Restart | Cancel) -> Monitoring:
    rule = StateEvent(name="moved", transition=(old, new), actions=actions or (SAYS,))
    return Monitoring(state_events=(rule,))


def bench(rules: Monitoring, *runs: RunScript, **fields: object) -> Bench:
    """One job, whose only attempt has these runs."""
    the_plan = plan(job("a", stage="train"), monitoring=rules)
    return Bench(the_plan, {"a": [list(runs)]}, **fields)  # type: ignore[arg-type]


def told(one: Bench) -> list[str]:
    return [event.text for event in one.happened(events.MessageLogged)]


# -------------------------------------------------------------------------- by class
@pytest.mark.parametrize(
    ("state", "script"),
    [
        ("success", RunScript(seconds=2.0)),
        ("crash", RunScript(seconds=2.0, exit_code=1)),
        ("crash", RunScript(seconds=2.0, exit_code=None, signal=11)),
        ("crash", RunScript(seconds=2.0, ends="vanish")),
        ("timeout", RunScript(seconds=2.0, cause=Cause.TIMEOUT)),
        ("oom", RunScript(seconds=2.0, cause=Cause.OUT_OF_MEMORY)),
        ("node_fail", RunScript(seconds=2.0, cause=Cause.NODE_FAIL)),
        ("preempted", RunScript(seconds=2.0, cause=Cause.PREEMPTED)),
        ("stall", STANDS),
    ],
)
def test_an_end_is_of_one_class(state: StateClass, script: RunScript) -> None:
    classes: tuple[StateClass, ...] = (
        *("crash", "timeout", "oom", "node_fail", "preempted", "stall", "success"),
    )
    rules = Monitoring(
        stall_after_seconds=20.0,
        state_events=tuple(
            StateEvent(name=name, state=name, actions=(Log(message=name),))
            for name in classes
        ),
    )
    one = bench(rules, script)
    one.until(lambda: one.job("a").ended, 600)
    assert told(one) == [state]


# ------------------------------------------------------------------ between two states
def test_a_job_that_begins_goes_from_queued_to_running() -> None:
    one = bench(on("QUEUED", "RUNNING"), RunScript(begin_delay=5.0))
    one.until(one.is_("a", JobState.COMPLETED))
    assert told(one) == ["a at 1"]


def test_a_requeue_goes_from_running_to_queued_each_time() -> None:
    requeued = RunScript(seconds=5.0, ends="requeue")
    later = RunScript(seconds=5.0, ends="requeue", begin_delay=5.0)
    one = bench(on("RUNNING", "QUEUED"), requeued, later, RunScript(begin_delay=5.0))
    one.until(one.is_("a", JobState.COMPLETED))
    assert told(one) == ["a at 1"] * 2


def test_an_end_that_its_rule_restarts_goes_on_to_retrying() -> None:
    crash = RunScript(seconds=2.0, exit_code=1)
    limited = (MaxAttempts(max_attempts=2),)
    rules = Monitoring(
        state_events=(
            StateEvent(name="c", state="crash", actions=(Restart(conditions=limited),)),
            StateEvent(
                name="r",
                transition=("RUNNING", "RETRYING"),
                actions=(Log(message="again"),),
            ),
        )
    )
    one = Bench(plan(job("a"), monitoring=rules), {"a": [[crash], [RunScript()]]})
    one.until(one.is_("a", JobState.COMPLETED))
    assert told(one) == ["again"]


def test_a_job_that_is_skipped_without_a_run_is_told() -> None:
    waits = JobStateIs(jobs=("a",), state="COMPLETED")
    the_plan = plan(
        job("a"),
        job("b", 1, start_conditions=(waits,)),
        monitoring=on("WAITING", "SKIPPED"),
    )
    one = Bench(the_plan, {"a": [[RunScript(exit_code=1)]]})
    one.until(one.is_("b", JobState.SKIPPED))
    assert told(one) == ["b at 0"]


def test_doubt_about_a_submission_is_told() -> None:
    one = bench(on(None, "SUBMIT_UNKNOWN"), RunScript(), submit=False)
    one.fault(Fault.ANSWER_LOST)
    one.order(commands.Submit())
    one.until(one.is_("a", JobState.COMPLETED))
    assert told(one) == ["a at 1"]


def test_another_engine_tells_no_move_again() -> None:
    one = bench(on("QUEUED", "RUNNING"), LONG)
    one.until(one.is_("a", JobState.RUNNING))
    one.run(5)
    one.start()
    one.run(20)
    assert told(one) == ["a at 1"]


# ------------------------------------------------------------------------ log events
def matches(**fields: object) -> Monitoring:
    given = {"name": "bad", "pattern": "bad (?P<what>.*)", "pattern_type": "regex"}
    return Monitoring(log_events=(LogEvent(**{**given, **fields}),))  # type: ignore[arg-type]


def writes(*lines: bytes) -> RunScript:
    parts = (Write(at=1.0 + n, data=line) for n, line in enumerate(lines))
    return RunScript(seconds=20.0, writes=tuple(parts))


def test_what_a_line_says_is_the_job_s_metadata_across_the_border_of_two_looks() -> (
    None
):
    rules = matches(extract_groups={"reason": "what"})
    one = bench(rules, writes(b"ok\rba", b"d sec", b"tor \xff\rok\n"))
    one.until(one.is_("a", JobState.COMPLETED))
    assert one.job("a").metadata == {"reason": "sector ?"}


def test_a_rule_that_matches_once_does_so_in_each_run() -> None:
    requeued = RunScript(
        seconds=5.0, ends="requeue", writes=(Write(at=1.0, data=b"bad a\nbad b\n"),)
    )
    one = bench(matches(match_once=True, actions=(SAYS,)), requeued, writes(b"bad c\n"))
    one.until(one.is_("a", JobState.COMPLETED))
    assert len(told(one)) == 2
