"""Panes fill the screen, never overlap, and have room to say something."""

from __future__ import annotations

import pytest
from textual.geometry import Region

from autoexp_tui.cockpit.render.layout import (
    build_boxes,
    build_two_boxes,
    is_too_small,
)

SIZES = [
    (60, 16), (76, 20), (80, 24), (99, 24), (109, 29), (110, 30), (120, 40),
    (130, 30), (169, 50), (170, 50), (200, 60), (240, 24), (80, 60),
]  # fmt: skip


def cells(box: Region) -> set[tuple[int, int]]:
    return {
        (x, y)
        for x in range(box.x, box.x + box.width)
        for y in range(box.y, box.y + box.height)
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stages", [0, 1, 2, 4, 40])
@pytest.mark.parametrize("rows", [None, 0, 1, 3, 9, 500])
def test_boxes_tile_the_screen(
    size: tuple[int, int], stages: int, rows: int | None
) -> None:
    places = build_boxes(*size, stages, rows=rows)
    covered = [cell for box in places.values() for cell in cells(box)]
    assert len(covered) == len(set(covered)) == size[0] * size[1]
    if (stages, rows) == (4, None):
        assert places["jobs"].height >= max(5, places["why"].height)
    alone = build_boxes(*size, stages, "log", rows=rows)
    assert set(alone) == {"header", "footer", "log"}
    assert sum(box.height for box in alone.values()) == size[1]


def test_lists_stand_beside_the_jobs_as_the_screen_is_wide() -> None:
    wide, middle = build_boxes(200, 60, 4), build_boxes(120, 40, 4)
    assert wide["needs"].x == wide["metrics"].x > wide["jobs"].x
    assert wide["needs"].width > 50
    assert middle["needs"].x == middle["stages"].x == 0
    assert "metrics" not in middle


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_what_few_jobs_leave_free_goes_to_why_and_log(size: tuple[int, int]) -> None:
    few, many = build_boxes(*size, 2, rows=6), build_boxes(*size, 2, rows=500)
    assert few["jobs"].height < many["jobs"].height
    assert few["why"].height > many["why"].height
    assert few["log"].height > many["log"].height


@pytest.mark.parametrize("stages", [3, 4])
def test_a_low_screen_has_the_stages_in_a_strip(stages: int) -> None:
    assert build_boxes(80, 24, stages)["stages"] == Region(0, 1, 80, stages)


@pytest.mark.parametrize("size", [(59, 24), (80, 15)])
def test_too_small_a_screen_has_one_line_to_say_so(size: tuple[int, int]) -> None:
    assert is_too_small(*size)
    assert set(build_boxes(*size, 4)) == {"header"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("enlarged", [False, True])
def test_events_mode_tiles_the_screen(size: tuple[int, int], enlarged: bool) -> None:
    places = build_two_boxes(*size, "events", "effect", "effect" if enlarged else None)
    assert sum(box.width * box.height for box in places.values()) == size[0] * size[1]
