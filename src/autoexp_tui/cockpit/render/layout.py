"""Where each pane stands at a size: pure functions, so that they can be read.

Three designs: 80x24 (stages in a strip above, jobs, why, log), 120x40 (stages and
needs-you beside the jobs) and 200x60 (metrics and warnings at the right as well). What
is not on the screen opens enlarged when its number is pressed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from textual.geometry import Region

from autoexp_tui.cockpit.keymap import Pane

SMALLEST: Final = (60, 16)
SIDE_FROM: Final = 110
"""Columns from which stages stand beside the jobs."""
WIDE_FROM: Final = 170
"""Columns from which metrics and warnings have a place of their own."""
TALL_FROM: Final = 30
_SIDE: Final = 34
"""Columns of the stages, and of needs-you below them, at least."""
_SIDE_MOST: Final = 42
_RIGHT: Final = 57
_LEAST: Final = 5
"""Lines of the lowest list."""
_AROUND: Final = 2
"""Lines of a list that are no rows: its title and its head."""
_CURVES: Final = 12
"""Lines that curves need."""

Box: TypeAlias = Region
Boxes: TypeAlias = Mapping[str, Box]
"""By the ids of widgets."""


def is_too_small(width: int, height: int) -> bool:
    """Whether nothing but one line fits."""
    return width < SMALLEST[0] or height < SMALLEST[1]


def has_side(width: int, height: int) -> bool:
    """Whether stages stand beside the jobs, with needs-you below them."""
    return width >= SIDE_FROM and height >= TALL_FROM


def is_low(height: int) -> bool:
    """Whether the screen is so low that equal causes fold by themselves."""
    return height < TALL_FROM


def build_boxes(
    width: int,
    height: int,
    place: Callable[[Box], Boxes],
    enlarged: str | None = None,
) -> Boxes:
    """Header and footer, and between them panes where `place` puts them, or the one
    that is enlarged; on a screen that is too small a header alone."""
    if is_too_small(width, height):
        return {"header": Box(0, 0, width, height)}
    top = 1 if is_low(height) else 2
    middle = Box(0, top, width, height - top - 1)
    places = place(middle) if enlarged is None else {enlarged: middle}
    header, footer = Box(0, 0, width, top), Box(0, height - 1, width, 1)
    return {"header": header, "footer": footer, **places}


def place_main(middle: Box, stages: int, rows: int | None = None) -> Boxes:
    """All panes of Jobs mode, for so many stages; `rows`: of the job table, None for
    more than fit."""
    has_room = has_side(middle.width, middle.bottom + 1)
    return (_build_beside if has_room else _build_stacked)(middle, stages, rows)


def place_two(middle: Box, upper: Pane, lower: Pane) -> Boxes:
    """A list, and about what is under its cursor below it."""
    below = max(6, middle.height // 3)
    return _stack(middle, {upper: middle.height - below, lower: below})


def place_outline(middle: Box, first: str, below: str, beside: str) -> Boxes:
    """A policy's list, below it what comes of it, and the detail of a row at the right,
    or below both where it is narrow."""
    if not has_side(middle.width, middle.bottom + 1):
        detail, line = max(6, middle.height * 2 // 5), 1
        heights = {first: middle.height - detail - line, below: line, beside: detail}
        return _stack(middle, heights)
    side, lower = middle.width * 5 // 8, max(6, middle.height // 5)
    left = Box(0, middle.y, side, middle.height)
    right = Box(side, middle.y, middle.width - side, middle.height)
    heights = {first: middle.height - lower, below: lower}
    return {**_stack(left, heights), beside: right}


def _stack(area: Box, heights: Mapping[str, int]) -> dict[str, Box]:
    """Panes of these heights one below the other; without lines they are left out."""
    places: dict[str, Box] = {}
    y = area.y
    for pane, height in heights.items():
        if height:
            places[pane] = Box(area.x, y, area.width, height)
        y += height
    return places


def _build_stacked(middle: Box, stages: int, rows: int | None) -> dict[str, Box]:
    """Stages in a strip, jobs, why, log; the lowest screens do without the log."""
    low = middle.height < 18
    strip = min(max(1, stages), 2 if low else 4 if middle.height < 26 else 6)
    left = middle.height - strip
    log = 0 if low else 3 if left < 20 else left // 4
    why = 4 if left < 20 else min(9, left // 4)
    jobs = left - log - why
    needed = jobs if rows is None else max(_LEAST, why, rows + _AROUND)
    spare = max(0, jobs - needed)  # it goes to why and log
    more = spare - spare // 2 if log else 0
    jobs, log, why = jobs - spare, log + more, why + spare - more
    return _stack(middle, {"stages": strip, "jobs": jobs, "why": why, "log": log})


def _build_beside(middle: Box, stages: int, rows: int | None) -> dict[str, Box]:
    """Stages and needs-you left of the jobs; where it is wide, the latter at the right
    below metrics."""
    wide = middle.width >= WIDE_FROM
    log = max(4, middle.height // 7)
    why = max(6, middle.height // 6)
    upper = middle.height - log - why
    beside = _AROUND + 3 * stages + (_CURVES if wide else _LEAST + 2)
    needed = upper if rows is None else max(rows + _AROUND, beside)
    spare = max(0, upper - needed)  # it goes to why and log
    upper, log, why = upper - spare, log + spare - spare // 2, why + spare // 2
    needs = max(5, upper * 2 // 5)
    # A quarter of what the table can do without goes to the stages.
    free = max(0, middle.width - (200 if wide else 127))
    side, right = min(_SIDE_MOST, _SIDE + free // 4), _RIGHT if wide else 0
    jobs, y = middle.width - side - right, middle.y
    places = _stack(middle, {"jobs": upper, "why": why, "log": log})
    places["jobs"] = Box(side, y, jobs, upper)
    if wide:
        at_right = Box(side + jobs, y, right, upper)
        places["stages"] = Box(0, y, side, upper)
        return places | _stack(at_right, {"metrics": upper - needs, "needs": needs})
    at_left = Box(0, y, side, upper)
    return places | _stack(at_left, {"stages": upper - needs, "needs": needs})
