"""Which logs an engine looks at, and when."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from autoexp_tui.engine import log_poller, telemetry
from autoexp_tui.engine.mount_workers import MountWorkers
from autoexp_tui.engine.observations import LogRead, LogsRead
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs

LINE = b"iteration 10/100 | lm loss: 2.5\n"


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


def many(count: int) -> Plan:
    return plan(*(job(f"j{n}", n) for n in range(count)))


def quiet(seconds: float = 1e6) -> RunScript:
    return RunScript(seconds=seconds, writes=(Write(at=1.0, data=LINE),))


def test_of_a_hundred_quiet_logs_some_seven_are_read_a_second(
    reads: Counter[str],
) -> None:
    bench = Bench(many(100), {f"j{n}": [[quiet()]] for n in range(100)})
    bench.run(60)
    reads.clear()
    bench.run(60)
    assert 300 <= reads.total() <= 600
    assert set(reads.values()) <= {3, 4, 5, 6}


def test_growing_logs_are_read_at_every_poll_whatever_the_quiet_ones_do(
    reads: Counter[str],
) -> None:
    writes = tuple(Write(at=float(at), data=LINE) for at in range(1, 130))
    scripts = {"j0": [[RunScript(seconds=1e6, writes=writes)]], "j1": [[quiet()]]}
    bench = Bench(many(2), scripts)
    bench.run(60)
    reads.clear()
    bench.run(60)
    assert reads["j0"] >= 58
    assert reads["j1"] <= 6


def test_very_many_growing_logs_share_their_looks_but_each_is_read_often_enough(
    monkeypatch: pytest.MonkeyPatch, reads: Counter[str]
) -> None:
    monkeypatch.setattr(log_poller, "BUSY_JOBS", 10)
    writes = tuple(Write(at=float(at), data=LINE) for at in range(1, 130))
    names = [f"j{n}" for n in range(40)]
    script = RunScript(seconds=1e6, writes=writes)
    bench = Bench(many(40), {name: [[script]] for name in names})
    bench.run(60)
    reads.clear()
    bench.run(40)
    assert {reads[name] for name in names} <= {9, 10, 11}
    monkeypatch.setattr(log_poller, "BUSIEST_SECONDS", 2.0)
    bench.run(5)
    reads.clear()
    bench.run(20)
    assert {reads[name] for name in names} <= {9, 10, 11}


def test_what_runs_no_more_wakes_nobody() -> None:
    bench = Bench(many(1), {"j0": [[quiet(60.0)]]})
    bench.run(58)
    path = bench.job("j0").attempts[-1].log_path
    assert bench.engine._poller.logs.wake([path])
    bench.until(bench.is_("j0", JobState.COMPLETED), seconds=20)
    assert not bench.engine._poller.logs.wake([path])


def test_a_line_in_a_quiet_log_is_read_at_once_where_it_is_seen_to_change() -> None:
    later = Write(at=100.2, data=b"iteration 20/100 | lm loss: 2.0\n")
    script = RunScript(seconds=1e6, writes=(Write(at=1.0, data=LINE), later))
    bench = Bench(many(1), {"j0": [[script]]})
    bench.run(99)
    bench.until(lambda: bench.snapshots[-1].live[0] is not None)
    bench.run(2.5)
    live = bench.live()
    assert live.step == 20


def test_the_rest_of_an_ended_run_s_log_is_read_at_once() -> None:
    last = Write(at=119.9, data=b"iteration 99/100 | lm loss: 1.0\n")
    script = RunScript(seconds=120.0, writes=(Write(at=1.0, data=LINE), last))
    bench = Bench(many(1), {"j0": [[script]]})
    bench.files.watch(lambda _: None)  # nobody sees it change
    bench.until(bench.is_("j0", JobState.COMPLETED), seconds=124)
    noted = bench.job("j0").noted
    assert noted is not None
    assert noted.step == 99


def test_one_look_reads_so_much_and_no_log_is_left_out_for_ever(
    monkeypatch: pytest.MonkeyPatch, reads: Counter[str]
) -> None:
    monkeypatch.setattr(log_poller, "LOOK_BYTES", 2 * len(LINE))
    scripts = {f"j{n}": [[quiet()]] for n in range(5)}
    bench = Bench(many(5), scripts)
    bench.until(
        lambda: all(
            live is not None and live.step == 10 for live in bench.snapshots[-1].live
        ),
        seconds=10,
    )
    assert max(reads.values()) - min(reads.values()) <= 3


def test_one_look_reads_no_more_than_the_patterns_can_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_poller, "LOOK_WORK", 2 * len(LINE) * 600)
    bench = Bench(many(1))
    bench.files.append("/log", LINE)
    got: list[LogRead] = []
    workers = MountWorkers(
        "logs",
        bench.pool,
        lambda _: "/",
        partial(log_poller.read_logs, bench.world.log_source()),
        lambda reads: LogsRead(reads=tuple(reads)),
        lambda one: got.extend(one.reads) if isinstance(one, LogsRead) else None,
    )
    cursors = [
        LogCursor(job=f"j{n}", attempt=1, run=0, path="/log", offset=0, cost=600)
        for n in range(5)
    ]
    workers.send((at.job, at.path, at) for at in cursors)
    workers.tend(0.0, 0.0)
    while bench.pool.step():
        pass
    assert len(got) == 2


def test_a_backlog_is_worked_off_without_waiting_for_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "LOG_CHUNK", 10 * len(LINE))
    lines = b"".join(b"iteration %2d/100 | lm loss: 2.5\n" % n for n in range(100))
    script = RunScript(seconds=1e6, writes=(Write(at=1.0, data=lines),))
    bench = Bench(many(1), {"j0": [[script]]})
    bench.run(4)
    live = bench.live()
    assert live.step == 99
