"""Rules that match more than anybody can read, and logs that are too long to read."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.action_runner import MOST_JOINS
from autoexp_tui.actions.kinds import Log, NewJob
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import run_reports
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.states import Why
from tests.engine.bench import Bench, alone
from tests.engine.parts import finds, writes
from tests.support.fake_script import RunScript, Write

HIT = finds("every", r"hit number=(?P<number>\d+)", Log(message="x"), number="number")
RULES = Monitoring(log_events=(HIT,))
LINES = 60_000


def hits(count: int) -> bytes:
    return b"".join(b"hit number=%d\n" % number for number in range(count))


FLOOD = hits(LINES)


def saying(data: bytes, at: float = 1.0, seconds: float = 60.0) -> Bench:
    return alone(writes(Write(at=at, data=data), seconds=seconds), rules=RULES)


def counts(bench: Bench) -> list[int]:
    """How many lines each match that was recorded stands for."""
    return [match.count for match in bench.happened(events.LogMatched)]


def warned(bench: Bench, code: str) -> list[Why]:
    return [
        one.why for one in bench.happened(events.WarningRaised) if one.why.code == code
    ]


def number(bench: Bench) -> str:
    return str(bench.job("a").metadata["number"])


def test_matches_beyond_a_few_a_second_are_recorded_together_and_told_once() -> None:
    bench = saying(FLOOD)
    bench.run(30)
    found = bench.happened(events.LogMatched)
    assert (len(found) < 200, sum(counts(bench))) == (True, LINES)
    several = [match for match in found if match.count > 1]
    alone = [match for match in found if match.count == 1]
    assert several[0].first_offset == alone[-1].offset + len(b"hit number=49\n")
    assert several[-1].offset == len(FLOOD) - len(b"hit number=59999\n")
    assert number(bench) == str(LINES - 1)
    (told,) = warned(bench, "matches_gathered")
    said = "the rule every matches more than a few lines a second"
    assert bench.words(told).startswith(said)


def test_an_engine_that_died_amid_them_or_the_end_of_the_run_leaves_none_out() -> None:
    bench = saying(FLOOD)
    bench.until(lambda: bool(counts(bench)), 30)
    bench.die(gone_for=5.0)
    bench.run(30)
    assert sum(counts(bench)) == LINES
    bench = saying(FLOOD, seconds=1.5)
    bench.reach(120, a="COMPLETED")
    assert sum(counts(bench)) == LINES


def test_a_rule_that_joins_jobs_without_end_is_bounded_and_told() -> None:
    joins = finds("more", "hit", NewJob(name="child", command=("true",)))
    parts = (Write(at=1.0 + 10 * at, data=hits(40)) for at in range(5))
    rules = Monitoring(log_events=(joins,))
    bench = alone(writes(*parts, seconds=100.0), rules=rules)
    bench.run(90)
    fired = [one for one in bench.happened(events.ActionFired) if one.job == "a"]
    assert len(fired) == MOST_JOINS
    (told,) = warned(bench, "joins_spent")
    assert "has let other jobs join 100 times" in bench.words(told)


LONG = (b"x" * 79 + b"\n") * 150_000 + b"hit number=7\n"


def long_log() -> Bench:
    """A run that leaves 12 MB as it ends."""
    return saying(LONG, at=0.9, seconds=1.0)


def test_what_no_rule_saw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"TAIL_READ": 100_000, "DRAIN_SECONDS": 0.0, "LAST_READ": 1_000}
    for name, value in limits.items():  # even the tail takes too long
        monkeypatch.setattr(run_reports, name, value)
    bench = long_log()
    bench.reach(120, a="COMPLETED")
    (told,) = warned(bench, "log_unread")
    assert "of the log of a were not searched by any rule" in bench.words(told)
    assert told.arg("tail") == 1_000
    assert number(bench) == "7"


def test_who_ends_a_run_waits_for_its_tail_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_reports, "TAIL_READ", 100_000)
    bench = saying(LONG, at=2.0, seconds=500.0)
    bench.reach(20, a="RUNNING")
    bench.clock.advance(3.0)
    bench.executor.settle()
    bench.kill("a")
    bench.reach(60, a="CANCELLED")
    assert number(bench) == "7"


def pause(bench: Bench) -> None:
    """A person's order lies in the inbox."""
    order = Order(command_id="c9", command=Pause())
    bench.engine._mailbox.post(seen.OrdersTaken(orders=(order,)))
    bench.engine.commit()
    assert bench.engine.state.paused is not None


def test_a_command_does_not_wait_for_logs_that_came_with_it() -> None:
    bench = alone(RunScript(seconds=60.0), rules=RULES)
    bench.reach(20, a="RUNNING")
    text = b"hit number=1\n"
    at = LogCursor(job="a", attempt=1, run=0, path="", offset=0)
    chunk = LogChunk(offset=0, data=text, size=len(text))
    bench.engine._mailbox.post(seen.LogsRead(reads=(seen.LogRead(at=at, chunk=chunk),)))
    pause(bench)
    assert not counts(bench)
    bench.engine.commit()
    assert counts(bench) == [1]
