"""A replay in the cockpit: its keys, its time, its bar; nothing is ordered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.model.snapshot import Playback
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.seat import Seat
from tests.cockpit.views import replay, replayed_week


@asynccontextmanager
async def replaying(size: tuple[int, int] = (120, 40)) -> AsyncIterator[Seat]:
    clock = ManualClock(0.0)
    handle = replay(clock)
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


BEGIN, END = replayed_week().records[0].t, replayed_week().records[-1].t
Steps = list[tuple[str, Callable[[Playback], bool]]]
ROADS: dict[str, Steps] = {
    "end and home": [
        ("end", lambda at: at.at == END),
        ("home", lambda at: at.at == BEGIN),
    ],
    "space plays": [
        ("space", lambda at: at.playing),
        ("space", lambda at: not at.playing),
    ],
    "the speed is doubled and halved": [
        ("greater_than_sign", lambda at: at.speed == 120.0),
        ("less_than_sign less_than_sign", lambda at: at.speed == 30.0),
    ],
    "arrows go on and back by a commit": [
        ("right right", lambda at: at.position > 2),
        ("left left left", lambda at: at.position < 3),
    ],
    "t goes to a time": [
        ("t '50% enter", lambda at: abs(at.at - (BEGIN + END) / 2) < 1)
    ],
}


@pytest.mark.parametrize("road", ROADS)
async def test_keys_lead_through_the_time(road: str) -> None:
    async with replaying() as seat:
        assert seat.app.context.find_utc() == shown(seat).at == BEGIN
        for script, holds in ROADS[road]:
            await seat.play(script)
            await seat.until(lambda: holds(shown(seat)))  # noqa: B023


async def test_header_bar_footer_and_help_are_those_of_a_replay() -> None:
    async with replaying((80, 24)) as seat:
        await seat.see(header="replay", footer="space play", timebar="60x")
        await seat.see("greater_than_sign", timebar="120x")
        await seat.see("t 'noon enter", footer="a time reads")
        assert shown(seat).at == BEGIN
        await seat.see("escape end", header="!running")
        await seat.press("question_mark")
        assert "replay: " in seat.dialog.partition("Act (")[0]


@pytest.mark.parametrize("key", ["S", "K", "R", "A", "X", "P", "U"])
async def test_acting_keys_are_refused_with_a_word(key: str) -> None:
    async with replaying() as seat:
        await seat.see(key, footer="what has happened takes no commands")
        assert seat.dialog == ""


async def test_the_bar_lies_below_the_keys() -> None:
    async with replaying((120, 40)) as seat:
        bar = seat.widget("timebar")
        assert (bar.region.y, bar.region.height) == (39, 1)
        assert seat.jobs.footer.region.y == 38
        await seat.see("8", timebar="60x")


async def test_all_of_the_journal_is_on_the_time_line() -> None:
    async with replaying() as seat:
        await seat.press("9")
        window = seat.widget("timeline").find_window()
        assert window.begin <= shown(seat).begin < shown(seat).end <= window.end
        await seat.see("end", timeline="░")


async def test_nothing_rings_and_leaving_asks_nothing() -> None:
    async with replaying() as seat:
        assert seat.app.notifier._quiet
        await seat.press("q")
        assert not seat.app.is_running
