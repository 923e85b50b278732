"""Curves of several runs in one frame, drawn with braille dots.

All curves share one scale. Curves are told apart by a letter at their end as well as
by colour; values that are not finite leave a gap, and those that a logarithmic scale
cannot show are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit_right,
    line,
    shorten,
)
from autoexp_tui.model.wording import count
from autoexp_tui.text.spelling import format_metric

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Curve


CURVE_ROLES: Final[tuple[Role, ...]] = (
    "curve1",
    "curve2",
    "curve3",
    "curve4",
    "curve5",
    "curve6",
)


LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


_MARGIN: Final = 8


@dataclass(frozen=True, slots=True)
class Plotted:
    """A curve with its name."""

    label: str
    curve: Curve


@dataclass(frozen=True, slots=True)
class Scale:
    """The shared ranges; values are in log10 where `log` says so."""

    x0: float
    x1: float
    y0: float
    y1: float
    log: bool


def find_role(place: int) -> Role:
    """The role of the curve at `place`."""
    return CURVE_ROLES[place % len(CURVE_ROLES)]


def list_points(curve: Curve, *, log: bool) -> Iterator[tuple[float, float]]:
    """The points that can be shown, y in log10 where asked."""
    for step, value in zip(curve.steps, curve.values, strict=False):
        if math.isfinite(value) and (value > 0 or not log):
            yield step, math.log10(value) if log else value


def measure_scale(plotted: Sequence[Plotted], *, log: bool) -> Scale | None:
    """The ranges that hold every curve; None when nothing can be shown."""
    shown = [point for one in plotted for point in list_points(one.curve, log=log)]
    if not shown:
        return None
    xs = [x for x, _ in shown]
    ys = [y for _, y in shown]
    pad = (max(ys) - min(ys)) * 0.04 or abs(max(ys)) * 0.04 or 1.0
    return Scale(min(xs), max(xs), min(ys) - pad, max(ys) + pad, log)


def render_plot(
    plotted: Sequence[Plotted], cells: int, rows: int, *, log: bool = False
) -> tuple[Line, ...]:
    """The frame with axes, `rows` lines of at most `cells` cells."""
    ranges = measure_scale(plotted, log=log)
    width, height = cells - _MARGIN - 1, rows - 2
    if ranges is None or width < 8 or height < 3:
        text = "nothing to draw yet" if ranges is None else "too small to draw"
        return ((Span(f" {text}", "muted"),),)
    canvas = _Canvas(width, height)
    for place, one in enumerate(plotted):
        _draw(canvas, one.curve, ranges, place)
    return (*_rows(canvas, ranges), *_axis(ranges, width))


class _Canvas:
    """Dots of several curves: the one drawn last owns a cell."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.dots = [[0] * width for _ in range(height)]
        self.owner = [[-1] * width for _ in range(height)]
        self.letters: dict[tuple[int, int], int] = {}

    def dot(self, x: int, y: int, place: int) -> None:
        column, row = x // 2, y // 4
        self.dots[row][column] |= _DOTS[y % 4][x % 2]
        self.owner[row][column] = place


def _draw(canvas: _Canvas, curve: Curve, ranges: Scale, place: int) -> None:
    before: tuple[int, int] | None = None
    for step, value in list_points(curve, log=ranges.log):
        here = _at(canvas, ranges, step, value)
        for x, y in _between(before or here, here):
            canvas.dot(x, y, place)
        before = here
    if before is not None:
        canvas.letters[(before[1] // 4, before[0] // 2)] = place


def _at(canvas: _Canvas, ranges: Scale, step: float, value: float) -> tuple[int, int]:
    across = (step - ranges.x0) / ((ranges.x1 - ranges.x0) or 1.0)
    up = (value - ranges.y0) / ((ranges.y1 - ranges.y0) or 1.0)
    x = round(across * (canvas.width * 2 - 1))
    y = round((1 - up) * (canvas.height * 4 - 1))
    return x, min(max(y, 0), canvas.height * 4 - 1)


def _between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The dots of a straight line."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for part in range(steps + 1):
        yield (
            round(start[0] + (end[0] - start[0]) * part / steps),
            round(start[1] + (end[1] - start[1]) * part / steps),
        )


def _rows(canvas: _Canvas, ranges: Scale) -> Iterator[Line]:
    for row in range(canvas.height):
        label = _tick(ranges, row, canvas.height)
        yield line(
            Span(fit_right(label, _MARGIN - 1), "muted"),
            Span(" │", "rule"),
            *_cells(canvas, row),
        )


def _tick(ranges: Scale, row: int, rows: int) -> str:
    every = max(1, (rows - 1) // 4)
    if row % every and row != rows - 1:
        return ""
    value = ranges.y1 - (ranges.y1 - ranges.y0) * row / max(1, rows - 1)
    return format_metric(10**value if ranges.log else value)


def _cells(canvas: _Canvas, row: int) -> Iterator[Span]:
    """Runs of cells of one owner as one span."""
    text = ""
    role: Role = "text"
    for column in range(canvas.width):
        letter = canvas.letters.get((row, column))
        owner = canvas.owner[row][column] if letter is None else letter
        here: Role = find_role(owner) if owner >= 0 else role
        dots = canvas.dots[row][column]
        glyph = LETTERS[letter % 26] if letter is not None else _glyph(dots)
        if here != role and text:
            yield Span(text, role)
            text = ""
        role = here
        text += glyph
    yield Span(text, role)


def _glyph(dots: int) -> str:
    return chr(0x2800 + dots) if dots else " "


def _axis(ranges: Scale, width: int) -> Iterator[Line]:
    yield (Span(" " * _MARGIN + "└" + "─" * width, "rule"),)
    left, right = count(ranges.x0), f"{count(ranges.x1)} steps"
    gap = " " * max(1, width - cell_len(left) - cell_len(right))
    yield (Span(" " * (_MARGIN + 1) + left + gap + right, "muted"),)


def render_legend(plotted: Sequence[Plotted], cells: int) -> tuple[Line, ...]:
    """A line for each curve: its letter, its newest value, its name."""
    return tuple(_legend(plotted, cells))


def _gaps(curve: Curve) -> Line:
    """Where it had no finite value."""
    if not curve.gaps:
        return ()
    more = f" and {len(curve.gaps) - 1} more" if len(curve.gaps) > 1 else ""
    return (Span(f"not finite at {curve.gaps[-1]}{more}  ", "failed"),)


def _legend(plotted: Sequence[Plotted], cells: int) -> Iterator[Line]:
    for place, one in enumerate(plotted):
        values = one.curve.values
        newest = format_metric(values[-1] if values else None)
        yield cut(
            line(
                Span(f" {LETTERS[place % 26]} ", find_role(place)),
                Span(f"{fit_right(newest, 8)}  "),
                *_gaps(one.curve),
                Span(shorten(one.label, max(1, cells - 14)), "muted"),
            ),
            cells,
        )
