"""A question is bound to what it showed: the plan, the jobs, the files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.widgets.bars import Header
from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.engine.session_handle import SessionHandle
from autoexp_tui.model.commands import Answer, Resubmit, Submit
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import JobState
from tests.cockpit.seat import Seat, asking, cockpit
from tests.support.campaigns import campaign, plan_of, planned
from tests.support.scripted_handle import ScriptedHandle, with_job


def numbered(jobs: int, plan_id: str) -> Snapshot:
    """A plan that nobody submitted, by its id."""
    made = planned(jobs)
    return replace(made, plan=replace(plan_of(made), plan_id=plan_id))


# ------------------------------------------------------------------------------ plans


async def test_a_plan_made_while_s_asks_is_not_submitted_in_its_place() -> None:
    async with cockpit(numbered(4, "first")) as seat:
        await seat.ask("S")
        assert "all 4 jobs" in seat.dialog
        await seat.push(numbered(13, "second"))
        await seat.press("y")
        assert seat.handle.sent == []
        assert "planned again while you read" in seat.footer
        await seat.until(lambda: "all 13 jobs" in seat.dialog)
        await seat.hear()
        await seat.press("y")
        await seat.until(lambda: seat.handle.sent)
        (sent,) = seat.handle.commands
        assert isinstance(sent, Submit)
        assert (len(sent.jobs), sent.plan_id) == (13, "second")


class Planner:
    """Plans when the test lets it: first 4 jobs, then 13."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.made: list[ScriptedHandle] = []

    def __call__(self) -> ScriptedHandle:
        again = bool(self.made)
        if again:
            assert self.go_on.wait(20)
        shown = numbered(13, "second") if again else numbered(4, "first")
        self.made.append(ScriptedHandle(shown))
        return self.made[-1]


@contextmanager
def planning(planner: Planner) -> Iterator[SessionHandle]:
    handle = SessionHandle(planner, name="exp", doing="planning exp")
    handle.start()
    try:
        yield handle
    finally:
        planner.go_on.set()


async def test_planning_again_stands_in_the_header_and_in_the_question() -> None:
    planner = Planner()
    with planning(planner) as handle:
        options = CockpitOptions(ascii=False, replan=handle.start)
        app = CockpitApp(handle, options=options)
        async with app.run_test(size=(120, 40)) as pilot:
            seat = Seat(app, pilot, None, None, [])  # type: ignore[arg-type]
            await seat.until(lambda: len(app.context.model.session.jobs) == 4)
            await seat.press("ctrl+r", "j")
            header = app.jobs_screen.query_one(Header)
            await seat.until(lambda: "planning" in header.text_on_screen)
            assert len(app.context.model.session.jobs) == 4
            await seat.press("S")
            await seat.until(lambda: "is being planned again" in seat.dialog)
            planner.go_on.set()
            await seat.until(lambda: len(app.context.model.session.jobs) == 13)
            assert "planning" not in header.text_on_screen


async def test_keys_say_what_is_still_being_made() -> None:
    planner = Planner()
    planner.made.append(ScriptedHandle(planned(1)))  # so that the first one waits
    with planning(planner) as handle:
        app = CockpitApp(handle, options=CockpitOptions(ascii=False))
        async with app.run_test(size=(120, 40)) as pilot:
            seat = Seat(app, pilot, None, None, [])  # type: ignore[arg-type]
            for key in ("S", "exclamation_mark"):
                await seat.press(key)
                assert "planning exp goes on" in seat.footer


# ------------------------------------------------------------------------------- jobs
@pytest.mark.parametrize(
    ("key", "look", "now", "said"),
    [
        ("R", Look.FAILED, JobState.WAITING, "ended in a way that R mends"),
        ("X", Look.DOOMED, JobState.SKIPPED, ""),
    ],
)
async def test_a_job_that_others_changed_meanwhile_is_asked_about_again(
    key: str, look: Look, now: JobState, said: str
) -> None:
    async with asking(key, look) as (seat, name):
        await seat.push(with_job(seat.handle.snapshot(), name, state=now))
        await seat.press("y")
        assert seat.handle.sent == []
        seat.check(footer=said)


async def test_r_goes_on_with_jobs_that_stayed_as_they_were() -> None:
    async with asking("R", Look.FAILED) as (seat, name):
        await seat.push(replace(seat.handle.snapshot()))
        await seat.press("y")
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [Resubmit(jobs=(name,))]


# -------------------------------------------------------------------------- approvals
def asking_about(path: Path) -> Snapshot:
    base = campaign(31)
    report = base.jobs[-1]
    approval = condition_kinds.Approval(prompt="Go?", show_files=(str(path),))
    spec = replace(report.spec, start_conditions=(approval,))
    return with_job(base, report.name, spec=spec)


async def test_a_file_that_changed_while_it_was_read_is_shown_again(
    tmp_path: Path,
) -> None:
    shown = tmp_path / "plan.md"
    shown.write_text("run 5 more")
    async with cockpit(asking_about(shown)) as seat:
        name = await seat.go_to(Look.ASKS)
        await seat.ask("A")
        shown.write_text("run 500 more")
        await seat.press("y")
        await seat.until(lambda: "run 500 more" in seat.dialog)
        assert seat.handle.sent == []
        assert "its files changed while you read" in seat.footer
        await seat.hear()
        await seat.press("y")
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [Answer(job=name, digest="d1", approved=True)]


async def test_what_was_answered_elsewhere_is_not_asked_about_next() -> None:
    base = campaign(31)
    asks = next(job for job in base.jobs if job.ask and job.ask.approved is None)
    waiting = [job for job in base.jobs if job.state is JobState.WAITING]
    other = next(job for job in waiting if job.name != asks.name)
    two = with_job(base, other.name, ask=asks.ask)
    async with cockpit(two) as seat:
        asked = [job.name for job in seat.model.session.jobs if job.look is Look.ASKS]
        assert len(asked) == 2
        await seat.ask("A")
        answered = replace(asks.ask, approved=True) if asks.ask else None
        await seat.push(with_job(two, asked[1], ask=answered))
        await seat.press("x")
        await seat.until(lambda: seat.handle.sent)
        await seat.pilot.pause()
        assert seat.handle.commands == [
            Answer(job=asked[0], digest="d1", approved=False)
        ]
        assert not seat.dialog
