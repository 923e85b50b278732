"""Where each pane stands at a size: one pure function, so that it can be read.

Three designs: 80x24 (stages in a strip above, jobs, why, log), 120x40 (stages and
needs-you beside the jobs) and 200x60 (metrics and warnings at the right as well). What
is not on the screen opens enlarged when its number is pressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from autoexp_tui.cockpit.commands import Pane

Place: TypeAlias = Pane | Literal["header", "footer", "problem", "timebar"]


SMALLEST: Final = (60, 16)


SIDE_FROM: Final = 110
"""Columns from which stages stand beside the jobs."""


WIDE_FROM: Final = 170
"""Columns from which metrics and warnings have a place of their own."""


TALL_FROM: Final = 30


_SIDE: Final = 31
"""Columns of the stages, and of needs-you below them, at least."""


_SIDE_MOST: Final = 42


_RIGHT: Final = 57


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of cells; `joint` is drawn where its title meets a right rule."""

    x: int
    y: int
    width: int
    height: int
    right_rule: bool = False
    """Whether the pane draws a line at its right edge, inside the box."""
    joint: str = ""


_LEAST: Final = 5
"""Lines of the lowest list."""


_AROUND: Final = 2
"""Lines of a list that are no rows: its title and its head."""


_CURVES: Final = 12
"""Lines that curves need."""


Boxes: TypeAlias = Mapping[Place, Box]


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
    stages: int,
    enlarged: Pane | None = None,
    rows: int | None = None,
) -> Boxes:
    """The place of every pane that is on the screen.

    Args:
        width: of the screen, in cells.
        height: of the screen, in cells.
        stages: how many stages the plan has.
        enlarged: the pane that has the whole middle, None for the usual places.
        rows: how many the job table has; None: more than fit.
    """
    if is_too_small(width, height):
        return {"header": Box(0, 0, width, height)}
    top = 1 if height < TALL_FROM else 2
    frame: dict[Place, Box] = {
        "header": Box(0, 0, width, top),
        "footer": Box(0, height - 1, width, 1),
    }
    middle = Box(0, top, width, height - top - 1)
    if enlarged is not None:
        return {**frame, enlarged: middle}
    if has_side(width, height):
        wide = width >= WIDE_FROM
        return {**frame, **_beside(middle, stages, rows, wide=wide)}
    return {**frame, **_stacked(middle, stages, rows)}


def _spare(height: int, needed: int, rows: int | None) -> int:
    """Lines that a box of `height` can give away when it needs no more."""
    return 0 if rows is None else max(0, height - needed)


def _stacked(middle: Box, stages: int, rows: int | None) -> dict[Place, Box]:
    """Stages in a strip, jobs, why, log; the lowest screens do without the log."""
    low = middle.height < 18
    strip = min(max(1, stages), 2 if low else 4 if middle.height < 26 else 6)
    left = middle.height - strip
    log = 0 if low else 3 if left < 20 else left // 4
    why = 4 if left < 20 else min(9, left // 4)
    jobs = left - log - why
    spare = _spare(jobs, max(_LEAST, why, (rows or 0) + _AROUND), rows)
    for_log = spare - spare // 2 if log else 0
    jobs, log, why = jobs - spare, log + for_log, why + spare - for_log
    places: dict[Place, Box] = {
        "stages": Box(0, middle.y, middle.width, strip),
        "jobs": Box(0, middle.y + strip, middle.width, jobs),
        "why": Box(0, middle.y + strip + jobs, middle.width, why),
    }
    if log:
        places["log"] = Box(0, middle.y + strip + jobs + why, middle.width, log)
    return places


def _side(width: int, *, wide: bool) -> int:
    """Columns for the stages: a quarter of what the table can do without."""
    spare = max(0, width - (200 if wide else 124))
    return min(_SIDE_MOST, _SIDE + spare // 4)


def _beside(
    middle: Box, stages: int, rows: int | None, *, wide: bool
) -> dict[Place, Box]:
    log = max(4, middle.height // 7)
    why = max(6, middle.height // 6)
    upper = middle.height - log - why
    beside = _AROUND + 3 * stages + (_CURVES if wide else _LEAST + 2)
    spare = _spare(upper, max((rows or 0) + _AROUND, beside), rows)
    upper, log, why = upper - spare, log + spare - spare // 2, why + spare // 2
    needs = max(5, upper * 2 // 5)
    right = _RIGHT if wide else 0
    side = _side(middle.width, wide=wide)
    jobs = middle.width - side - right
    places: dict[Place, Box] = {
        "stages": Box(0, middle.y, side, upper, right_rule=True, joint="┬"),
        "needs": Box(side + jobs, middle.y + upper - needs, right, needs),
        "jobs": Box(side, middle.y, jobs, upper, right_rule=wide, joint="┬"),
        "why": Box(0, middle.y + upper, middle.width, why),
        "log": Box(0, middle.y + upper + why, middle.width, log),
    }
    if wide:
        places["metrics"] = Box(side + jobs, middle.y, right, upper - needs)
        return places
    below = middle.y + upper - needs
    places["stages"] = Box(0, middle.y, side, upper - needs, right_rule=True, joint="┬")
    places["needs"] = Box(0, below, side, needs, right_rule=True, joint="┤")
    return places


def build_two_boxes(
    width: int, height: int, upper: Pane, lower: Pane, enlarged: Pane | None = None
) -> Boxes:
    """A list, and about what is under its cursor below it; or one of them alone."""
    if is_too_small(width, height):
        return {"header": Box(0, 0, width, height)}
    top = 1 if height < TALL_FROM else 2
    frame: dict[Place, Box] = {
        "header": Box(0, 0, width, top),
        "footer": Box(0, height - 1, width, 1),
    }
    middle = height - top - 1
    if enlarged is not None:
        return {**frame, enlarged: Box(0, top, width, middle)}
    below = max(6, middle // 3)
    return {
        **frame,
        upper: Box(0, top, width, middle - below),
        lower: Box(0, top + middle - below, width, below),
    }
