"""Acting: nothing is sent unasked, and never more than was shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cockpit.state.kill_cost import Looks
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.widgets.why_pane import AnswerPane
from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.model.commands import (
    Acknowledge,
    Answer,
    Command,
    Kill,
    Pause,
    Resubmit,
    Resume,
    Skip,
    Submit,
    Waive,
)
from autoexp_tui.model.outputs import CheckpointPlace, SeenCheckpoint
from autoexp_tui.model.rules import Checkpoints
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import NOT_STARTED, JobState, why
from tests.cockpit.seat import PATIENCE, Seat, asking, cockpit
from tests.support.campaigns import T0, campaign, planned
from tests.support.scripted_handle import with_job, with_warnings


async def pass_time(seat: Seat, seconds: float) -> None:
    seat.clock.advance(seconds)
    seat.app.job_actions.update_countdown()
    await seat.pilot.pause()


# ---------------------------------------------------------------------------- kill
async def test_a_kill_is_sent_after_y_and_five_seconds() -> None:
    async with asking("K", Look.RUNNING) as (seat, name):
        await seat.press("y", "y")
        await pass_time(seat, 4.5)
        assert seat.handle.sent == []
        await pass_time(seat, 1)
        assert [type(one) for one in seat.handle.commands] == [Kill]
        sent = seat.handle.sent[0]
        assert isinstance(sent.command, Kill)
        assert sent.command.jobs == (name,)
        assert sent.expected == {name: 1}


async def test_a_kill_tells_of_a_checkpoint_once_it_was_looked_for() -> None:
    may_look = threading.Event()

    def look(places: Sequence[CheckpointPlace]) -> Looks:
        may_look.wait(PATIENCE)
        return {one.job: SeenCheckpoint(step=1, age=7.0) for one in places}

    async with cockpit(without_told_checkpoints(), checkpoints=look) as seat:
        await seat.go_to(Look.RUNNING)
        await seat.ask("K")
        assert "no checkpoint known (looking for them)" in seat.dialog
        may_look.set()
        await seat.until(lambda: "since 1, 7 s" in seat.dialog)
        assert "no checkpoint known" not in seat.dialog


def without_told_checkpoints() -> Snapshot:
    """A campaign whose logs tell of no checkpoint, and that has a pattern for them."""
    base = campaign()
    assert base.plan is not None
    found = Checkpoints(glob="iter_*")
    rules = replace(base.plan.monitoring, checkpoints=found)
    jobs = tuple(replace(job, metadata={}) for job in base.jobs)
    return replace(base, jobs=jobs, plan=replace(base.plan, monitoring=rules))


@pytest.mark.parametrize("key", ["enter", "escape", "n", "q", "ctrl+c"])
async def test_every_key_but_y_leaves_it_running(key: str) -> None:
    async with asking("K", Look.RUNNING) as (seat, _):
        await seat.press(key)
        await seat.until(lambda: not seat.dialog)
        await pass_time(seat, 10)
        assert seat.handle.sent == []


async def test_the_countdown_is_told_and_u_stops_it() -> None:
    async with asking("K", Look.RUNNING) as (seat, _):
        await seat.press("y")
        seat.check(footer="1 job will be killed in 5 s   U stops it")
        first = seat.app.job_actions.countdown
        await seat.press("K")
        assert not seat.dialog
        assert seat.app.job_actions.countdown is first
        await seat.press("U")
        await pass_time(seat, 10)
        assert seat.handle.sent == []
        seat.check(footer="stopped: nothing was sent")


async def test_a_lost_terminal_drops_a_countdown() -> None:
    async with asking("K", Look.RUNNING) as (seat, _):
        await seat.press("y")
        seat.app.abandon()
        seat.clock.advance(10)
        seat.app.job_actions.update_countdown()
        assert seat.handle.sent == []


async def test_ten_jobs_want_their_count_typed() -> None:
    async with cockpit() as seat:
        running = [j.name for j in seat.model.session.jobs if j.look is Look.RUNNING]
        seat.model.marks.update(running)
        await seat.ask("K")
        for script in ("y", "'99 backspace y"):
            await seat.play(script)
            seat.check(dialog=f"type {len(running)} first")
            assert seat.app.job_actions.countdown is None
        await seat.play(f"backspace '{len(running)} y")
        await seat.until(lambda: not seat.dialog)
        await pass_time(seat, 6)
        sent = seat.handle.commands[0]
        assert isinstance(sent, Kill)
        assert sorted(sent.jobs) == sorted(running)


async def test_jobs_that_ended_while_one_read_are_asked_about_again() -> None:
    async with cockpit() as seat:
        names = [j.name for j in seat.model.session.jobs if j.look is Look.RUNNING]
        seat.model.marks.update(names[:2])
        await seat.ask("K")
        changed = with_job(
            seat.handle.snapshot(), names[0], state=JobState.COMPLETED, why=None
        )
        await seat.push(changed)
        await seat.press("y")
        await seat.until(lambda: "Kill 1 running job?" in seat.dialog)
        assert seat.app.job_actions.countdown is None


async def test_a_verb_on_a_stage_acts_on_its_jobs() -> None:
    async with cockpit(campaign(40)) as seat:
        await seat.press("1", "j", "j")
        await seat.ask("X")
        waiting = [
            job
            for job in seat.model.session.jobs
            if job.stage == "evaluate" and job.record.state in NOT_STARTED
        ]
        assert waiting
        assert all(job.name in seat.dialog for job in waiting)


async def test_a_verb_on_a_folded_row_acts_on_its_jobs() -> None:
    async with cockpit(size=(80, 24)) as seat:
        await seat.press("exclamation_mark")
        await seat.ask("R")
        assert "Resubmit 4 jobs?" in seat.dialog


# -------------------------------------------------------------------------- submit
async def test_opening_a_plan_submits_nothing_and_s_asks() -> None:
    async with cockpit(planned(10)) as seat:
        await seat.ask("S")
        assert "all 10 jobs: at most 640 GPU h" in seat.dialog
        assert seat.handle.sent == []
        await seat.press("y")
        await seat.until(lambda: seat.handle.sent)
        names = tuple(job.name for job in seat.model.session.jobs)
        assert seat.handle.commands == [Submit(jobs=names, plan_id="p1")]


async def test_the_marked_ones_go_with_what_they_need() -> None:
    async with cockpit(planned(10)) as seat:
        await seat.press("j", "space")
        await seat.ask("S")
        await seat.press("j", "y")
        await seat.until(lambda: seat.handle.sent)
        jobs = tuple(job.name for job in seat.model.session.jobs[:2])
        assert seat.handle.commands == [Submit(jobs=jobs, plan_id="p1")]


# ------------------------------------------------------------ resubmit, skip, waive
ANSWERS: dict[str, tuple[str, Look, str, str, Callable[[str], Command]]] = {
    "a failed job comes back from its checkpoint": (
        "R",
        Look.FAILED,
        "",
        "Resubmit 1 job?",
        lambda name: Resubmit(jobs=(name,), from_checkpoint=True),
    ),
    "other values are typed and shown as a difference": (
        "R",
        Look.FAILED,
        "j j tab 'optim.lr=5e-4 enter",
        "optim.lr: 3e-4 -> 5e-4",
        lambda name: Resubmit(jobs=(name,), overrides=("optim.lr=5e-4",)),
    ),
    "a doomed job is skipped with a reason": (
        "X",
        Look.DOOMED,
        "tab 'late enter",
        "Skip 1 job?",
        lambda name: Skip(jobs=(name,), reason="late"),
    ),
    "a condition is waived only with a reason": (
        "X",
        Look.DOOMED,
        "j y tab 'copied enter",
        "(o) let it start without: iter_48000/done.txt",
        lambda name: Waive(job=name, condition=0, reason="copied"),
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_answer_is_sent_as_it_was_shown(answer: str) -> None:
    key, look, script, shown, command = ANSWERS[answer]
    async with asking(key, look) as (seat, name):
        await seat.play(script)
        seat.check(dialog=shown)
        assert seat.handle.sent == []
        await seat.hear()
        await seat.press("y")
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [command(name)]


async def test_what_cannot_be_meant_is_refused_in_the_dialog() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        await seat.play("k tab 'soon enter")
        await seat.hear()
        await seat.press("y")
        seat.check(dialog="a limit reads 90m, 12h, 2d")
        assert seat.handle.sent == []


async def test_a_warning_is_acknowledged_in_needs_you() -> None:
    warned = Warned(
        warning_id="w1",
        why=why("storm", count=3),
        job="",
        severity="warning",
        evidence="",
        raised_at=T0,
    )
    async with cockpit(with_warnings(campaign(31), warned)) as seat:
        await seat.press("5", "G", "X")
        assert seat.handle.commands == [Acknowledge(warnings=("w1",))]


# ------------------------------------------------------------------------ approval
def asking_with_files(paths: tuple[str, ...]) -> Snapshot:
    base = campaign(31)
    report = base.jobs[-1]
    approval = condition_kinds.Approval(prompt="Go?", show_files=paths)
    spec = replace(report.spec, start_conditions=(approval,))
    return with_job(base, report.name, spec=spec)


async def test_an_approval_shows_its_files_and_sends_the_digest(tmp_path: Path) -> None:
    shown = tmp_path / "plan.md"
    shown.write_bytes(b"run \x1b[2J5 more\nthen stop\n")
    missing = tmp_path / "none.md"
    async with cockpit(asking_with_files((str(shown), str(missing)))) as seat:
        name = await seat.go_to(Look.ASKS)
        await seat.ask("A")
        assert "run 5 more" in seat.dialog
        assert "then stop" in seat.dialog
        assert "(not there yet)" in seat.dialog
        await seat.press("y")
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [Answer(job=name, digest="d1", approved=True)]


async def test_what_asks_is_found_from_anywhere_and_may_be_decided_later() -> None:
    async with cockpit() as seat:
        await seat.ask("A")
        seat.check(dialog="Approve")
        await seat.press("enter")
        await seat.until(lambda: not seat.dialog)
        assert seat.handle.sent == []


# --------------------------------------------------------------------------- pause
async def test_pausing_and_resuming_are_one_key() -> None:
    async with cockpit() as seat:
        assert "P" not in seat.footer.split("│")[1]
        await seat.press("P")
        await seat.push(replace(seat.handle.snapshot(), paused=why("paused")))
        assert "P resume" in seat.footer
        await seat.press("P")
        assert seat.handle.commands == [Pause(), Resume()]


# ----------------------------------------------------------------------- read only
async def test_read_only_offers_no_step_that_it_refuses() -> None:
    async with cockpit(read_only=True) as seat:
        await seat.go_to(Look.RUNNING)
        assert "Next  0 its log" in seat.pane("why")
        await seat.press("w")
        answer = seat.app.screen.query_one("#conditions", AnswerPane)
        assert "reads" in answer.copy_text()
        assert "Next" not in answer.copy_text()


@pytest.mark.parametrize("key", ["S", "K", "R", "A", "X", "P"])
async def test_read_only_sends_nothing(key: str) -> None:
    async with cockpit(read_only=True) as seat:
        await seat.press(key)
        assert not seat.dialog
        assert "read only" in seat.footer
        assert seat.handle.sent == []


async def test_whose_session_it_is_is_told_with_the_refusal() -> None:
    base = campaign()
    theirs = replace(base, engine=replace(base.engine, user="user 61001"))
    async with cockpit(theirs, handle_read_only=True) as seat:
        await seat.press("P")
        assert "read only: this is the session of user 61001" in seat.footer
        assert seat.handle.sent == []


async def test_a_session_that_turns_out_to_be_read_only_offers_no_step() -> None:
    async with cockpit() as seat:
        await seat.go_to(Look.RUNNING)
        assert "K kill" in seat.pane("why")
        seat.handle.read_only = True
        await seat.push(replace(seat.handle.snapshot(), name="again"))
        assert "K kill" not in seat.pane("why")
        assert "read only" in seat.pane("header")


async def test_a_verb_without_an_object_names_the_marks_it_looked_at() -> None:
    async with cockpit() as seat:
        done = [job for job in seat.model.session.jobs if job.look is Look.DONE]
        seat.model.marks.update(job.name for job in done[:2])
        await seat.press("slash")
        await seat.type("waiting")
        await seat.press("enter", "K")
        assert "the 2 marked jobs, 2 of them hidden by the filter: none" in seat.footer


async def test_marks_stay_in_sight_at_80_columns() -> None:
    async with cockpit(size=(80, 24)) as seat:
        await seat.press("full_stop", "space", "slash")
        await seat.type("cooldown")
        await seat.press("enter")
        assert " marked" in seat.pane("jobs").split("\n")[0]
