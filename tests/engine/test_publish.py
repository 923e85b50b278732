"""Snapshots that share what did not change say the same as ones made from nothing."""

from __future__ import annotations

from autoexp_tui.conditions.simple import JobStateIs
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.snapshot import Snapshot
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

LINE = b"iteration %d/100 | lm loss: 2.5\n"


def scripted() -> Bench:
    """Two that fail or end at their own times, one that waits, one that goes on."""
    done = JobStateIs(jobs=("a",), state="COMPLETED")
    waits = job("c", 2, depends_on=("a",), start_conditions=(done,))
    specs = (job("a", 0), job("b", 1), waits, job("d", 3))
    writes = tuple(Write(at=float(at), data=LINE % at) for at in range(1, 40))
    return Bench(
        plan(*specs),
        {
            "a": [[RunScript(seconds=9.0, writes=writes)]],
            "b": [[RunScript(seconds=5.0, exit_code=3)]],
            "c": [[RunScript(seconds=1e6, writes=writes)]],
            "d": [[RunScript(seconds=1e6)]],
        },
    )


def fresh(bench: Bench) -> Snapshot:
    """The newest snapshot, which nothing has happened since."""
    bench.clock.advance(0.2)
    bench.engine.commit()
    snapshot = bench.engine.snapshot
    assert snapshot is not None
    return snapshot


def test_a_snapshot_has_every_job_as_it_is_whatever_has_moved() -> None:
    bench = scripted()
    for _ in range(60):
        bench.run(0.5)
        state = bench.engine.state
        assert fresh(bench).jobs == tuple(state.jobs[name] for name in state.order)
    assert set(bench.states().values()) == {"COMPLETED", "FAILED", "RUNNING"}


def test_a_snapshot_has_what_every_log_said_last() -> None:
    bench = scripted()
    for _ in range(60):
        bench.run(0.5)
        shown = dict(zip(bench.engine.state.order, fresh(bench).live, strict=True))
        for name, live in shown.items():
            seen = bench.engine._telemetry.build_live(name)
            assert (live.step if live else None) == (seen.step if seen else None)


def test_a_publisher_that_is_not_told_what_changed_takes_over_everything() -> None:
    bench = scripted()
    publisher, view = SnapshotBuilder(), fresh(bench).engine
    publisher.build_snapshot(bench.engine.state, view, {})
    bench.run(10)
    publisher.note(bench.world.session.records)
    state = bench.engine.state
    shown = publisher.build_snapshot(state, view, {}).jobs
    assert shown == tuple(state.jobs[name] for name in state.order)
