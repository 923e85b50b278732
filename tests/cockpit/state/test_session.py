"""Observing shares what did not change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.snapshot import Live, Role, Snapshot
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import JobState, Result, Verdict, why
from tests.support.campaigns import T0, all_done, campaign
from tests.support.scripted_handle import moved, with_job, with_warnings


def resting() -> Snapshot:
    """Nothing runs, and a job waits."""
    base = replace(all_done(10), open=True)
    name = base.jobs[0].name
    return with_job(base, name, state=JobState.WAITING, attempts=(), since=T0 - 6)


def test_jobs_that_did_not_change_are_the_same_objects() -> None:
    first = build_session(campaign(31))
    changed = with_job(first.snapshot, first.jobs[3].name, cause=None)
    second = build_session(changed, first)
    same = [a is b for a, b in zip(first.jobs, second.jobs, strict=True)]
    assert same.count(False) == 1


def test_counts_follow_a_change() -> None:
    first = build_session(campaign(31))
    done = first.count(Look.DONE)
    running = next(job for job in first.jobs if job.look is Look.RUNNING)
    second = build_session(
        with_job(first.snapshot, running.name, state=JobState.COMPLETED), first
    )
    assert second.count(Look.DONE) == done + 1


def test_a_counter_that_stopped_long_ago_is_stalled() -> None:
    snapshot = campaign(31)
    running = next(
        job for job in build_session(snapshot).jobs if job.look is Look.RUNNING
    )
    live = list(snapshot.live)
    live[running.index] = Live(step=1, last_step_at=T0 - 7200)
    session = build_session(replace(snapshot, live=tuple(live)))
    assert session.jobs[running.index].look is Look.STALLED


def test_a_job_that_never_moved_is_not_stalled() -> None:
    snapshot = campaign(31)
    running = next(
        job for job in build_session(snapshot).jobs if job.look is Look.RUNNING
    )
    live = list(snapshot.live)
    live[running.index] = Live(last_output_at=T0)
    session = build_session(replace(snapshot, live=tuple(live)))
    assert session.jobs[running.index].look is Look.RUNNING


def test_a_job_s_own_rules_say_its_loss_and_how_long_it_may_stand_still() -> None:
    base = campaign(31)
    running = next(job for job in build_session(base).jobs if job.look is Look.RUNNING)
    own = Monitoring(loss="accuracy", stall_after_seconds=10_000)
    spec = replace(running.record.spec, own_rules=own)
    live = list(base.live)
    metrics = {"accuracy": 0.5, "loss": 2.0}
    live[running.index] = Live(step=1, last_step_at=T0 - 7200, metrics=metrics)
    session = build_session(
        with_job(replace(base, live=tuple(live)), running.name, spec=spec)
    )
    job = session.jobs[running.index]
    assert job.look is Look.RUNNING
    assert session.find_result(job) == 0.5


def test_the_engine_s_result_wins_over_the_newest_value() -> None:
    base = campaign(31)
    running = next(job for job in build_session(base).jobs if job.look is Look.RUNNING)
    live = list(base.live)
    live[running.index] = Live(step=1, metrics={"loss": 2.0}, result=1.5)
    session = build_session(replace(base, live=tuple(live)))
    assert session.find_result(session.jobs[running.index]) == 1.5


def test_the_engine_s_word_makes_a_job_stalled() -> None:
    snapshot = campaign(31)
    running = next(
        job for job in build_session(snapshot).jobs if job.look is Look.RUNNING
    )
    warned = Warned(
        warning_id="w1",
        why=why("stall", step=3, seconds=4000),
        job=running.name,
        severity="warning",
        evidence="",
        raised_at=T0,
    )
    session = build_session(with_warnings(snapshot, warned))
    assert session.jobs[running.index].look is Look.STALLED


def test_a_job_moves_on_and_is_running_again() -> None:
    snapshot = campaign(31)
    first = build_session(snapshot)
    running = next(job for job in first.jobs if job.look is Look.RUNNING)
    live = list(snapshot.live)
    live[running.index] = Live(step=1, last_step_at=T0 - 7200)
    still = build_session(replace(snapshot, live=tuple(live)), first)
    again = build_session(snapshot, still)
    assert again.jobs[running.index].look is Look.RUNNING


def test_a_verdict_s_reason_is_as_fresh_as_it_is_known() -> None:
    snapshot = campaign(31)
    place = next(
        job.index for job in build_session(snapshot).jobs if job.look is Look.WAITING
    )
    fresh = why("file_missing", path="/x", newest="iter_9000")
    live = list(snapshot.live)
    live[place] = Live(start=(Verdict(Result.WAIT, fresh),))
    status = build_session(replace(snapshot, live=tuple(live))).jobs[place].status(0)
    assert status is not None
    assert status.why is fresh


def test_who_waits_for_whom_is_worked_out_once_a_plan() -> None:
    first = build_session(campaign(31))
    assert build_session(moved(first.snapshot, 5), first).links is first.links


def test_time_goes_on_with_the_engine_s_word() -> None:
    snapshot = campaign(31)
    later = replace(snapshot, engine=replace(snapshot.engine, committed_at=T0 + 60))
    assert build_session(later).now == T0 + 60


def test_ages_go_on_while_the_engine_rests() -> None:
    desk = SessionModel(resting())
    assert desk.update_ages(T0 + 60)
    assert desk.session.now == T0 + 60


def test_a_rest_that_was_seen_outlasts_an_older_word() -> None:
    desk = SessionModel(resting())
    desk.update_ages(T0 + 60)
    desk.take(replace(resting(), seq=9999))
    assert desk.session.now == T0 + 60


@pytest.mark.parametrize("role", ["live", "viewer"])
def test_ages_stand_while_something_runs_and_the_engine_is_silent(role: Role) -> None:
    desk = SessionModel(campaign(31, role=role))
    assert not desk.update_ages(T0 + 60)
    assert desk.session.now == T0


def test_ages_stand_where_no_engine_lives() -> None:
    base = resting()
    gone = replace(base, engine=replace(base.engine, owner_alive=False))
    assert not SessionModel(gone).update_ages(T0 + 60)


def test_ages_of_a_replay_stand_with_its_moment() -> None:
    base = resting()
    replayed = replace(base, engine=replace(base.engine, role="replay"))
    assert not SessionModel(replayed).update_ages(T0 + 60)
