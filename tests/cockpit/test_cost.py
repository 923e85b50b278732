"""What is shown costs what is visible, and waits for no thought; idle, nothing does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.geometry import Region

from autoexp_tui.cockpit.render import lists, plan_findings, why
from autoexp_tui.cockpit.state.reasons import ALIKE
from autoexp_tui.cockpit.widgets import headings, job_panes
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from autoexp_tui.model.errors import Problem
from tests.cockpit.seat import cockpit
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
        assert len(reasons) < 60 * (1 + ALIKE)


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


async def test_of_a_crowd_why_tells_what_is_seen_without_looking_at_each() -> None:
    async with cockpit(planned(2 * JOBS)) as seat:
        with counted(why, "build_cause_key") as looked:
            await seat.see("1", why=f"{len(seat.jobs.stages.find_jobs())} planned")
        assert looked == []


async def test_a_key_lays_out_no_more_than_its_finding_of_a_thousand() -> None:
    many = [Problem(message=f"no key k{at}", where=f"k{at}") for at in range(1000)]
    async with cockpit() as seat:
        seat.app.show_faults(many)
        await seat.see(dialog="no key k0")
        with counted(plan_findings, "wrap") as laid_out:
            await seat.see("j end k", dialog="> k0|no key k5")
        assert len(laid_out) < 40
