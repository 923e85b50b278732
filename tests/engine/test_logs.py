"""Logs of whole runs: read again or begun anew they tell nothing twice and miss none,
those that cannot be read end nobody, and rules over their silence count lived time;
rules that match more than anybody can read, and logs that are too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.actions.action_runner import MOST_JOINS
from autoexp_tui.actions.kinds import Log, NewJob
from autoexp_tui.conditions.jobs import MetricIs
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import poller, run_reports
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.model.rules import Anomalies, LogEvent, Monitoring, StateEvent
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.states import Why
from tests.engine.bench import Bench, alone
from tests.engine.parts import finds, replace_text, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs

QUICK = Anomalies(min_points=2, flat_share=0.05, divergence="off", nan="warn")
NOTE = Log(message="{name}: {line}")
EVERY = finds("every", "E", NOTE)
BOTH = Monitoring(log_events=(EVERY, replace(EVERY, name="once", match_once=True)))
RAISED, CLEARED = events.WarningRaised, events.WarningCleared


def told(bench: Bench) -> list[type]:
    """Warnings raised and cleared, oldest first."""
    kinds = (type(record.event) for record in bench.world.session.records)
    return [kind for kind in kinds if kind in (RAISED, CLEARED)]


def matched(bench: Bench, engines: int = 2) -> list[str]:
    """The lines that were matched, after further engines read the log anew."""
    for _ in range(engines):
        bench.start()
        bench.run(5)
    return [event.line for event in bench.happened(events.LogMatched)]


@pytest.mark.parametrize("steps", [0, 30])
def test_a_log_begun_anew_is_judged_from_its_start(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    rules = replace(BOTH, anomalies=QUICK)
    falls = (f"step: {n} loss: {2 - n / 100}" for n in range(1, steps + 1))
    run = writes(says(1.0, "E one", *falls), seconds=1e6)
    bench = alone(run, rules=rules, progress_total=100)
    bench.run(30)
    path = bench.job("a").attempts[-1].log_path
    replace_text(bench, monkeypatch, path, b"E two\nE three\nstep: 31 loss: nan\n")
    assert matched(bench) == ["E one", "E one", "E two", "E three"]
    assert told(bench) == [RAISED]


JOBS, NEWEST = 12, 4
STEPS = says(1.0, *(f"step: {n} loss: {9.0 - n / 10}" for n in range(1, 41)))
RUN = writes(STEPS, seconds=5.0)


def campaign(*late: Any, **others: list[list[RunScript]]) -> Bench:
    """One job after the other, all to their ends; a new engine would read the newest
    four again."""
    names = [f"j{n:02d}" for n in range(JOBS)]
    specs = [*(job(name, n) for n, name in enumerate(names)), *late]
    scripts = {spec.name: [[RUN]] for spec in specs} | others
    rules = Monitoring(log_events=(finds("step", "step"),))
    bench = Bench(plan(*specs, monitoring=rules), scripts, slots=1)
    bench.ends(9e3)
    bench.run(5)
    return bench


def curves(bench: Bench) -> dict[str, Live]:
    """The jobs that have any."""
    snapshot = bench.snapshots[-1]
    pairs = zip(snapshot.jobs, snapshot.live, strict=True)
    return {job.name: live for job, live in pairs if live and live.curves}


def test_a_new_engine_reads_the_newest_again_and_tells_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller, "MOST_REREAD", NEWEST)
    bench = campaign()
    assert len(curves(bench)) == JOBS
    before = len(bench.world.session.records)
    whole = curves(bench)["j11"].curves["loss"]
    bench.start()
    bench.run(20)
    assert len(curves(bench)) == NEWEST
    again = curves(bench)["j11"].curves["loss"]
    assert (again.steps, again.values) == (whole.steps, whole.values)
    assert len(bench.world.session.records) == before + 1  # that it started


def test_what_a_run_that_ended_long_ago_said_counts_until_its_job_runs_again() -> None:
    early = MetricIs(name="loss", job="j00", op="<", value=6.0)
    crash = replace(RUN, exit_code=1)
    again = writes(says(1.0, "step: 7 loss: 1.0"), seconds=1e6)
    late = job("late", JOBS, start_conditions=(early,))
    bench = campaign(late, j00=[[crash], [again]])
    assert bench.state("late") == "COMPLETED"
    bench.resubmit("j00")
    bench.reach(j00="RUNNING")
    bench.run(10)
    assert curves(bench)["j00"].curves["loss"].steps == (1, 2, 3, 4, 5, 6, 7)


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Jobs whose logs may not be read; change it at will."""
    names: set[str] = set()
    original = Logs.read

    def read(self: Logs, at: LogCursor) -> object:
        if at.job in names:
            raise PermissionError(13, "Permission denied", "/logs/x")
        return original(self, at)

    monkeypatch.setattr(Logs, "read", read)
    return names


