"""Running jobs that their time limit will cut for certain, among what needs you."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.actions.restart import Restart
from autoexp_tui.cockpit.render.lists import render_evidence
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.causes import group_causes
from autoexp_tui.cockpit.state.forecast import Cuts, find_sure_cuts
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.model.commands import Acknowledge
from autoexp_tui.model.rules import StateEvent
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import Attempt
from autoexp_tui.model.states import JobState
from tests.cockpit.plans import opened
from tests.cockpit.seat import cockpit
from tests.planning.plans import job, plan
from tests.support.campaigns import T0

LIMITED = Resources(time_limit_seconds=3600)


def running(*, rate: float = 2.0, ran: float = 600.0, step: int = 1200) -> Snapshot:
    """Two jobs of a stage that run; 10,000 steps, an hour."""
    jobs = [
        job(f"j{at}", at, stage="train", resources=LIMITED, progress_total=10_000)
        for at in range(2)
    ]
    shown = opened(plan(jobs))
    one = Attempt(number=1, token="t", ordered_at=T0 - ran, began_at=T0 - ran)
    records = tuple(
        replace(record, state=JobState.RUNNING, attempts=(one,))
        for record in shown.jobs
    )
    live = Live(step=step, total=10_000, rate=rate, last_step_at=T0)
    return replace(shown, jobs=records, live=(live, live))


def cuts(shown: Snapshot, before: Cuts | None = None) -> Cuts:
    return find_sure_cuts(build_session(shown), before or {})


def test_jobs_too_slow_for_their_limit_are_one_cause_of_their_stage() -> None:
    session = build_session(running())
    found = group_causes(
        session, PlanWords(session.snapshot.plan), find_sure_cuts(session)
    )
    (group,) = found
    assert (group.title, group.size) == ("limit too short", 2)
    (evidence,) = render_evidence(group)
    assert plain(evidence).startswith(
        "will be cut by its time limit at step ~7200 of 10k"
    )


def test_jobs_that_end_in_time_are_none() -> None:
    assert cuts(running(rate=3.2)) == {}


def test_a_moment_of_slowness_warns_of_nothing() -> None:
    assert cuts(running(rate=0.1, step=1900)) == {}


def test_a_run_that_has_hardly_begun_warns_of_nothing() -> None:
    assert cuts(running(rate=0.1, ran=120.0, step=12)) == {}


def test_what_was_warned_of_clears_later_than_it_begins() -> None:
    near = running(rate=2.73)
    assert cuts(near) == {}
    assert set(cuts(near, cuts(running()))) == {"j0", "j1"}


def test_a_job_that_a_rule_starts_again_is_meant_to_be_cut() -> None:
    shown = running()
    assert shown.plan is not None
    rule = StateEvent(name="again", state="timeout", actions=(Restart(),))
    watched = replace(shown.plan.monitoring, state_events=(rule,))
    assert cuts(replace(shown, plan=replace(shown.plan, monitoring=watched))) == {}


def test_a_limit_that_a_person_knows_of_is_not_told_again() -> None:
    shown = running()
    (known, other) = shown.jobs
    seen = replace(known.attempts[0], limit_seen=True)
    jobs = (replace(known, attempts=(seen,)), other)
    assert set(cuts(replace(shown, jobs=jobs), cuts(shown))) == {"j1"}


async def test_x_in_pane_5_says_that_they_were_seen() -> None:
    async with cockpit(running()) as seat:
        await seat.press("5", "G", "X")
        assert seat.handle.commands == [Acknowledge(limits=(("j0", 1), ("j1", 1)))]
        assert "2 warnings acknowledged" in seat.everything


async def test_pane_5_shows_them_with_their_number() -> None:
    async with cockpit(running()) as seat:
        assert "2 need you, 1 cause" in seat.everything
        assert "!2  limit too short   train" in seat.pane("needs")


async def test_the_next_need_goes_on_after_a_job_with_two_causes() -> None:
    async with cockpit(running()) as seat:
        (group,) = seat.model.groups
        also = replace(group, key="other", jobs=group.jobs[:1])
        seat.model.groups = (also, group)
        after = seat.model.next_need("j0")
        assert after is not None
        assert after.name == "j1"
