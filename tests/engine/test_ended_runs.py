"""What is held of runs that ended: all of the newest, little of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from autoexp_tui.conditions.values import MetricIs
from autoexp_tui.engine import log_poller
from autoexp_tui.engine import telemetry as engine_telemetry
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
WHOLE = 4
"""As many of them keep their curves."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_telemetry, "MOST_WHOLE", WHOLE)
    monkeypatch.setattr(log_poller, "MOST_WHOLE", WHOLE)


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


def held(bench: Bench) -> tuple[int, int, int, int]:
    """Tracks, points on curves, facts and matches that the engine holds."""
    telemetry = bench.engine._telemetry
    tracks = telemetry._runs.values()
    points = sum(len(curve) for one in tracks for curve in one.curves.values())
    facts = sum(map(len, telemetry.metrics.values()))
    return len(tracks), points, facts, len(bench.engine.state.matches)


@pytest.mark.usefixtures("few")
def test_the_newest_ends_keep_their_curves() -> None:
    bench = campaign(JOBS)
    assert with_curves(bench) == WHOLE
    assert live(bench, "j011").curves["loss"].steps


@pytest.mark.usefixtures("few")
def test_of_the_others_a_row_of_the_table_is_kept() -> None:
    left = live(campaign(JOBS), "j000")
    assert (left.step, len(left.trend), left.curves) == (40, 32, {})


@pytest.mark.usefixtures("few")
def test_what_is_held_does_not_grow_with_the_number_of_jobs_that_ended() -> None:
    assert held(campaign(JOBS)) == held(campaign(3 * JOBS))


@pytest.mark.usefixtures("few")
def test_curves_are_read_again_when_somebody_looks_at_the_job() -> None:
    bench = campaign(JOBS)
    whole = live(bench, "j011").curves["loss"]
    bench.engine.look_at(["j000"])
    bench.run(10)
    again = live(bench, "j000").curves["loss"]
    assert (again.steps, again.values) == (whole.steps, whole.values)
    assert with_curves(bench) == WHOLE


@pytest.mark.usefixtures("few")
def test_reading_again_tells_nothing_twice() -> None:
    bench = campaign(JOBS)
    before = len(bench.world.session.records)
    bench.engine.look_at([f"j{n:03d}" for n in range(JOBS)])
    bench.run(20)
    assert len(bench.world.session.records) == before


@pytest.mark.usefixtures("few")
def test_the_next_engine_holds_as_much() -> None:
    bench = campaign(JOBS)
    before = held(bench)[:2]
    bench.start()
    bench.run(20)
    assert held(bench)[:2] == before


@pytest.mark.usefixtures("few")
def test_a_job_that_is_brought_back_shows_its_new_run() -> None:
    crash = RunScript(seconds=5.0, exit_code=1, writes=RUN.writes)
    short = Write(at=1.0, data=b"step: 7 loss: 1.0\n")
    again = RunScript(seconds=1e6, writes=(short,))
    bench = campaign(JOBS, {"j000": [[crash], [again]]})
    bench.order(commands.Resubmit(jobs=("j000",)))
    bench.until(bench.is_("j000", JobState.RUNNING))
    bench.run(10)
    assert live(bench, "j000").curves["loss"].steps == (7,)


@pytest.mark.usefixtures("few")
def test_a_condition_on_the_metric_of_a_job_that_was_let_go_of_holds() -> None:
    wants = MetricIs(name="loss", job="j000", op="<", value=6.0)
    specs = [job(f"j{n:03d}", n) for n in range(JOBS)]
    late = job("late", JOBS, start_conditions=(wants,))
    scripts = {spec.name: [[RUN]] for spec in (*specs, late)}
    bench = Bench(plan(*specs, late, monitoring=RULES), scripts, slots=1)
    ended: Callable[[], bool] = bench.is_("late", JobState.COMPLETED)
    bench.until(ended, 9e3)
