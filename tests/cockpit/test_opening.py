"""What opens for the first time costs what is visible, and waits for no import."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual._compositor import Compositor

from autoexp_tui.cockpit.render import why
from autoexp_tui.cockpit.widgets import job_panes as columns
from autoexp_tui.cockpit.widgets import why_pane
from autoexp_tui.cockpit.widgets.why_pane import CROWD
from tests.cockpit.seat import PATIENCE, Seat, cockpit
from tests.support.campaigns import planned

JOBS = 3000


@contextmanager
def counted(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> Iterator[list[int]]:
    """The threads that call a function, call by call."""
    threads: list[int] = []
    original = getattr(module, name)

    def calling(*arguments: object) -> object:
        threads.append(threading.get_ident())
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, calling)
        yield threads


@asynccontextmanager
async def thoughtless(seat: Seat) -> AsyncIterator[None]:
    """Nothing is thought out meanwhile."""
    think = threading.Event()
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        think.wait(PATIENCE)

    seat.app.run_worker(seat.app.context.thinking.fetch("held", hold))
    await seat.until(begun.is_set)
    try:
        yield
    finally:
        think.set()


# ------------------------------------------------------------------ a stage of many
async def test_opening_a_stage_and_going_back_draw_only_what_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit(planned(JOBS)) as seat:
        with counted(monkeypatch, columns, "render_row") as drawn:
            await seat.press("1", "enter")
            await seat.press("escape")
        assert 0 < len(drawn) < 150


async def test_the_jobs_of_a_stage_are_looked_at_off_the_screen_s_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit(planned(JOBS)) as seat:
        with counted(monkeypatch, why, "build_cause_key") as looked:
            await seat.press("1")
            await seat.until(lambda: "not submitted" in seat.pane("why"))
        assert len(looked) > CROWD
        assert threading.get_ident() not in looked


async def test_a_stage_s_counts_are_told_before_each_job_was_looked_at() -> None:
    async with cockpit(planned(JOBS)) as seat:
        async with thoughtless(seat):
            await seat.press("1")
            number = len(seat.jobs.stages.find_jobs())
            assert f"{number} planned" in seat.pane("why")
        await seat.until(lambda: "not submitted" in seat.pane("why"))


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
        assert left not in seat.pane("why")
        thinking[1].set()
        here = seat.jobs.stages.find_jobs()[0].name
        await seat.until(lambda: here in seat.pane("why"))


async def test_a_stage_s_text_stays_while_a_newer_session_is_looked_at() -> None:
    async with cockpit(planned(JOBS)) as seat:
        await seat.press("1")
        await seat.until(lambda: "not submitted" in seat.pane("why"))
        async with thoughtless(seat):
            seat.jobs.renew()
            await seat.pilot.pause()
            assert "not submitted" in seat.pane("why")


async def test_where_news_outrun_the_looking_what_was_found_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slowly(*arguments: Any, **more: Any) -> why.WhyText:
        begun.set()
        may_end.wait(PATIENCE)
        return why.explain_jobs(*arguments, **more)

    async with cockpit(planned(JOBS)) as seat:
        monkeypatch.setattr(why_pane, "explain_jobs", slowly)
        await seat.press("1")
        await seat.until(begun.is_set)
        with monkeypatch.context() as patch:
            patch.setattr(seat.app.context.thinking, "fetch", nobody_looks)
            await seat.push(replace(seat.handle.snapshot(), seq=7))  # nobody looks
            may_end.set()
            await seat.until(lambda: "not submitted" in seat.pane("why"))


async def nobody_looks(*_: object) -> Any:
    await asyncio.Future()


async def test_the_focus_moves_without_drawing_all_of_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit(planned(JOBS)) as seat:
        with counted(monkeypatch, Compositor, "render_full_update") as full:
            await seat.press("1")
            await seat.press("2")
            await seat.press("tab")
        assert full == []
