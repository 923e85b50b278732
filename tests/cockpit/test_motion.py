"""Only what changed and is visible is painted; idle, nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from textual.geometry import Region

from autoexp_tui.cockpit.widgets.pane import LinesWidget
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import all_done, campaign
from tests.support.scripted_handle import moved


@contextmanager
def painted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The cells that panes ask to be painted anew."""
    cells: list[int] = []
    original = LinesWidget.refresh

    def counted(self: LinesWidget, *regions: Region, **options: bool) -> LinesWidget:
        area = sum(region.area for region in regions) if regions else self.size.area
        cells.append(area)
        return original(self, *regions, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LinesWidget, "refresh", counted)
        yield cells


async def ticks(seat: Seat, seconds: int) -> None:
    for _ in range(seconds):
        seat.clock.advance(1)
        seat.app.update_every_second()
    await seat.pilot.pause()


async def test_an_idle_session_paints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    base = replace(all_done(10), open=True)
    async with cockpit(base) as seat:
        with painted(monkeypatch) as cells:
            await ticks(seat, 20)
            await seat.push(replace(seat.handle.snapshot(), seq=9999))
        assert sum(cells) == 0


async def test_running_jobs_paint_only_their_changed_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit() as seat:
        with painted(monkeypatch) as cells:
            await seat.push(moved(seat.handle.snapshot(), 1))
        assert 0 < sum(cells) < 400


async def test_a_step_down_paints_two_rows_and_what_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit() as seat:
        with painted(monkeypatch) as cells:
            await seat.press("j")
        assert sum(cells) < 1500


async def test_snapshots_are_shown_at_most_once_a_second() -> None:
    async with cockpit() as seat:
        for number in range(5):
            seat.handle.push(moved(seat.handle.snapshot(), number))
        await seat.pilot.pause()
        first = seat.model.session.snapshot
        seat.handle.push(moved(first, 1))
        await seat.pilot.pause()
        assert seat.model.session.snapshot is first


async def test_ten_thousand_jobs_cost_what_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from autoexp_tui.cockpit.widgets import job_panes as columns

    async with cockpit(campaign(10_000)) as seat:
        drawn: list[int] = []
        original = columns.render_row

        def counted(*arguments: object) -> object:
            drawn.append(1)
            return original(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(columns, "render_row", counted)
        await seat.press("G")
        assert 0 < len(drawn) < 100
