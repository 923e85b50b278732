"""Acting: nothing is sent unasked, and never more or other than was shown."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events

from autoexp_tui.cockpit.context import LeaveWay
from autoexp_tui.cockpit.state.forecast import Looks
from autoexp_tui.cockpit.state.session import Look
from autoexp_tui.cockpit.widgets.bars import Prompt
from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.events.events import CommandRefused
from autoexp_tui.model import commands as c
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.outputs import CheckpointPlace, SeenCheckpoint
from autoexp_tui.model.rules import Checkpoints
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import JobState, why
from tests.cockpit.plans import holey, opened
from tests.cockpit.seat import PATIENCE, Seat, asking, cockpit
from tests.cockpit.views import LINES, TITLE, questioned
from tests.support.campaigns import T0, all_done, campaign, plan_of, planned
from tests.support.scripted_handle import moved, with_events, with_job, with_warnings

KILLED = "killed in the cockpit"


async def pass_time(seat: Seat, seconds: float) -> None:
    seat.clock.advance(seconds)
    seat.app.actions.update_countdown()
    await seat.pilot.pause()


async def test_a_kill_is_counted_down_stopped_by_u_and_sent_after_five_seconds() -> (
    None
):
    async with asking("K", Look.RUNNING) as (seat, name):
        await seat.see("y", footer="1 job will be killed in 5 s   U stops it")
        first = seat.app.actions.countdown
        await seat.press("K")
        assert not seat.dialog
        assert seat.app.actions.countdown is first
        await seat.see("U", footer="stopped: nothing was sent")
        await pass_time(seat, 10)
        await seat.play("K hear y y")
        await pass_time(seat, 4.5)
        assert seat.handle.sent == []
        await pass_time(seat, 1)
        assert seat.handle.commands == [c.Kill(jobs=(name,), reason=KILLED)]
        assert seat.handle.sent[0].expected == {name: 1}


async def test_a_kill_tells_of_a_checkpoint_once_it_was_looked_for() -> None:
    may_look = threading.Event()

    def look(places: Sequence[CheckpointPlace]) -> Looks:
        may_look.wait(PATIENCE)
        return {one.job: SeenCheckpoint(step=1, age=7.0) for one in places}

    base = campaign()
    glob = Checkpoints(glob="iter_*")
    rules = replace(plan_of(base).monitoring, checkpoints=glob)
    jobs = tuple(replace(job, metadata={}) for job in base.jobs)
    silent = replace(base, jobs=jobs, plan=replace(plan_of(base), monitoring=rules))
    async with cockpit(silent, checkpoints=look) as seat:
        await seat.go_to(Look.RUNNING)
        await seat.see("K hear", dialog="no checkpoint known (looking for them)")
        may_look.set()
        await seat.see(dialog="since 1, 7 s|!no checkpoint known")


async def test_every_key_but_y_and_a_lost_terminal_leave_it_running() -> None:
    async with asking("K", Look.RUNNING) as (seat, _):
        for key in ("enter", "escape", "n", "q", "ctrl+c"):
            await seat.press(key)
            await seat.until(lambda: not seat.dialog)
            await pass_time(seat, 10)
            assert seat.handle.sent == []
            await seat.play("K hear")
        await seat.press("y")
        assert seat.app.actions.countdown is not None
        seat.app.abandon()
        await pass_time(seat, 10)
        assert seat.handle.sent == []


async def test_ten_jobs_want_their_count_typed() -> None:
    async with cockpit() as seat:
        running = [job.name for job in seat.looking(Look.RUNNING)]
        seat.model.marks.update(running)
        for script in ("K hear y", "'99 backspace y"):
            await seat.see(script, dialog=f"type {len(running)} first")
            assert seat.app.actions.countdown is None
        await seat.play(f"backspace '{len(running)} y")
        await seat.until(lambda: not seat.dialog)
        await pass_time(seat, 6)
        (sent,) = seat.handle.commands
        assert isinstance(sent, c.Kill)
        assert sorted(sent.jobs) == sorted(running)


async def test_one_family_goes_first_and_the_rest_is_offered_afterwards() -> None:
    shown = opened(holey())
    async with cockpit(shown) as seat:
        await seat.see("j j S hear", dialog="one family first (lr=1e-4 bsz=128")
        names = ("lr0.0001_bsz128_stable", "lr0.0001_bsz128_cooldown")
        submit = c.Submit(jobs=names, plan_id=plan_of(shown).plan_id)
        await seat.order("j y", submit)
    states = {True: JobState.COMPLETED, False: JobState.HELD}
    first = shown.jobs[0].spec.family
    jobs = (replace(job, state=states[job.spec.family == first]) for job in shown.jobs)
    async with cockpit(replace(shown, jobs=tuple(jobs))) as seat:
        seat.check(jobs="not chosen: S sub")
        await seat.see("S", dialog="the 8 jobs left")


LR = "optim.lr=5e-4"
DIFFERS = "optim.lr: 3e-4 -> 5e-4|same directory"
WAY = "(o) let it start without: iter_48000/done.txt"
OTHER, LATE = {"overrides": (LR,)}, {"reason": "late"}
WAIVER = {"condition": 0, "reason": "ok"}


@pytest.mark.parametrize(
    ("key", "look", "script", "shown", "command", "fields"),
    [
        ("R", Look.FAILED, "", "Resubmit 1 job?", c.Resubmit, {}),
        ("R", Look.FAILED, f"j j tab '{LR} enter", DIFFERS, c.Resubmit, OTHER),
        ("X", Look.DOOMED, "tab 'late enter", "Skip 1 job?", c.Skip, LATE),
        ("X", Look.DOOMED, "j y tab 'ok enter", WAY, c.Waive, WAIVER),
    ],
)
async def test_an_answer_is_sent_as_it_was_shown(
    key: str, look: Look, script: str, shown: str, command: Any, fields: Any
) -> None:
    async with asking(key, look) as (seat, name):
        await seat.see(script, dialog=shown)
        assert seat.handle.sent == []
        await seat.push(replace(seat.handle.snapshot()))  # no news of any job
        names = {"job": name} if command is c.Waive else {"jobs": (name,)}
        await seat.order("hear y", command(**names, **fields))


async def test_what_cannot_be_meant_is_refused_in_the_dialog() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        limit = "a limit reads 90m, 12h, 2d or 12:00:00"
        await seat.see("k tab 'soon enter hear y", dialog=limit)
        assert seat.handle.sent == []


async def test_a_warning_is_acknowledged_in_needs_you() -> None:
    storm = {"why": why("storm", count=3), "job": "", "severity": "warning"}
    warned = Warned(warning_id="w1", evidence="", raised_at=T0, **storm)  # type: ignore[arg-type]
    async with cockpit(with_warnings(campaign(31), warned)) as seat:
        await seat.order("5 G X", c.Acknowledge(warnings=("w1",)))


async def test_pausing_and_resuming_are_one_key() -> None:
    async with cockpit() as seat:
        assert "P" not in seat.footer.split("│")[1]
        await seat.order("P", c.Pause())
        await seat.push(replace(seat.handle.snapshot(), paused=why("paused")))
        seat.check(footer="P resume|!P pause")
        await seat.order("P", c.Resume())


@pytest.mark.parametrize("by", ["c1", ""], ids=["sent here", "of another person"])
async def test_a_refused_command_is_told_where_it_was_sent(by: str) -> None:
    async with cockpit() as seat:
        await seat.press("P")
        refusal = CommandRefused(why=why("nothing_to_do", command="pause"))
        told = with_events(seat.handle.snapshot(), [refusal])
        newest = replace(told.events[-1], command_id=by)
        await seat.push(replace(told, events=(*told.events[:-1], newest)))
        assert ("refused: " in seat.footer) is bool(by)
        assert seat.jobs._notice_timer is None or not by
        await seat.see("j", footer="!refused: ")


async def test_an_approval_may_wait_and_shows_its_files_again_when_they_changed(
    tmp_path: Path,
) -> None:
    shown = tmp_path / "plan.md"
    shown.write_bytes(b"run \x1b[2J5 more\nthen stop\n")
    base = campaign(31)
    report, files = base.jobs[-1], (str(shown), str(tmp_path / "none.md"))
    approval = condition_kinds.Approval(prompt="Go?", show_files=files)
    spec = replace(report.spec, start_conditions=(approval,))
    async with cockpit(with_job(base, report.name, spec=spec)) as seat:
        name = seat.looking(Look.ASKS)[0].name  # found from anywhere
        await seat.play("A hear enter")
        await seat.until(lambda: not seat.dialog)
        assert seat.handle.sent == []
        await seat.play("A hear")
        seat.check(dialog="run 5 more|then stop|(not there yet)")
        shown.write_text("run 500 more")
        await seat.see("y", dialog="run 500 more", footer="files changed while you")
        assert seat.handle.sent == []
        answer = c.Answer(job=name, digest="d1", approved=True)
        await seat.order("hear y", answer)


def reply(*dropped: int, title: str = TITLE, approved: bool = True) -> c.AnswerAsk:
    kept = [line for at, line in enumerate(LINES) if at not in dropped]
    seal = digest_question("beam", title, kept)
    return c.AnswerAsk(ask="beam", digest=seal, approved=approved, dropped=dropped)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_question_of_a_policy_is_led_to_and_answered_line_by_line(
    size: tuple[int, int],
) -> None:
    async with cockpit(questioned(), size) as seat:
        await seat.see(
            "! ! !", header="3 need you", needs="> ?1  Promote two?", focus="needs"
        )
        assert "A answer" in seat.footer
        await seat.see("enter", why="beam asks|2 drop e5")
        await seat.see("escape 5 A hear", dialog="Approve beam?|> [x]  1  keep e3")
        await seat.see("j space", dialog="> [ ]  2  drop|y approve 2 of 3")
        await seat.click("keep e7")
        await seat.see(dialog="> [ ]  3|y approve 1 of 3")
        await seat.see(
            "k k space y", dialog="> [ ]  1|every line is dropped: x refuses"
        )
        await seat.order("space y", reply(1, 2))
        assert not seat.dialog
        await seat.play("! ! ! A hear space enter")
        await seat.order("A hear space x", reply(approved=False))


async def test_a_question_that_changed_while_it_was_read_is_asked_anew() -> None:
    async with cockpit(questioned()) as seat:
        await seat.play("5 G A hear")
        await seat.push(questioned("Promote one?"))
        await seat.see("y", dialog="Promote one?", footer="changed while you read")
        await seat.order("hear y", reply(title="Promote one?"))
        await seat.push(questioned(approved=True))
        await seat.see(header="2 need you", needs="!Promote")


async def test_what_was_answered_elsewhere_is_not_asked_about_next() -> None:
    base = campaign(31)
    asks = next(job for job in base.jobs if job.ask)
    assert asks.ask is not None
    waiting = [job for job in base.jobs if job.state is JobState.WAITING]
    other = next(job for job in waiting if job is not asks)
    two = with_job(base, other.name, ask=asks.ask)
    async with cockpit(two) as seat:
        first, second = seat.looking(Look.ASKS)
        await seat.play("A hear")
        answered = replace(asks.ask, approved=True)
        await seat.push(with_job(two, second.name, ask=answered))
        refusal = c.Answer(job=first.name, digest="d1", approved=False)
        await seat.order("x", refusal)
        assert not seat.dialog


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


async def test_jobs_that_ended_while_one_read_are_asked_about_again() -> None:
    async with cockpit() as seat:
        names = [job.name for job in seat.looking(Look.RUNNING)[:2]]
        seat.model.marks.update(names)
        await seat.play("K hear")
        over = {"state": JobState.COMPLETED, "why": None}
        await seat.push(with_job(seat.handle.snapshot(), names[0], **over))
        await seat.see("y", dialog="Kill 1 running job?")
        assert seat.app.actions.countdown is None


def numbered(jobs: int, plan_id: str) -> Snapshot:
    """A plan that nobody submitted, by its id."""
    made = planned(jobs)
    return replace(made, plan=replace(plan_of(made), plan_id=plan_id))


async def test_a_plan_made_while_s_asks_is_not_submitted_in_its_place() -> None:
    async with cockpit(numbered(4, "first")) as seat:
        await seat.see("S hear", dialog="all 4 jobs")
        await seat.push(numbered(13, "second"))
        await seat.play("y")
        assert seat.handle.sent == []
        await seat.see(footer="planned again while you read", dialog="all 13 jobs")
        names = tuple(job.name for job in seat.model.session.jobs)
        assert len(names) == 13
        await seat.order("hear y", c.Submit(jobs=names, plan_id="second"))


async def test_planning_again_stands_in_the_header_and_in_the_question() -> None:
    base = numbered(4, "first")
    async with cockpit(
        replace(base, engine=replace(base.engine, doing="planning exp"))
    ) as seat:
        seat.check(header="planning")
        await seat.see("S", dialog="is being planned again")


async def test_read_only_sends_nothing_and_offers_no_step_that_it_refuses() -> None:
    async with cockpit(read_only=True) as seat:
        for key in "SKRAXP":
            await seat.see(f"j {key}", footer="read only")
            assert not seat.dialog
        assert seat.handle.sent == []
        await seat.go_to(Look.RUNNING)
        seat.check(why="Next  0 its log")
        await seat.press("w")
        told = seat.widget("conditions").copy_text()
        assert "reads" in told
        assert "Next" not in told
    base = campaign()
    theirs = replace(base, engine=replace(base.engine, user="user 61001"))
    async with cockpit(theirs, handle_read_only=True) as seat:
        told = "read only: this is the session of user 61001"
        await seat.see("P", footer=told)


async def test_marks_that_a_filter_hides_are_named_and_stay_in_sight() -> None:
    async with cockpit() as seat:
        seat.model.marks.update(job.name for job in seat.looking(Look.DONE)[:2])
        hidden = "the 2 marked jobs, 2 of them hidden by the filter: none"
        await seat.see("slash 'waiting enter K", footer=hidden)
    async with cockpit(size=(80, 24)) as seat:
        await seat.play("full_stop space slash 'cooldown enter")
        assert " marked" in seat.pane("jobs").split("\n")[0]


@pytest.mark.parametrize(
    ("before", "keys", "typed"),
    [
        ("", "/stage:cooldown Kq j/G:", "stage:cooldown Kq j/G:"),
        ("", "/lr=\x7f>1", "lr>1"),
        ("", "0/loss", "loss"),
        ("8", "/kind:submit", "kind:submit"),
        ("w l j", "\r/ab", "ab"),
        ("", ":kill", "kill"),
    ],
)
async def test_what_is_typed_in_one_burst_reaches_its_field(
    before: str, keys: str, typed: str
) -> None:
    async with cockpit() as seat:
        await seat.play(before)
        await seat.burst(keys)
        screen: Any = seat.app.screen if keys[0] == ":" else seat.app.full_screen
        assert screen.field.value == typed
        assert seat.handle.sent == []


async def test_what_is_pasted_or_typed_after_enter_goes_where_it_belongs() -> None:
    async with cockpit() as seat:
        seat.app.post_message(events.Key("slash", "/"))
        seat.app.post_message(events.Paste("lr>1e-3"))
        await seat.until(lambda: seat.jobs.field and seat.jobs.field.value == "lr>1e-3")
        await seat.press("escape")
        await seat.burst("/cannot\rzz")
        assert seat.jobs.field is None
        seat.check(jobs="/cannot (esc)")


@pytest.mark.parametrize(
    ("keys", "last"),
    [(f"jj\t{LR}\r", "y"), (f"jj{LR}\r", "y"), (f"jj\t{LR}\ty", "")],
)
async def test_other_values_typed_in_one_burst_are_sent_whole(
    keys: str, last: str
) -> None:
    async with asking("R", Look.FAILED) as (seat, name):
        await seat.burst(keys)
        if last:
            seat.check(dialog=DIFFERS)
            assert seat.handle.sent == []
            await seat.play(f"hear {last}")
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [c.Resubmit(jobs=(name,), overrides=(LR,))]


async def test_enter_goes_to_the_field_that_a_way_asks_for_and_closes_nothing() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        await seat.burst("jj\rnodes.quick=1")
        seat.check(dialog="nodes.quick")
    async with asking("R", Look.FAILED) as (seat, _):
        await seat.burst("jj\toptim.lr=5e-4\r")
        await seat.see("hear enter", dialog="y resubmit|Enter does nothing here")
        assert seat.handle.sent == []


async def test_letters_typed_on_behind_a_closed_dialog_are_no_commands() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        await seat.press("n", "8", "S")
        assert (seat.dialog, seat.app.current_mode) == ("", "jobs")
        seat.clock.advance(0.4)
        await seat.burst("8")
        assert seat.app.current_mode == "events"


async def test_keys_typed_ahead_of_a_question_confirm_nothing() -> None:
    async with cockpit(campaign(40)) as seat:
        await seat.go_to(Look.RUNNING)
        await seat.burst("Kyy")
        await seat.see("y", dialog="Kill 1 running job?")
        assert seat.app.actions.countdown is None
        assert seat.handle.sent == []


async def test_every_way_to_quit_asks_and_enter_stays() -> None:
    async with cockpit() as seat:
        for key in ("q", "ctrl+q", "ctrl+c"):
            await seat.see(key, dialog="Leave?")
            await seat.play("hear enter")
            await seat.until(lambda: not seat.dialog)
        assert seat.left == []


@pytest.mark.parametrize(
    ("shown", "script", "way", "sent"),
    [
        (campaign(), "q hear y", LeaveWay.LEFT, []),
        (campaign(), "q hear p", LeaveWay.LEFT, [c.Pause()]),
        (planned(10), "q", LeaveWay.LEFT, []),
        (campaign(10, role="viewer"), "q", LeaveWay.LEFT, []),
        (all_done(10), "q", LeaveWay.LEFT, []),
    ],
)
async def test_only_what_could_be_disturbed_is_asked_about_before_leaving(
    shown: Snapshot, script: str, way: LeaveWay, sent: list[c.Command]
) -> None:
    async with cockpit(shown) as seat:
        await seat.play(script)
        await seat.until(lambda: seat.left)
        assert seat.left == [seat.app.return_value] == [way]
        assert seat.handle.commands == sent
        assert not seat.handle.closed


async def test_an_abandoned_screen_ends_at_once_and_says_so_once() -> None:
    async with cockpit() as seat:
        seat.app.abandon()
        seat.app.abandon()
        assert seat.left == [seat.app.return_value] == [LeaveWay.LOST]
        assert seat.app.fault is None
        before = seat.model.session.snapshot
        seat.handle.push(moved(before, 1))  # wakes nobody any more
        await seat.pilot.pause()
        assert seat.model.session.snapshot is before


class Broken(Exception):
    """A bug of ours."""


def break_it(*_: object) -> None:
    raise Broken


@pytest.mark.parametrize("place", ["handler", "background"])
async def test_a_fault_ends_the_screen_and_is_told(place: str) -> None:
    seats: list[Seat] = []

    async def end_by_fault() -> None:
        async with cockpit() as seat:
            seats.append(seat)
            if place == "handler":
                seat.jobs.call_later(break_it)
            else:
                fetched = seat.app.context.background.fetch("x", break_it)
                seat.app.run_worker(fetched)
            await seat.until(lambda: seat.app.fault is not None)

    with pytest.raises(Broken):
        await end_by_fault()
    app = seats[0].app
    assert isinstance(app.fault, Broken)
    assert (app.return_code, app.actions.countdown) == (1, None)
    assert seats[0].left == []
    assert not seats[0].handle.closed


async def test_ways_are_picked_by_digit_and_digits_then_go_to_the_wanted_text() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        await seat.see("2", dialog="2 (o) as planned")
        await seat.see("5", dialog="5 (o) with another time limit")
        await seat.press(*"12h")
        assert seat.app.screen.query_one(Prompt).value == "12h"
    async with asking("X", Look.WAITING) as (seat, _):
        await seat.see("2", dialog="2 (o)")
