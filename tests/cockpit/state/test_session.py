"""Observing shares what did not change, and says how each job looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.state.session import Look, build_session, find_look
from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.state import Ask, JobRecord, Warned
from autoexp_tui.model.states import JobState, Result, Verdict, why
from tests.cockpit.views import SESSION, changed, looking, status
from tests.planning.plans import job
from tests.support.campaigns import T0, all_done, campaign
from tests.support.scripted_handle import with_job, with_warnings

BASE = SESSION.snapshot
(RUNS, *_) = looking(Look.RUNNING)
LONG_AGO = Live(step=1, last_step_at=T0 - 7200)


def test_jobs_that_did_not_change_are_the_same_objects() -> None:
    second = build_session(with_job(BASE, SESSION.jobs[3].name, cause=None), SESSION)
    assert second.links is SESSION.links
    pairs = zip(SESSION.jobs, second.jobs, strict=True)
    assert [one.index for one, other in pairs if one is not other] == [3]


def record(state: JobState, *results: Result | None, **changes: Any) -> JobRecord:
    files = tuple(FileExists(path=f"/{n}") for n in range(len(results)))
    start = tuple(result and status(result) for result in results)
    told = {"spec": job("a", start_conditions=files), "start": start, **changes}
    return JobRecord(state=state, **told)


ASK = Ask(digest="d", prompt="?", asked_at=0, asked_lived=0)
WAIVED = (status(Result.FAIL, waived="known"),)


@pytest.mark.parametrize(
    ("one", "look"),
    [
        (record(JobState.RUNNING), Look.STALLED),
        (record(JobState.WAITING, Result.FAIL), Look.DOOMED),
        (record(JobState.WAITING, ask=ASK), Look.ASKS),
        (record(JobState.WAITING, ask=replace(ASK, approved=True)), Look.WAITING),
        (record(JobState.WAITING, Result.FAIL, start=WAIVED), Look.WAITING),
    ],
)
def test_a_look_says_what_a_person_cares_about(one: JobRecord, look: Look) -> None:
    assert find_look(one, stalled=True) is look


def test_every_state_has_a_look_and_each_look_its_own_glyphs() -> None:
    assert all(find_look(record(state), stalled=False) for state in JobState)
    over = find_look(record(JobState.RUNNING), stalled=True, leaving=True)
    assert over is Look.ENDING
    twins = {look.twin for look in Look}
    assert len({look.glyph for look in Look}) == len(twins) == len(Look)
    assert all(twin.isascii() and len(twin) == 1 for twin in twins)


def test_a_counter_that_stopped_long_ago_is_stalled_until_it_moves_on() -> None:
    assert changed(RUNS, Live(last_step_at=T0))[0].look is Look.RUNNING
    still, session = changed(RUNS, LONG_AGO)
    assert still.look is Look.STALLED
    later = replace(BASE, engine=replace(BASE.engine, committed_at=T0 + 60))
    again = build_session(later, session)
    assert again.now == T0 + 60
    assert again.jobs[RUNS.index].look is Look.RUNNING
    assert again.count(Look.RUNNING) == session.count(Look.RUNNING) + 1
    stall = why("stall", step=3, seconds=4000)
    told: Any = {"severity": "warning", "evidence": "", "raised_at": T0}
    word = Warned(warning_id="w1", why=stall, job=RUNS.name, **told)
    warned = build_session(with_warnings(BASE, word))
    assert warned.jobs[RUNS.index].look is Look.STALLED


def test_a_job_s_own_rules_say_its_loss_and_how_long_it_may_stand_still() -> None:
    own = Monitoring(loss="accuracy", stall_after_seconds=10_000)
    spec = replace(RUNS.record.spec, own_rules=own)
    live = replace(LONG_AGO, metrics={"accuracy": 0.5, "loss": 2.0})
    job, session = changed(RUNS, live, spec=spec)
    assert (job.look, session.find_result(job)) == (Look.RUNNING, 0.5)
    job, session = changed(RUNS, replace(live, result=1.5), spec=spec)
    assert session.find_result(job) == 1.5


def test_a_verdict_s_reason_is_as_fresh_as_it_is_known() -> None:
    fresh = why("file_missing", path="/x", newest="iter_9000")
    live = Live(start=(Verdict(Result.WAIT, fresh),))
    told = changed(looking(Look.WAITING)[0], live)[0].find_status(0)
    assert told is not None
    assert told.why is fresh


def resting(**engine: Any) -> Snapshot:
    """Nothing runs, and a job waits."""
    base = replace(all_done(10), open=True)
    base = replace(base, engine=replace(base.engine, **engine))
    waits = {"state": JobState.WAITING, "attempts": (), "since": T0 - 6}
    return with_job(base, base.jobs[0].name, **waits)


def test_ages_go_on_only_where_an_engine_is_silent_because_it_rests() -> None:
    watched = campaign(31, role="viewer")
    for shown in (watched, resting(owner_alive=False), resting(role="replay")):
        model = SessionModel(shown)
        assert not model.update_ages(T0 + 60)
        assert model.session.now == T0
    model = SessionModel(resting())
    assert model.update_ages(T0 + 60)
    assert model.session.now == T0 + 60
    model.take(replace(resting(), seq=9999))
    assert model.session.now == T0 + 60
