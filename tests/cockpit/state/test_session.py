"""Observing shares what did not change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.state.session import JobView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import JobState, Result, Verdict, why
from tests.support.campaigns import T0, all_done, campaign
from tests.support.scripted_handle import with_job, with_warnings


def resting() -> Snapshot:
    """Nothing runs, and a job waits."""
    base = replace(all_done(10), open=True)
    name = base.jobs[0].name
    return with_job(base, name, state=JobState.WAITING, attempts=(), since=T0 - 6)


def test_jobs_that_did_not_change_are_the_same_objects() -> None:
    first = build_session(campaign(31))
    changed = with_job(first.snapshot, first.jobs[3].name, cause=None)
    second = build_session(changed, first)
    assert second.links is first.links
    same = [a is b for a, b in zip(first.jobs, second.jobs, strict=True)]
    assert same.count(False) == 1


def running(snapshot: Snapshot) -> JobView:
    """The first job that runs."""
    jobs = build_session(snapshot).jobs
    return next(job for job in jobs if job.look is Look.RUNNING)


def with_live(snapshot: Snapshot, live: Live, place: int | None = None) -> Snapshot:
    """A snapshot in which a job, the first that runs, is seen like that."""
    lives = list(snapshot.live)
    lives[running(snapshot).index if place is None else place] = live
    return replace(snapshot, live=tuple(lives))


@pytest.mark.parametrize(
    ("live", "look"),
    [
        (Live(step=1, last_step_at=T0 - 7200), Look.STALLED),
        (Live(last_output_at=T0), Look.RUNNING),
    ],
    ids=["stopped long ago", "never moved"],
)
def test_a_counter_that_stopped_long_ago_is_stalled(live: Live, look: Look) -> None:
    base = campaign(31)
    session = build_session(with_live(base, live))
    assert session.jobs[running(base).index].look is look


def test_a_job_s_own_rules_say_its_loss_and_how_long_it_may_stand_still() -> None:
    base = campaign(31)
    job = running(base)
    own = Monitoring(loss="accuracy", stall_after_seconds=10_000)
    metrics = {"accuracy": 0.5, "loss": 2.0}
    seen = with_live(base, Live(step=1, last_step_at=T0 - 7200, metrics=metrics))
    spec = replace(job.record.spec, own_rules=own)
    session = build_session(with_job(seen, job.name, spec=spec))
    assert session.jobs[job.index].look is Look.RUNNING
    assert session.find_result(session.jobs[job.index]) == 0.5
    told = Live(step=1, metrics=metrics, result=1.5)
    session = build_session(with_live(session.snapshot, told, job.index))
    assert session.find_result(session.jobs[job.index]) == 1.5


def test_the_engine_s_word_makes_a_job_stalled() -> None:
    base = campaign(31)
    warned = Warned(
        warning_id="w1",
        why=why("stall", step=3, seconds=4000),
        job=running(base).name,
        severity="warning",
        evidence="",
        raised_at=T0,
    )
    session = build_session(with_warnings(base, warned))
    assert session.jobs[running(base).index].look is Look.STALLED


def test_a_job_moves_on_and_is_running_again() -> None:
    base = campaign(31)
    base = replace(base, engine=replace(base.engine, committed_at=T0 + 60))
    assert build_session(base).now == T0 + 60
    still = build_session(
        with_live(base, Live(step=1, last_step_at=T0 - 7200)), build_session(base)
    )
    again = build_session(base, still)
    assert again.jobs[running(base).index].look is Look.RUNNING
    assert again.count(Look.RUNNING) == still.count(Look.RUNNING) + 1


def test_a_verdict_s_reason_is_as_fresh_as_it_is_known() -> None:
    base = campaign(31)
    jobs = build_session(base).jobs
    place = next(job.index for job in jobs if job.look is Look.WAITING)
    fresh = why("file_missing", path="/x", newest="iter_9000")
    seen = with_live(base, Live(start=(Verdict(Result.WAIT, fresh),)), place)
    status = build_session(seen).jobs[place].status(0)
    assert status is not None
    assert status.why is fresh


@pytest.mark.parametrize("newer", [None, replace(resting(), seq=9999)])
def test_ages_go_on_while_the_engine_rests_whatever_an_older_word_says(
    newer: Snapshot | None,
) -> None:
    desk = SessionModel(resting())
    assert desk.update_ages(T0 + 60)
    if newer is not None:
        desk.take(newer)
    assert desk.session.now == T0 + 60


@pytest.mark.parametrize(
    "shown",
    [
        campaign(31, role="live"),
        campaign(31, role="viewer"),
        replace(resting(), engine=replace(resting().engine, owner_alive=False)),
        replace(resting(), engine=replace(resting().engine, role="replay")),
    ],
    ids=["a job runs", "a job is seen to run", "no engine lives", "a replay"],
)
def test_ages_stand_where_an_engine_may_be_silent_for_another_reason(
    shown: Snapshot,
) -> None:
    desk = SessionModel(shown)
    assert not desk.update_ages(T0 + 60)
    assert desk.session.now == T0
