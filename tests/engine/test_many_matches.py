"""Rules that match more than anybody can read, and logs that are too long to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoexp_tui.actions.action_runner import MOST_JOINS
from autoexp_tui.actions.new_job import NewJob
from autoexp_tui.actions.notify import Log
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import run_reports
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model.commands import Kill, Order, Pause
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

LINES = 60_000
FLOOD = b"".join(b"hit number=%d\n" % number for number in range(LINES))
RULE = LogEvent(
    name="every",
    pattern=r"hit number=(?P<number>\d+)",
    pattern_type="regex",
    extract_groups={"number": "number"},
    actions=(Log(message="seen"),),
)


def flooded(seconds: float = 60.0, *rules: LogEvent) -> Bench:
    """A job whose log says the same 60,000 times within a second."""
    script = RunScript(seconds=seconds, writes=(Write(at=1.0, data=FLOOD),))
    the_plan = plan(job("j"), monitoring=Monitoring(log_events=rules or (RULE,)))
    return Bench(the_plan, {"j": [[script]]})


def matches(bench: Bench) -> list[events.LogMatched]:
    return bench.happened(events.LogMatched)


def warned(bench: Bench, code: str) -> list[str]:
    raised = bench.happened(events.WarningRaised)
    return [sentence(one.why, 0.0) for one in raised if one.why.code == code]


def test_matches_beyond_a_few_a_second_are_recorded_together_and_told_once() -> None:
    bench = flooded()
    bench.run(30)
    found = matches(bench)
    assert len(found) < 200
    assert sum(match.count for match in found) == LINES
    several = [match for match in found if match.count > 1]
    alone = [match for match in found if match.count == 1]
    assert several[0].first_offset == alone[-1].offset + len(b"hit number=49\n")
    assert several[-1].offset == len(FLOOD) - len(b"hit number=59999\n")
    assert bench.job("j").metadata["number"] == str(LINES - 1)
    (told,) = warned(bench, "matches_gathered")
    assert told.startswith("the rule every matches more than a few lines a second")
    bench.die(gone_for=5.0)
    bench.run(20)
    assert sum(match.count for match in matches(bench)) == LINES


def test_an_engine_that_died_amid_them_leaves_none_out() -> None:
    bench = flooded()
    bench.until(lambda: bool(matches(bench)), 30)
    bench.die(gone_for=5.0)
    bench.run(30)
    assert sum(match.count for match in matches(bench)) == LINES


def test_those_at_the_end_of_a_run_are_told_before_its_end() -> None:
    bench = flooded(1.5)
    bench.until(bench.is_("j", JobState.COMPLETED), 120)
    assert sum(match.count for match in matches(bench)) == LINES


def test_a_few_matches_are_events_of_their_own() -> None:
    text = b"".join(b"hit number=%d\n" % number for number in range(20))
    script = RunScript(seconds=30.0, writes=(Write(at=1.0, data=text),))
    rules = Monitoring(log_events=(RULE,))
    bench = Bench(plan(job("j"), monitoring=rules), {"j": [[script]]})
    bench.run(20)
    assert [match.count for match in matches(bench)] == [1] * 20


# -------------------------------------------------------------------- joining jobs
def test_a_rule_that_joins_jobs_without_end_is_bounded_and_told() -> None:
    text = b"".join(b"hit number=%d\n" % number for number in range(40))
    writes = tuple(Write(at=1.0 + 10 * at, data=text) for at in range(5))
    rule = LogEvent(
        name="more", pattern="hit", actions=(NewJob(name="child", command=("true",)),)
    )
    script = RunScript(seconds=100.0, writes=writes)
    bench = Bench(
        plan(job("j"), monitoring=Monitoring(log_events=(rule,))), {"j": [[script]]}
    )
    bench.run(90)
    fired = bench.happened(events.ActionFired)
    assert len([one for one in fired if one.job == "j"]) == MOST_JOINS
    (told,) = warned(bench, "joins_spent")
    assert "has let other jobs join 100 times" in told


# ------------------------------------------------------------------- after the end
@pytest.fixture
def short_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is too long to be read to its end from a mebibyte on."""
    monkeypatch.setattr(run_reports, "TAIL_READ", 100_000)


LONG = b"x" * 79 + b"\n"


def long_log() -> Bench:
    """A run that leaves 12 MB as it ends."""
    text = LONG * 150_000 + b"hit number=7\n"
    script = RunScript(seconds=1.0, writes=(Write(at=0.9, data=text),))
    return Bench(
        plan(job("j"), monitoring=Monitoring(log_events=(RULE,))), {"j": [[script]]}
    )


