"""What is looked at, how often, and what is said of what does not answer."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from autoexp_tui.conditions.kinds import CommandPasses
from autoexp_tui.engine import poller
from autoexp_tui.engine.looks import Schedule
from autoexp_tui.engine.poller import (
    MOST_COMMANDS,
)
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.model.facts import (
    CommandKey,
    CommandResult,
    Fact,
)
from tests.engine.bench import Bench
from tests.engine.parts import says
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Files, Logs


def settle(poller: Schedule[str], key: str, changed: bool, now: float) -> None:
    poller.settle(key, now, changed=changed, shortest=1.0, longest=16.0, factor=2)


def look(poller: Schedule[str], *changes: bool) -> list[float]:
    """The moments at which `a` is looked at, when it says something else, or not."""
    times: list[float] = []
    for changed in changes:
        times.append(poller.next_at() or 0.0)
        assert list(poller.take_due(times[-1])) == ["a"]
        settle(poller, "a", changed, times[-1])
    return times


def watching(*keys: str, now: float = 0.0) -> Schedule[str]:
    poller: Schedule[str] = Schedule()
    for key in keys:
        poller.want(key, now, 1.0)
    return poller


def test_what_rests_is_looked_at_ever_more_seldom_until_it_changes_or_is_wanted() -> (
    None
):
    poller = watching("a")
    times = look(poller, True, *[False] * 7)
    assert [b - a for a, b in pairwise(times)] == [1.0, 2.0, 4.0, 8.0, *[16.0] * 3]
    (last,) = look(poller, True)
    assert poller.next_at() == last + 1.0
    last = look(poller, *[False] * 8)[-1]
    poller.want("a", last + 0.25, 1.0)
    assert poller.next_at() == last + 1.0
    poller.hurry(last + 0.5, "a")
    poller.hurry(last + 0.5, "unknown")
    assert look(poller, False) == [last + 0.5]


def test_a_look_takes_what_is_wanted_and_due_soon_up_to_so_many() -> None:
    poller = watching("b", now=1.0)
    poller.want("c", 1.2, 1.0)
    poller.want("a", 1.3, 1.0)
    assert list(poller.take_due(0.9, slack=0.25)) == []
    assert list(poller.take_due(1.0, slack=0.25)) == ["b", "c"]
    poller = watching(*"abc")
    assert list(poller.take_due(0.0, most=2)) == ["a", "b"]
    assert list(poller.take_due(0.0, most=2)) == ["c"]
    poller = watching("a", "b")
    assert list(poller.take_due(0.0, lambda key: key == "b")) == ["b"]
    assert list(poller.entries) == ["b"]


def test_a_slow_command_rests_longer_than_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[float] = []

    def observe(files: Files, key: CommandKey) -> Fact:
        began.append(files.clock.monotonic())
        bench.clock.advance(20.0)
        return Fact(CommandResult(1), began[-1])

    monkeypatch.setattr(Files, "observe", observe)
    bench = Bench(plan(job("a", start_conditions=(CommandPasses(command=("c",)),))))
    bench.run(300)
    assert min(b - a for a, b in pairwise(began)) >= 20.0 + 60.0


def test_a_few_commands_run_at_a_time_and_those_that_hang_do_not_count() -> None:
    names = [*(f"h{n}" for n in range(MOST_COMMANDS)), "fine"]
    runs = {name: CommandPasses(command=(name,), timeout=5.0) for name in names}
    jobs = (job(x, n, start_conditions=(runs[x],)) for n, x in enumerate(names))
    bench = Bench(plan(*jobs))
    bench.pool.held = {f"command h{n}" for n in range(MOST_COMMANDS)}
    bench.run(10)
    assert len(bench.pool.pending) == MOST_COMMANDS
    assert bench.state("fine") == "WAITING"
    bench.reach(10, fine="RUNNING")
    bench.run(5)
    assert {bench.wait(name).why.code for name in names[:-1]} == {"no_answer"}


LINE = b"iteration 10/100 | lm loss: 2.5\n"
QUIET = RunScript(seconds=1e6, writes=(Write(at=1.0, data=LINE),))
GROWS = RunScript(
    seconds=1e6, writes=tuple(Write(at=float(at), data=LINE) for at in range(1, 130))
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each job's log was asked for."""
    counted: Counter[str] = Counter()
    original = Logs.read

    def read(self: Logs, at: LogCursor) -> LogChunk | None:
        counted[at.job] += 1
        return original(self, at)

    monkeypatch.setattr(Logs, "read", read)
    return counted


def logging(*scripts: RunScript) -> Bench:
    """Jobs `j0`, `j1`, ... of these scripts."""
    jobs = [job(f"j{n}", n) for n in range(len(scripts))]
    return Bench(plan(*jobs), {f"j{n}": [[one]] for n, one in enumerate(scripts)})


def read_in(bench: Bench, seconds: float, reads: Counter[str], after: float) -> None:
    """Count what is read within so many seconds, after some."""
    bench.run(after)
    reads.clear()
    bench.run(seconds)


def test_growing_logs_are_read_at_every_poll_whatever_the_quiet_ones_do(
    reads: Counter[str],
) -> None:
    read_in(logging(GROWS, QUIET), 60, reads, after=60)
    assert reads["j0"] >= 58
    assert reads["j1"] <= 6


def test_very_many_growing_logs_share_their_looks_but_each_is_read_often_enough(
    monkeypatch: pytest.MonkeyPatch, reads: Counter[str]
) -> None:
    monkeypatch.setattr(poller, "BUSY_JOBS", 10)
    bench = logging(*[GROWS] * 40)
    read_in(bench, 40, reads, after=60)
    assert (len(reads), set(reads.values()) <= {9, 10, 11}) == (40, True)
    monkeypatch.setattr(poller, "BUSIEST_SECONDS", 2.0)
    read_in(bench, 20, reads, after=5)
    assert (len(reads), set(reads.values()) <= {9, 10, 11}) == (40, True)


def test_a_log_that_is_seen_to_change_is_read_at_once_while_its_job_runs() -> None:
    later = says(100.2, "iteration 20/100 | lm loss: 2.0")
    bench = logging(RunScript(seconds=120.0, writes=(*QUIET.writes, later)))
    bench.run(99)
    path = bench.job("j0").attempts[-1].log_path
    assert bench.engine._poller.logs.wake([path])
    bench.run(2.5)
    assert bench.live().step == 20
    bench.reach(30, j0="COMPLETED")
    assert not bench.engine._poller.logs.wake([path])


def test_one_look_reads_so_much_and_no_log_is_left_out_for_ever(
    monkeypatch: pytest.MonkeyPatch, reads: Counter[str]
) -> None:
    monkeypatch.setattr(poller, "LOOK_BYTES", 2 * len(LINE))
    bench = logging(*[QUIET] * 5)
    bench.until(
        lambda: all(live and live.step == 10 for live in bench.snapshots[-1].live), 10
    )
    assert max(reads.values()) - min(reads.values()) <= 3