def stepping(seconds: float = 1e6, **ends: Any) -> Bench:
    steps = (says(float(n), f"step {n} loss 2.5") for n in range(1, 200))
    return alone(writes(*steps, seconds=seconds, **ends))


@pytest.mark.parametrize("anew", [False, True])
def test_one_that_is_forbidden_for_long_is_warned_of_until_it_can_be_read(
    forbidden: set[str], anew: bool
) -> None:
    one = stepping()
    forbidden.add("a")
    one.run(100)
    why, log = one.warning().why, one.job("a").attempts[-1].log_path
    assert why.code == "log_unreadable"
    assert why.arg("error") == f"{log}: Permission denied"
    forbidden.clear()
    if anew:
        one.start()
    one.run(20)
    assert one.warned() == []


def test_the_end_of_a_run_waits_for_its_log_and_then_goes_without(
    forbidden: set[str],
) -> None:
    one = stepping(seconds=20.0, exit_code=1)
    one.run(10)
    forbidden.add("a")
    one.run(25)
    assert one.state("a") == "RUNNING"
    assert one.engine.next_wake() > 0  # it costs no more than its polls
    one.reach(60, a="FAILED")
    assert "could not be read" in one.job("a").attempts[-1].evidence


SILENT = LogEvent(
    name="silent", pattern_type="inactivity", after_seconds=30.0, actions=(NOTE,)
)
NO_STEP = replace(SILENT, name="steps", pattern_type="progress")


def step(at: float, number: int) -> Write:
    return says(at, f"iteration {number}/1000 | lm loss: 2.5")


HANGS = writes(step(1.0, 10), step(2.0, 20))


def quiet(script: RunScript, *rules: LogEvent, **others: Any) -> Bench:
    given = Monitoring(log_events=rules, **others)
    return alone(script, rules=given, stage="train")


def test_another_engine_repeats_nothing_and_counts_from_its_first_look() -> None:
    one = quiet(HANGS, SILENT, NO_STEP)
    one.run(25)
    one.clock.advance(3600.0)  # nobody lived meanwhile
    one.start()
    one.run(25)
    assert one.logged() == []
    one.run(20)
    told = one.logged()
    assert len(told) == 2
    one.start()
    one.run(120)
    assert one.logged() == told


def test_a_stall_rule_of_another_stage_ends_nothing() -> None:
    other = StateEvent(name="s", state="stall", stages=("cooldown",))
    one = quiet(HANGS, stall_after_seconds=30.0, state_events=(other,))
    one.run(60)
    assert (one.state("a"), one.warned()) == ("RUNNING", ["stall"])


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


def test_what_no_rule_saw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"TAIL_READ": 100_000, "DRAIN_SECONDS": 0.0, "LAST_READ": 1_000}
    for name, value in limits.items():  # even the tail takes too long
        monkeypatch.setattr(run_reports, name, value)
    bench = saying(LONG, at=0.9, seconds=1.0)  # 12 MB as it ends
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


def test_a_command_does_not_wait_for_logs_that_came_with_it() -> None:
    bench = alone(RunScript(seconds=60.0), rules=RULES)
    bench.reach(20, a="RUNNING")
    text = b"hit number=1\n"
    at = LogCursor(job="a", attempt=1, run=0, path="", offset=0)
    chunk = LogChunk(offset=0, data=text, size=len(text))
    bench.engine._mailbox.post(seen.LogsRead(reads=(seen.LogRead(at=at, chunk=chunk),)))
    order = Order(command_id="c9", command=Pause())  # a person's, from the inbox
    bench.engine._mailbox.post(seen.OrdersTaken(orders=(order,)))
    bench.engine.commit()
    assert bench.engine.state.paused is not None
    assert not counts(bench)
    bench.engine.commit()
    assert counts(bench) == [1]
