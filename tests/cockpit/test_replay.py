"""A replay in the cockpit: its keys, its time, its bar; nothing is ordered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import pytest

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.engine.replay import ReplayHandle
from autoexp_tui.engine.replay_buffer import ReplayBuffer
from autoexp_tui.model.snapshot import Playback
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.seat import Seat
from tests.support.week import SHA, Week, week


@cache
def told() -> Week:
    return week(31, note_seconds=1800, slots=4)


def replay_of(shown: Week, clock: ManualClock, *, playing: bool) -> ReplayHandle:
    buffer = ReplayBuffer(shown.records, {SHA: shown.plan})
    buffer.read(len(shown.records) + 1)
    return ReplayHandle(buffer, clock, playing=playing)


@asynccontextmanager
async def replaying(
    size: tuple[int, int] = (120, 40), *, playing: bool = False
) -> AsyncIterator[Seat]:
    clock = ManualClock(0.0)
    handle = replay_of(told(), clock, playing=playing)
    options = CockpitOptions(ascii=False, no_color=False, replay=True)
    app = CockpitApp(handle, options=options, clock=clock)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Seat(app, pilot, handle, clock, [])  # type: ignore[arg-type]
    handle.close()


def shown(seat: Seat) -> Playback:
    playback = seat.model.session.snapshot.playback
    assert playback is not None
    return playback


async def test_it_begins_where_the_journal_begins_and_end_and_home_go_there() -> None:
    async with replaying() as seat:
        assert shown(seat).at == told().records[0].t
        assert seat.app.context.find_utc() == told().records[0].t
        seat.check(header="replay")
        await seat.press("end")
        await seat.until(lambda: shown(seat).at == told().records[-1].t)
        assert "running" not in seat.pane("header")
        await seat.press("home")
        await seat.until(lambda: shown(seat).at == told().records[0].t)


async def test_space_plays_and_the_speed_is_doubled_and_halved() -> None:
    async with replaying() as seat:
        await seat.press("space")
        await seat.until(lambda: shown(seat).playing)
        await seat.press("space")
        await seat.until(lambda: not shown(seat).playing)
        await seat.press("greater_than_sign")
        await seat.until(lambda: shown(seat).speed == 120.0)
        seat.check(timebar="120x")
        await seat.press("less_than_sign", "less_than_sign")
        await seat.until(lambda: shown(seat).speed == 30.0)


async def test_arrows_go_on_and_back_by_a_commit() -> None:
    async with replaying() as seat:
        await seat.press("right", "right")
        await seat.until(lambda: shown(seat).position > 2)
        after = shown(seat).position
        await seat.press("left")
        await seat.until(lambda: shown(seat).position < after)


async def test_t_asks_for_a_time_and_goes_there() -> None:
    async with replaying() as seat:
        await seat.press("t")
        await seat.type("50%")
        await seat.press("enter")
        begin, end = told().records[0].t, told().records[-1].t
        await seat.until(lambda: abs(shown(seat).at - (begin + end) / 2) < 1)


async def test_what_is_no_time_is_said_and_nothing_moves() -> None:
    async with replaying() as seat:
        await seat.press("t")
        await seat.type("noon")
        await seat.press("enter")
        assert "a time reads" in seat.footer
        assert shown(seat).at == told().records[0].t


@pytest.mark.parametrize("key", ["S", "K", "R", "A", "X", "P", "U"])
async def test_acting_keys_are_refused_with_a_word(key: str) -> None:
    async with replaying() as seat:
        await seat.press(key)
        assert "what has happened takes no commands" in seat.footer
        assert seat.dialog == ""


async def test_keys_of_a_replay_are_in_its_footer_and_first_in_help() -> None:
    async with replaying((80, 24)) as seat:
        seat.check(footer="space play")
        await seat.press("question_mark")
        assert "replay: " in seat.dialog.partition("Act (")[0]


@pytest.mark.parametrize(("size", "rows"), [((80, 24), 1), ((120, 40), 2)])
async def test_the_bar_lies_below_the_keys(size: tuple[int, int], rows: int) -> None:
    async with replaying(size) as seat:
        bar = seat.app.screen.query_one("#timebar")
        assert (bar.region.y, bar.region.height) == (size[1] - rows, rows)
        assert seat.jobs.footer.region.y == size[1] - rows - 1
        await seat.press("8")
        seat.check(timebar="60x")


async def test_nothing_rings_and_leaving_asks_nothing() -> None:
    async with replaying() as seat:
        assert seat.app.notifier._quiet
        await seat.pilot.press("q")
        await seat.pilot.pause()
        assert not seat.app.is_running
