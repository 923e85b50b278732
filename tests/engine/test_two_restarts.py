"""Two rules that restart after one end: one further attempt, and the other is told."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts, MetadataIs
from autoexp_tui.events import events
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

LATE: Final = "/late"
"""A file that comes while the second attempt runs."""
CRASH: Final = RunScript(
    seconds=4.0, exit_code=1, writes=(Write(at=1.0, data=b"FATAL\n"),)
)
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


def by_end(name: str, conditions: Conditions) -> StateEvent:
    restart = Restart(reason=name, conditions=conditions)
    return StateEvent(name=name, state="crash", actions=(restart,))


def by_log(name: str, conditions: Conditions) -> LogEvent:
    restart = Restart(reason=name, conditions=conditions)
    return LogEvent(name=name, pattern="FATAL", actions=(restart,))


def after_a_crash(rules: Monitoring) -> Bench:
    """A job that crashes once and then runs well; seen until that is done.

    What a restart may have waited for comes while the second attempt runs.
    """
    scripts = {"a": [[CRASH], [WELL], [WELL], [WELL]]}
    bench = Bench(plan(job("a"), monitoring=rules), scripts)
    bench.until(lambda: len(bench.job("a").attempts) == 2, 60)
    bench.run(20)
    bench.files.append(LATE, b"x")
    bench.until(lambda: bench.job("a").ended, 600)
    bench.run(20)
    return bench


def dropped(bench: Bench) -> Counter[tuple[str, str]]:
    happened = bench.happened(events.ActionDropped)
    return Counter((event.action, event.why.code) for event in happened)


def retries(bench: Bench) -> list[str]:
    """The reasons of the restarts that were decided."""
    happened = bench.happened(events.RetryOrdered)
    return [str(one.why.arg("reason")) for one in happened if not one.held and one.why]


@pytest.mark.parametrize("second", CONDITIONS)
def test_of_two_state_events_the_first_restarts_once(second: str) -> None:
    rules = (by_end("first", ()), by_end("second", CONDITIONS[second]))
    bench = after_a_crash(Monitoring(state_events=rules))
    assert retries(bench) == ["first"]
    assert len(bench.job("a").attempts) == 2
    assert bench.job("a").state is JobState.COMPLETED
    assert dropped(bench) == {("second/0", "restarted_already"): 1}


@pytest.mark.parametrize("second", CONDITIONS)
def test_a_log_event_s_restart_comes_before_a_state_event_s(second: str) -> None:
    rules = Monitoring(
        log_events=(by_log("said", ()),),
        state_events=(by_end("ended", CONDITIONS[second]),),
    )
    bench = after_a_crash(rules)
    assert retries(bench) == ["said"]
    assert len(bench.job("a").attempts) == 2


@pytest.mark.parametrize("first", CONDITIONS)
def test_a_restart_that_holds_now_does_not_wait_for_the_one_before_it(
    first: str,
) -> None:
    rules = (by_end("first", CONDITIONS[first]), by_end("second", ()))
    bench = after_a_crash(Monitoring(state_events=rules))
    at_once = first in ("none", "attempts", "cooldown")
    assert retries(bench) == ["first" if at_once else "second"]
    assert len(bench.job("a").attempts) == 2


@pytest.mark.parametrize("first", ["file", "none"])
@pytest.mark.parametrize("second", ["file", "none"])
def test_two_log_events_restart_once(first: str, second: str) -> None:
    rules = (by_log("one", CONDITIONS[first]), by_log("two", CONDITIONS[second]))
    end = by_end("end", ())
    bench = after_a_crash(Monitoring(log_events=rules, state_events=(end,)))
    assert len(retries(bench)) == 1
    assert len(bench.job("a").attempts) == 2
    assert max(dropped(bench).values()) == 1


def test_two_restarts_that_wait_for_one_file_become_one() -> None:
    file = CONDITIONS["file"]
    rules = Monitoring(state_events=(by_end("first", file), by_end("second", file)))
    bench = Bench(plan(job("a"), monitoring=rules), {"a": [[CRASH], [WELL]]})
    bench.until(bench.is_("a", JobState.RETRYING), 60)
    bench.files.append(LATE, b"x")
    bench.until(bench.is_("a", JobState.COMPLETED), 600)
    assert retries(bench) == ["first"]
    assert dropped(bench) == {("second/0", "restarted_already"): 1}


def test_no_restart_goes_beyond_its_own_bound() -> None:
    rules = (
        by_end("twice", (MaxAttempts(max_attempts=2),)),
        by_end("thrice", (MaxAttempts(max_attempts=3),)),
    )
    scripts = {"a": [[CRASH]] * 5}
    bench = Bench(plan(job("a"), monitoring=Monitoring(state_events=rules)), scripts)
    bench.until(bench.is_("a", JobState.FAILED), 600)
    assert retries(bench) == ["twice", "thrice"]
    assert len(bench.job("a").attempts) == 3


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (by_end("other", ()), ", by the rule other: other; the log says: FATAL"),
        (
            StateEvent(name="other", state="crash", actions=(Restart(),)),
            ": other; the log says: FATAL",
        ),
        (by_log("other", ()), ", by the rule other: other; the log says: FATAL"),
    ],
    ids=["a reason", "none", "a line"],
)
def test_an_attempt_keeps_who_ordered_it(
    rule: StateEvent | LogEvent, said: str
) -> None:
    states = (rule,) if isinstance(rule, StateEvent) else ()
    logs = (rule,) if isinstance(rule, LogEvent) else ()
    bench = after_a_crash(Monitoring(log_events=logs, state_events=states))
    first, second = bench.job("a").attempts
    assert first.ordered_why is None
    assert second.ordered_why is not None
    assert sentence(second.ordered_why, 0.0) == f"runs again as attempt 2{said}"


def test_a_run_that_a_rule_ends_to_begin_it_again_says_why() -> None:
    rules = Monitoring(log_events=(by_log("other", ()),))
    ended = after_a_crash(rules).job("a").attempts[0].cancel_why
    assert ended is not None
    assert sentence(ended, 0.0).startswith(
        "the rule other ends this run and starts it again: other; the log says: FATAL"
    )
