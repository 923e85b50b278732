"""What is shown costs what is visible, and waits for no thought; idle, nothing does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.geometry import Region

from autoexp_tui.cockpit.render import lists, why
from autoexp_tui.cockpit.widgets import headings, job_panes, why_pane
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from tests.cockpit.seat import PATIENCE, Seat, cockpit
from tests.support.campaigns import all_done, campaign, planned
from tests.support.scripted_handle import moved

JOBS = 3000


@contextmanager
def counted(
    module: object, name: str, measure: Callable[..., int] | None = None
) -> Iterator[list[int]]:
    """What each call of a function costs, or else the thread that calls it."""
    costs: list[int] = []
    original = getattr(module, name)

    def calling(*given: Any, **named: Any) -> object:
        costs.append(measure(*given) if measure else threading.get_ident())
        return original(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, calling)
        yield costs


def count_cells(pane: LinesWidget, *regions: Region) -> int:
    return sum(region.area for region in regions) if regions else pane.size.area


# ------------------------------------------------------------------- cells painted anew
async def test_an_idle_session_paints_nothing() -> None:
    async with cockpit(replace(all_done(10), open=True)) as seat:
        with counted(LinesWidget, "refresh", count_cells) as cells:
            for _ in range(20):
                seat.clock.advance(1)
                seat.app.update_every_second()
            await seat.push(replace(seat.handle.snapshot(), seq=9999))
        assert sum(cells) == 0


async def test_news_and_a_step_down_paint_only_what_changed() -> None:
    async with cockpit() as seat:
        with counted(LinesWidget, "refresh", count_cells) as cells:
            await seat.push(moved(seat.handle.snapshot(), 1))
        assert 0 < sum(cells) < 400
        with counted(LinesWidget, "refresh", count_cells) as cells:
            await seat.press("j")
        assert 0 < sum(cells) < 1500
        await seat.press("9")
        await seat.push(moved(seat.handle.snapshot(), 1))
        with counted(LinesWidget, "refresh", count_cells) as cells:
            await seat.push(moved(seat.handle.snapshot(), 1))
        assert sum(cells) < 60


async def test_snapshots_are_shown_at_most_once_a_second() -> None:
    async with cockpit() as seat:
        for number in range(5):
            seat.handle.push(moved(seat.handle.snapshot(), number))
        await seat.pilot.pause()
        first = seat.model.session.snapshot
        seat.handle.push(moved(first, 1))
        await seat.pilot.pause()
        assert seat.model.session.snapshot is first


# ------------------------------------------------------------------------- rows drawn
async def test_ten_thousand_jobs_cost_what_is_visible() -> None:
    async with cockpit(campaign(10_000)) as seat:
        with counted(job_panes, "render_row") as rows:
            await seat.press("G")
        assert 0 < len(rows) < 100
        await seat.press("9", "enter")
        with (
            counted(headings, "build_job_strip") as jobs,
            counted(headings, "build_stage_strip") as stages,
        ):
            await seat.press("G", "k")
        assert 0 < len(jobs) <= 2 * seat.app.size.height
        assert stages == []
        await seat.press("w", "G", "l")
        with counted(lists, "find_reason") as reasons:
            await seat.press("j")
            await seat.push(moved(seat.handle.snapshot(), 1))
        assert len(reasons) < 60 * (1 + lists._ALIKE)


async def test_opening_a_stage_and_going_back_draw_only_what_is_visible() -> None:
    async with cockpit(planned(JOBS)) as seat:
        with counted(job_panes, "render_row") as drawn:
            await seat.press("1", "enter")
            await seat.press("escape")
        assert 0 < len(drawn) < 150
        with counted(Compositor, "render_full_update") as full:
            for key in ("1", "2", "tab"):
                await seat.press(key)
        assert full == []


# --------------------------------------------------------- a stage of many is looked at
@asynccontextmanager
async def thoughtless(seat: Seat) -> AsyncIterator[None]:
    """Nothing is thought out meanwhile."""
    think, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        think.wait(PATIENCE)

    seat.app.run_worker(seat.app.context.thinking.fetch("held", hold))
    await seat.until(begun.is_set)
    try:
        yield
    finally:
        think.set()


async def test_the_jobs_of_a_stage_are_looked_at_off_the_screen_s_thread() -> None:
    async with cockpit(planned(JOBS)) as seat:
        with counted(why, "build_cause_key") as looked:
            await seat.see("1", why="not submitted")
        assert len(looked) > why_pane.CROWD
        assert threading.get_ident() not in looked


async def test_a_stage_s_counts_and_its_text_of_before_are_told_meanwhile() -> None:
    async with cockpit(planned(JOBS)) as seat:
        async with thoughtless(seat):
            await seat.press("1")
            number = len(seat.jobs.stages.find_jobs())
            seat.check(why=f"{number} planned")
        await seat.see(why="not submitted")
        async with thoughtless(seat):
            seat.jobs.renew()
            await seat.pilot.pause()
            seat.check(why="not submitted")


async def test_what_comes_late_of_a_stage_that_was_left_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thinking = (threading.Event(), threading.Event())
    begun: list[str] = []

    def slowly(title: str, *arguments: Any, **more: Any) -> why.WhyText:
        begun.append(title)
        thinking[len(begun) - 1].wait(PATIENCE)
        return why.explain_jobs(title, *arguments, **more)

    async with cockpit(planned(JOBS), size=(200, 60)) as seat:
        monkeypatch.setattr(why_pane, "explain_jobs", slowly)
        await seat.press("1")
        await seat.until(lambda: len(begun) == 1)
        left = seat.jobs.stages.find_jobs()[0].name
        await seat.press("j", "j")
        thinking[0].set()
        await seat.until(lambda: len(begun) == 2)
        seat.check(why=f"!{left}")
        thinking[1].set()
        await seat.see(why=seat.jobs.stages.find_jobs()[0].name)


async def test_where_news_outrun_the_looking_what_was_found_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slowly(*arguments: Any, **more: Any) -> why.WhyText:
        begun.set()
        may_end.wait(PATIENCE)
        return why.explain_jobs(*arguments, **more)

    async def look_never(*_: object) -> Any:
        await asyncio.Future()

    async with cockpit(planned(JOBS)) as seat:
        monkeypatch.setattr(why_pane, "explain_jobs", slowly)
        await seat.press("1")
        await seat.until(begun.is_set)
        with monkeypatch.context() as patch:
            patch.setattr(seat.app.context.thinking, "fetch", look_never)
            await seat.push(replace(seat.handle.snapshot(), seq=7))
            may_end.set()
            await seat.see(why="not submitted")
