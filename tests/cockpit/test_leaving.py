"""However the screen ends, the engine goes on; the caller learns how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from autoexp_tui.cockpit.context import LeaveWay
from autoexp_tui.model.commands import Command, Pause
from autoexp_tui.model.snapshot import Snapshot
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import all_done, campaign, planned
from tests.support.scripted_handle import moved


@pytest.mark.parametrize("key", ["q", "ctrl+q", "ctrl+c"])
async def test_every_way_to_quit_asks_and_enter_stays(key: str) -> None:
    async with cockpit() as seat:
        await seat.press(key)
        await seat.until(lambda: "Leave?" in seat.dialog)
        await seat.hear()
        await seat.press("enter")
        await seat.until(lambda: not seat.dialog)
        assert seat.left == []


@pytest.mark.parametrize(
    ("key", "way", "sent"),
    [("y", LeaveWay.LEFT, []), ("p", LeaveWay.PAUSED, [Pause()])],
)
async def test_y_leaves_and_p_pauses_submission_before(
    key: str, way: LeaveWay, sent: list[Command]
) -> None:
    async with cockpit() as seat:
        await seat.ask("q")
        await seat.press(key)
        await seat.until(lambda: seat.left)
        assert seat.left == [seat.app.return_value] == [way]
        assert seat.handle.commands == sent
        assert not seat.handle.closed


@pytest.mark.parametrize(
    "snapshot", [planned(10), campaign(10, role="viewer"), all_done(10)]
)
async def test_where_nothing_could_be_disturbed_nothing_is_asked(
    snapshot: Snapshot,
) -> None:
    async with cockpit(snapshot) as seat:
        await seat.press("q")
        await seat.until(lambda: seat.left)
        assert seat.left == [LeaveWay.NOTHING]


async def test_an_abandoned_screen_ends_at_once_and_says_so_once() -> None:
    async with cockpit() as seat:
        seat.app.abandon()
        seat.app.abandon()
        assert seat.left == [LeaveWay.LOST]
        assert seat.app.return_value is LeaveWay.LOST
        assert seat.app.fault is None


async def test_a_snapshot_after_leaving_wakes_nobody() -> None:
    async with cockpit() as seat:
        shown = seat.model.session.snapshot
        seat.app.leave(LeaveWay.LEFT)
        seat.handle.push(moved(shown, 1))
        await seat.pilot.pause()
        assert seat.model.session.snapshot is shown


class Broken(Exception):
    """A bug of ours."""


def break_it(*_: object) -> None:
    raise Broken


seats: list[Seat] = []


async def broken_handler() -> None:
    async with cockpit() as seat:
        seats[:] = [seat]
        seat.jobs.call_later(break_it)
        await seat.until(lambda: seat.app.fault is not None)


async def broken_background() -> None:
    async with cockpit() as seat:
        seats[:] = [seat]
        seat.app.run_worker(seat.app.context.background.fetch("x", break_it))
        await seat.until(lambda: seat.app.fault is not None)


@pytest.mark.parametrize("breaking", [broken_handler, broken_background])
async def test_a_fault_ends_the_screen_and_is_told(
    breaking: Callable[[], Awaitable[None]],
) -> None:
    with pytest.raises(Broken):
        await breaking()
    app = seats[0].app
    assert isinstance(app.fault, Broken)
    assert app.return_code == 1
    assert app.job_actions.countdown is None
    assert seats[0].left == []
    assert not seats[0].handle.closed
