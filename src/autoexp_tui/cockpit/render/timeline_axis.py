"""The axis above a time-line: times, ticks, the present, times without an engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.spans import Line, Span
from autoexp_tui.cockpit.render.timeline import Cell, strip_line
from autoexp_tui.model.moment import wall_time
from autoexp_tui.model.wording import duration

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.timeline import Window

_STEPS: Final = (
    1, 2, 5, 10, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200,
    86_400, 2 * 86_400, 7 * 86_400, 28 * 86_400,
    91 * 86_400, 182 * 86_400, 364 * 86_400,
)  # fmt: skip
_LABEL: Final = 9
"""Cells from one label to the next, at least."""
_DAY: Final = 86_400


def ticks(window: Window, now: float = 0.0) -> list[float]:
    """Round times of day of the machine's zone, as many as have room for names."""
    ahead = wall_time(0.0, now)
    per_cell = window.seconds / max(1, window.cells)
    step = next((one for one in _STEPS if one >= per_cell * _LABEL), _STEPS[-1])
    first = time.localtime(window.begin + ahead)
    midnight = time.mktime((first.tm_year, first.tm_mon, first.tm_mday, *(0,) * 5, -1))
    count = int((window.begin + ahead - midnight) // step) + 1
    found = []
    while (t := midnight + count * step - ahead) < window.end:
        found.append(t)
        count += 1
    return found


def label(t: float, step_of_days: bool) -> str:  # noqa: FBT001
    """`14:00`; at midnights, and where days are the step, `Mon 09`."""
    local = time.localtime(t)
    midnight = (local.tm_hour, local.tm_min, local.tm_sec) == (0, 0, 0)
    if step_of_days or midnight:
        return time.strftime("%a %d", local)
    return time.strftime("%H:%M:%S" if local.tm_sec else "%H:%M", local)


def axis(
    window: Window,
    now: float,
    gaps: Sequence[tuple[float, float]],
    indent: int,
) -> tuple[Line, Line]:
    """The labels, and below them the ticks with gaps (`░`) and the present (`▾`)."""
    found = ticks(window, now)
    by_days = len(found) > 1 and found[1] - found[0] >= _DAY
    names = ""
    cells = [Cell("─", "rule")] * window.cells
    for t in found:
        place = window.cell(t)
        name = label(wall_time(t, now), by_days)
        if place + len(name) <= window.cells:
            names = names.ljust(place) + name
        cells[place] = Cell("┬", "rule")
    for begin, end in gaps:
        first, last = max(0, window.cell(begin)), window.cell(end)
        for place in range(first, min(last, window.cells - 1) + 1):
            cells[place] = Cell("░", "warning")
    if 0 <= window.cell(now) < window.cells:
        cells[window.cell(now)] = Cell("▾", "accent")
    span = f" {duration(window.seconds)}"
    head = Span(f"{span:<{indent}}", "muted")
    return (head, Span(names, "muted")), (Span(" " * indent), *strip_line(cells))
