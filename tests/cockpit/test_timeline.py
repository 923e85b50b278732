"""The time-line: stages and jobs over time, zoomed and moved."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.cockpit.render.timeline import build_job_strip, build_stage_strip
from autoexp_tui.cockpit.widgets import headings as timeline_pane
from autoexp_tui.model.commands import Command
from tests.cockpit.seat import Seat, cockpit
from tests.cockpit.test_motion import painted
from tests.cockpit.test_replay import replaying, shown
from tests.support.campaigns import campaign, planned
from tests.support.scripted_handle import HOSTILE, moved


def pane(seat: Seat) -> Any:
    return seat.app.screen.query_one("#timeline")


async def test_9_shows_the_stages_over_time() -> None:
    async with cockpit() as seat:
        await seat.press("9")
        told = seat.pane("timeline")
        assert all(name in told for name in ("stable", "cooldown", "evaluate"))
        assert "▾" in told
        assert "✗" in told


async def test_enter_unfolds_a_stage_and_then_goes_to_a_job() -> None:
    async with cockpit() as seat:
        await seat.press("9", "enter", "j", "j")
        name = pane(seat).find_job().name
        assert name in seat.pane("conditions")
        await seat.press("enter")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.key == name


async def test_escape_folds_shows_all_and_leads_back() -> None:
    async with cockpit() as seat:
        await seat.press("9", "enter", "j", "plus", "escape")
        assert not pane(seat).open
        assert pane(seat).window is not None
        await seat.press("escape")
        assert pane(seat).window is None
        await seat.press("escape")
        assert seat.app.full_screen is seat.jobs


async def test_plus_and_minus_zoom_and_h_l_move() -> None:
    async with cockpit() as seat:
        await seat.press("9")
        before = pane(seat).find_window()
        await seat.press("plus")
        assert pane(seat).find_window().seconds == before.seconds / 2
        await seat.press("minus")
        assert pane(seat).find_window().seconds == before.seconds
        begin = pane(seat).find_window().begin
        await seat.press("l")
        assert pane(seat).find_window().begin > begin
        await seat.press("h")
        assert pane(seat).find_window().begin == pytest.approx(begin)
        await seat.press("f")
        assert pane(seat).window is None


async def test_the_legend_is_whole_on_the_smallest_screen() -> None:
    async with cockpit(size=(60, 16)) as seat:
        await seat.press("9", "plus")
        title = seat.pane("timeline").partition("\n")[0]
        assert "f all" in title
        assert "▒ lost" in title
        assert "…" not in title


async def test_verbs_act_on_the_row_under_the_cursor() -> None:
    async with cockpit() as seat:
        await seat.press("9", "K")
        await seat.hear()
        assert "stable" in seat.dialog
        sent: list[Command] = seat.handle.commands
        assert not sent


async def test_a_plan_that_was_only_opened_has_an_empty_time_line() -> None:
    async with cockpit(planned(10)) as seat:
        await seat.press("9", "enter")
        assert "stable" in seat.pane("timeline")


async def test_in_a_replay_all_of_the_journal_is_on_it() -> None:
    async with replaying() as seat:
        await seat.press("9")
        begin, end = pane(seat).find_window().begin, pane(seat).find_window().end
        assert begin <= shown(seat).begin < shown(seat).end <= end
        await seat.press("end")
        await seat.until(lambda: shown(seat).at == shown(seat).end)
        assert "░" in seat.pane("timeline")


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_hostile_names_harm_nothing(size: tuple[int, int]) -> None:
    async with cockpit(campaign(60, names=HOSTILE), size=size) as seat:
        await seat.press("9", "enter")
        assert "\x1b" not in seat.everything


async def test_ten_thousand_jobs_cost_what_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit(campaign(10_000)) as seat:
        await seat.press("9", "enter")
        jobs: list[int] = []
        stages: list[int] = []

        def of_job(*arguments: Any) -> Any:
            jobs.append(1)
            return build_job_strip(*arguments)

        def of_stage(*arguments: Any) -> Any:
            stages.append(1)
            return build_stage_strip(*arguments)

        monkeypatch.setattr(timeline_pane, "build_job_strip", of_job)
        monkeypatch.setattr(timeline_pane, "build_stage_strip", of_stage)
        await seat.press("G", "k")
        assert 0 < len(jobs) <= 2 * seat.app.size.height
        assert not stages


async def test_a_second_without_news_paints_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit() as seat:
        await seat.press("9")
        await seat.push(moved(seat.handle.snapshot(), 1))
        with painted(monkeypatch) as cells:
            await seat.push(moved(seat.handle.snapshot(), 1))
        assert sum(cells) < 60
