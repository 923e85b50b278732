"""Snapshots: what did not change is shared, so that a look costs the same for ever."""

from __future__ import annotations

from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript


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
