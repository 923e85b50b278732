"""Curves of runs that ended: held, and read again by the next engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from autoexp_tui.conditions.values import MetricIs
from autoexp_tui.engine import log_poller
from autoexp_tui.model import commands
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

LINES = "".join(f"step: {n} loss: {9.0 - n / 10}\n" for n in range(1, 41)).encode()
RUN = RunScript(seconds=5.0, writes=(Write(at=1.0, data=LINES),))
RULES = Monitoring(log_events=(LogEvent(name="step", pattern="step"),))
JOBS = 12
Scripts: TypeAlias = dict[str, list[list[RunScript]]]
NEWEST = 4
"""As many of them a new engine reads again."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_poller, "MOST_REREAD", NEWEST)


def campaign(jobs: int, others: Scripts | None = None) -> Bench:
    """One job after the other, all to their ends."""
    specs = [job(f"j{n:03d}", n) for n in range(jobs)]
    scripts: Scripts = {spec.name: [[RUN]] for spec in specs}
    scripts |= others or {}
    bench = Bench(plan(*specs, monitoring=RULES), scripts, slots=1)
    bench.until(lambda: all(one.ended for one in bench.engine.state.jobs.values()), 9e3)
    bench.run(5)
    return bench


def live(bench: Bench, name: str) -> Live:
    snapshot = bench.snapshots[-1]
    names = [one.name for one in snapshot.jobs]
    found = snapshot.live[names.index(name)]
    assert found is not None
    return found


def with_curves(bench: Bench) -> int:
    return sum(bool(one and one.curves) for one in bench.snapshots[-1].live)


@pytest.mark.usefixtures("few")
def test_a_new_engine_reads_the_newest_again_and_tells_nothing_twice() -> None:
    bench = campaign(JOBS)
    assert with_curves(bench) == JOBS
    before = len(bench.world.session.records)
    whole = live(bench, "j011").curves["loss"]
    bench.start()
    bench.run(20)
    assert with_curves(bench) == NEWEST
    again = live(bench, "j011").curves["loss"]
    assert (again.steps, again.values) == (whole.steps, whole.values)
    started = 1
    assert len(bench.world.session.records) == before + started


@pytest.mark.usefixtures("few")
def test_the_curve_of_a_job_that_is_brought_back_goes_on_from_its_new_run() -> None:
    crash = RunScript(seconds=5.0, exit_code=1, writes=RUN.writes)
    short = Write(at=1.0, data=b"step: 7 loss: 1.0\n")
    again = RunScript(seconds=1e6, writes=(short,))
    bench = campaign(JOBS, {"j000": [[crash], [again]]})
    bench.order(commands.Resubmit(jobs=("j000",)))
    bench.until(bench.is_("j000", JobState.RUNNING))
    bench.run(10)
    assert live(bench, "j000").curves["loss"].steps == (1, 2, 3, 4, 5, 6, 7)


@pytest.mark.usefixtures("few")
def test_a_condition_on_the_metric_of_a_job_that_ended_long_ago_holds() -> None:
    wants = MetricIs(name="loss", job="j000", op="<", value=6.0)
    specs = [job(f"j{n:03d}", n) for n in range(JOBS)]
    late = job("late", JOBS, start_conditions=(wants,))
    scripts = {spec.name: [[RUN]] for spec in (*specs, late)}
    bench = Bench(plan(*specs, late, monitoring=RULES), scripts, slots=1)
    ended: Callable[[], bool] = bench.is_("late", JobState.COMPLETED)
    bench.until(ended, 9e3)
