"""Snapshots say what there is, and share with the one before what did not change."""

from __future__ import annotations

from autoexp_tui.conditions.jobs import JobStateIs
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
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


# ----------------------------------------------------------------- what is shared
def begun() -> Bench:
    """One job that is about to end, and one that runs on."""
    scripts = {"a": [[RunScript(seconds=5.0)]], "b": [[RunScript(seconds=500.0)]]}
    one = Bench(plan(job("a"), job("b", 1)), scripts)
    one.until(lambda: set(one.states().values()) == {"RUNNING"})
    one.run(1)
    return one


def test_the_next_snapshot_shares_the_jobs_that_stayed_as_they_were() -> None:
    one = begun()
    before = one.snapshots[-1]
    one.until(one.is_("a", JobState.COMPLETED))
    after = one.snapshots[-1]
    assert before.jobs[0] is not after.jobs[0]
    assert before.jobs[1] is after.jobs[1]
    assert before.plan is after.plan


def test_without_an_event_nothing_is_made_anew() -> None:
    one = begun()
    publisher = SnapshotBuilder()
    view = one.snapshots[-1].engine
    first = publisher.build_snapshot(one.engine.state, view, {})
    second = publisher.build_snapshot(one.engine.state, view, {})
    assert first.jobs is second.jobs
    assert first.live is second.live
    assert first.events is second.events
    assert first.warnings is second.warnings


def test_the_next_engine_shows_every_job_ended_ones_too() -> None:
    one = begun()
    one.until(one.is_("a", JobState.COMPLETED))
    one.start()
    one.run(1)
    shown = one.snapshots[-1]
    assert [(each.name, each.state.value) for each in shown.jobs] == [
        ("a", "COMPLETED"),
        ("b", "RUNNING"),
    ]
    assert [len(each.attempts) for each in shown.jobs] == [1, 1]


def test_a_session_without_jobs_is_open() -> None:
    one = begun()
    view = one.snapshots[-1].engine
    assert SnapshotBuilder().build_snapshot(SessionState(), view, {}).open