@pytest.mark.usefixtures("short_tail")
def test_what_no_rule_saw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoexp_tui.engine.run_reports.DRAIN_SECONDS", 0.0)
    bench = long_log()
    bench.until(bench.is_("j", JobState.COMPLETED), 120)
    (told,) = warned(bench, "log_unread")
    assert "of the log of j were not searched by any rule" in told
    assert bench.job("j").metadata["number"] == "7"


@pytest.mark.usefixtures("short_tail")
def test_a_tail_that_takes_too_long_is_left_out_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_reports, "DRAIN_SECONDS", 0.0)
    monkeypatch.setattr(run_reports, "LAST_READ", 1_000)
    bench = long_log()
    bench.until(bench.is_("j", JobState.COMPLETED), 120)
    raised = bench.happened(events.WarningRaised)
    (told,) = [one.why for one in raised if one.why.code == "log_unread"]
    assert told.arg("tail") == 1_000
    assert bench.job("j").metadata["number"] == "7"


@pytest.mark.usefixtures("short_tail")
def test_who_ends_a_run_waits_for_its_tail_alone() -> None:
    text = LONG * 150_000 + b"hit number=7\n"
    script = RunScript(seconds=500.0, writes=(Write(at=2.0, data=text),))
    rules = Monitoring(log_events=(RULE,))
    bench = Bench(plan(job("j"), monitoring=rules), {"j": [[script]]})
    bench.until(bench.is_("j", JobState.RUNNING), 20)
    bench.clock.advance(3.0)
    bench.executor.settle()
    bench.order(Kill(jobs=("j",)))
    bench.until(bench.is_("j", JobState.CANCELLED), 60)
    assert bench.job("j").metadata["number"] == "7"


# ----------------------------------------------------------------- never read in time
def takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every look at a log read so little that it is never read to its end."""
    cursor = Telemetry.make_cursor

    def of_little(*arguments: object, **more: object) -> LogCursor:
        made = cursor(*arguments, **more)  # type: ignore[arg-type]
        return replace(made, limit=4_096)

    monkeypatch.setattr(Telemetry, "make_cursor", of_little)


def slowly(bench: Bench, holds: Callable[[], bool]) -> float:
    """Let few answers in each half second; for how long until it holds."""
    begun = bench.clock.monotonic()
    while not holds():
        assert bench.clock.monotonic() < begun + 300.0, "it never came"
        for _ in range(20):
            bench.engine.commit()
            bench.pool.step()
        bench.clock.advance(0.5)
        bench.executor.settle()
    return bench.clock.monotonic() - begun


def over(bench: Bench) -> bool:
    """Whether the run has ended, as the executor says."""
    return bool(bench.job("j").attempts) and not bench.executor.living()


def test_an_end_waits_a_minute_at_most_for_a_log_that_is_not_read_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes_little(monkeypatch)
    bench = long_log()
    slowly(bench, lambda: over(bench))
    took = slowly(bench, bench.is_("j", JobState.COMPLETED))
    assert 60.0 <= took <= 62.0


def test_a_command_does_not_wait_for_the_log_of_a_run_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes_little(monkeypatch)
    bench = long_log()
    slowly(bench, lambda: over(bench))
    bench.run(5)
    pause = Order(command_id="c9", command=Pause())
    bench.engine.post(seen.OrdersTaken(orders=(pause,)))
    bench.engine.commit()
    assert bench.engine.state.paused is not None
    assert not bench.job("j").ended


# ------------------------------------------------------------- commands between logs
def test_a_command_does_not_wait_for_logs_that_came_with_it() -> None:
    script = RunScript(seconds=60.0)
    bench = Bench(
        plan(job("j"), monitoring=Monitoring(log_events=(RULE,))), {"j": [[script]]}
    )
    bench.until(bench.is_("j", JobState.RUNNING), 20)
    text = b"hit number=1\n"
    chunk = LogChunk(
        job="j", attempt=1, run=0, offset=0, data=text, size=len(text), reset=False
    )
    read = seen.LogRead(job="j", attempt=1, run=0, chunk=chunk, final=False)
    bench.engine.post(seen.LogsRead(reads=(read,)))
    pause = Order(command_id="c9", command=Pause())
    bench.engine.post(seen.OrdersTaken(orders=(pause,)))
    bench.engine.commit()
    assert bench.engine.state.paused is not None
    assert not matches(bench)
    bench.engine.commit()
    assert len(matches(bench)) == 1


def test_a_log_that_is_read_in_time_is_read_whole() -> None:
    bench = long_log()
    bench.until(bench.is_("j", JobState.COMPLETED), 120)
    assert not warned(bench, "log_unread")
