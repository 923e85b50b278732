"""The Waiting screen: groups, their jobs, every condition, and verbs on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.render import lists as view
from autoexp_tui.cockpit.state.reasons import find_reason
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.commands import Skip
from autoexp_tui.model.states import JobState
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import T0, all_done, campaign
from tests.support.scripted_handle import HOSTILE, moved, with_job


def first_key(seat: Seat, look: Look) -> str:
    groups = seat.app.screen.query_one("#waiting").waits.groups  # type: ignore[attr-defined]
    return str(next(group.key for group in groups if group.look is look))


async def to_group(seat: Seat, look: Look) -> None:
    pane = seat.app.screen.query_one("#waiting")
    pane.move_to_key(first_key(seat, look))  # type: ignore[attr-defined]
    await seat.pilot.pause()


async def test_w_shows_all_that_waits_by_reason() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        told = seat.pane("waiting")
        assert "can never start" in told
        assert "waits for" in told


async def test_below_stands_the_longest_wait_with_each_condition() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        await to_group(seat, Look.WAITING)
        told = seat.pane("conditions")
        assert "that wait alike" in told
        assert "◌" in told
        assert "since" in told


async def test_a_doomed_condition_is_marked_as_failed() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        await to_group(seat, Look.DOOMED)
        assert "✗ iter_48000/done.txt" in seat.pane("conditions")


async def test_unfolding_lists_the_jobs_and_enter_goes_to_one() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        await to_group(seat, Look.DOOMED)
        await seat.press("l", "j")
        pane = seat.app.screen.query_one("#waiting")
        name = pane.find_job().name  # type: ignore[attr-defined]
        await seat.press("enter")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.key == name


async def test_folding_again_keeps_the_cursor_on_the_group() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        await to_group(seat, Look.WAITING)
        key = first_key(seat, Look.WAITING)
        await seat.press("enter", "j", "j", "h")
        pane = seat.app.screen.query_one("#waiting")
        assert pane.key == key  # type: ignore[attr-defined]
        assert key not in pane.open  # type: ignore[attr-defined]


async def test_x_skips_what_is_under_the_cursor() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        await to_group(seat, Look.DOOMED)
        doomed = seat.model.session.count(Look.DOOMED)
        await seat.press("X")
        await seat.hear()
        await seat.press("y")
        sent = seat.handle.commands
        assert isinstance(sent[0], Skip)
        assert len(sent[0].jobs) == doomed


async def test_escape_leads_back_to_the_jobs() -> None:
    async with cockpit() as seat:
        await seat.press("w", "escape")
        assert seat.app.full_screen is seat.jobs


async def test_nothing_that_waits_is_said() -> None:
    async with cockpit(all_done(10)) as seat:
        await seat.press("w")
        assert "Nothing waits." in seat.pane("waiting")


async def test_what_is_read_stands_in_the_long_answer() -> None:
    async with cockpit() as seat:
        await seat.press("w")
        await to_group(seat, Look.WAITING)
        await seat.press("tab", "plus")
        assert "reads" in seat.pane("conditions")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_hostile_names_harm_nothing(size: tuple[int, int]) -> None:
    async with cockpit(campaign(60, names=HOSTILE), size=size) as seat:
        await seat.press("w", "l")
        assert "\x1b" not in seat.everything


async def test_ten_thousand_cost_what_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit(campaign(10_000)) as seat:
        await seat.press("w", "G", "l")
        drawn: list[int] = []
        original = find_reason

        def counted(*arguments: object) -> str:
            drawn.append(1)
            return original(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(view, "find_reason", counted)
        await seat.press("j")
        await seat.push(moved(seat.handle.snapshot(), 1))
        assert len(drawn) < 60 * (1 + view._ALIKE)


@pytest.mark.parametrize("mode", ["w", "9", "8"])
async def test_the_next_that_needs_you_is_a_key_away_everywhere(mode: str) -> None:
    async with cockpit() as seat:
        await seat.press(mode, "exclamation_mark")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.find_jobs()[0].is_needy


async def test_ages_go_on_while_nothing_runs_and_no_snapshot_comes() -> None:
    base = replace(all_done(10), open=True)
    waits = with_job(
        base, base.jobs[0].name, state=JobState.WAITING, attempts=(), since=T0 - 6
    )
    async with cockpit(waits) as seat:
        await seat.press("w")
        assert "6 s" in seat.pane("waiting")
        seat.clock.advance(600)
        seat.app.update_every_second()
        assert "10 min" in seat.pane("waiting")
