"""What waits is grouped by its reason, and cheaply grouped again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.render.lists import (
    describe_wait_group,
    render_wait_group,
    render_waiting_job,
)
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state import waiting as module
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import JobView, SessionView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.state.waiting import WAITING, WaitGroup, Waits, find_wait_begin
from autoexp_tui.model.state import ConditionStatus
from autoexp_tui.model.states import JobState, Result, why
from tests.support.campaigns import T0, all_done, campaign
from tests.support.scripted_handle import HOSTILE, moved, with_job

SESSION = build_session(campaign(125))


def waits_of(session: SessionView = SESSION) -> Waits:
    waits = Waits()
    waits.take(session)
    return waits


def test_every_waiting_job_is_in_one_group_of_its_kind_the_longest_wait_first() -> None:
    groups = waits_of().groups
    found = [job.name for group in groups for job in group.jobs]
    expected = [job.name for job in SESSION.jobs if job.look in WAITING]
    assert sorted(found) == sorted(expected)
    assert len(groups) < 8
    oldest = [group.oldest for group in groups]
    assert oldest == sorted(oldest)
    for group in groups:
        assert len({(job.look, job.stage) for job in group.jobs}) == 1
        since = [find_wait_begin(job) for job in group.jobs]
        assert since == sorted(since)


def test_doomed_ones_are_counted_and_marked() -> None:
    waits = waits_of()
    number = SESSION.count(Look.DOOMED)
    assert f"{number} can never start" in waits.describe()
    assert waits_of(build_session(all_done(10))).describe() == "nothing waits"
    doomed = next(group for group in waits.groups if group.look is Look.DOOMED)
    told = render_wait_group(doomed, SESSION, 120, mark="▹", apart=False)
    assert f"⊘{len(doomed.jobs)}" in plain(told)


def test_a_job_that_asks_waits_since_it_was_asked() -> None:
    asks = next(job for job in SESSION.jobs if job.look is Look.ASKS)
    assert asks.record.ask is not None
    asked = replace(asks.record.ask, asked_at=T0 - 6)
    waited = {"since": T0 - 3600, "waiting_lived": T0 - 3600}
    later = build_session(with_job(SESSION.snapshot, asks.name, ask=asked, **waited))
    group = next(one for one in waits_of(later).groups if one.look is Look.ASKS)
    told = plain(render_wait_group(group, later, 80, mark="▹", apart=False))
    assert told.endswith(" 6 s")


def waits_for_a_long_path() -> tuple[WaitGroup, SessionView]:
    job = next(job for job in SESSION.jobs if job.look is Look.WAITING)
    missing = why("file_missing", path="/x/checkpoints/iter_00008000/done_by_all.txt")
    status = ConditionStatus(result=Result.WAIT, why=missing, since=T0)
    told = {"start": (status,), "since": 1.0}
    later = build_session(with_job(SESSION.snapshot, job.name, **told))
    groups = waits_of(later).groups
    return next(one for one in groups if one.jobs[0].name == job.name), later


def test_a_reason_is_whole_where_there_is_room() -> None:
    group, later = waits_for_a_long_path()
    assert group.oldest == 1.0
    told = plain(render_wait_group(group, later, 120, mark="▹", apart=False))
    assert "iter_00008000/done_by_all.txt" in told
    told = plain(render_waiting_job(group.jobs[0], later, (), 160))
    assert "iter_00008000/done_by_all.txt" in told


@pytest.mark.parametrize("code", ["paused", "held_by_storm"])
def test_a_job_that_a_pause_keeps_waits_since_the_pause(code: str) -> None:
    job = next(job for job in SESSION.jobs if job.look is Look.WAITING)
    passed = ConditionStatus(result=Result.PASS, why=why("ok"), since=T0)
    kept = {"start": (passed,), "why": why(code, at=T0 - 7), "waiting_lived": T0 - 99}
    later = build_session(with_job(SESSION.snapshot, job.name, **kept))
    assert find_wait_begin(later.jobs[job.index]) == T0 - 7


def test_a_job_that_changes_changes_its_group() -> None:
    waits = waits_of()
    group = next(one for one in waits.groups if one.look is Look.WAITING)
    job = group.jobs[0]
    passed = ConditionStatus(result=Result.PASS, why=why("ok"), since=T0)
    told = why("held_by_slots", slots=2, place=1)
    later = build_session(
        with_job(SESSION.snapshot, job.name, start=(passed,), why=told), SESSION
    )
    assert waits.take(later)
    own = next(one for one in waits.groups if job.name in {j.name for j in one.jobs})
    assert [one.name for one in own.jobs] == [job.name]
    assert "slot" in describe_wait_group(own, later)


def test_what_does_not_change_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = build_session(campaign(1000))
    waits = waits_of(session)
    looked: list[JobView] = []
    original = module._build_key

    def counted(job: JobView) -> str:
        looked.append(job)
        return original(job)

    monkeypatch.setattr(module, "_build_key", counted)
    assert not waits.take(build_session(replace(session.snapshot, seq=9), session))
    waits.take(build_session(moved(session.snapshot, 1), session))
    assert not looked


def test_held_and_retrying_jobs_wait_too() -> None:
    base = SESSION.snapshot
    names = [job.name for job in SESSION.jobs[:2]]
    told = with_job(base, names[0], state=JobState.HELD)
    told = with_job(told, names[1], state=JobState.RETRYING)
    looks = {group.look for group in waits_of(build_session(told)).groups}
    assert {Look.HELD, Look.RETRYING} <= looks


@pytest.mark.parametrize("cells", [58, 78, 118, 198])
@pytest.mark.parametrize("names", [(), HOSTILE])
def test_no_line_is_too_wide(cells: int, names: tuple[str, ...]) -> None:
    session = build_session(campaign(60, names=names))
    words = PlanWords(session.snapshot.plan)
    for group in waits_of(session).groups:
        for mark in "▹▾":
            row = render_wait_group(group, session, cells, mark=mark, apart=True)
            assert width(row) <= cells
        for job in group.jobs:
            assert (
                width(render_waiting_job(job, session, words.parameters, cells))
                <= cells
            )
