"""Curves drawn with braille dots, told apart by letters as well as by colour.

Along a curve stands its letter; in ASCII all of it is made of that. Of many points in a
column of dots the lowest and the highest are joined: a curve costs what the screen has.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.spans import (
    CURVE_ROLES,
    Line,
    Role,
    Span,
    cut,
    fit,
    join_cells,
    line,
    outside,
    pad,
    shorten,
)
from autoexp_tui.cockpit.state.curves import (
    MOST_CURVES,
    Drawn,
    Frame,
    Series,
    measure_steps,
)
from autoexp_tui.model.snapshot import Curve
from autoexp_tui.text.spelling import count, format_metric

MARGIN: Final = 9
"""Cells left of a plot: a value and the axis."""
LEAST_ROWS: Final = 5
"""Of a plot, its axis included."""
LEAST_CELLS: Final = MARGIN + 8
_BITS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Of a braille cell: its left, and its right column of dots."""
_GLYPHS: Final = [chr(0x2800 + dots) for dots in range(256)]
_FAINT: Final = -1
"""Owns the cells of what was smoothed."""
_LETTER: Final = 3
_VALUE: Final = 9
_BEST: Final = 17
_LABEL: Final = 20
"""Cells of a curve's letter, a value, a best with its step, and a name at least."""
_LETTERS_EVERY: Final = 24
"""Cells along a curve."""
_Stroke: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Points that are joined: across and up, on the scales of the axes."""


def find_role(place: int) -> Role:
    return CURVE_ROLES[place % len(CURVE_ROLES)]


def find_letter(place: int) -> str:
    return chr(ord("a") + place % MOST_CURVES)


def format_step(step: float, reach: float) -> str:
    """A step, in full where a count would not tell it from others in `reach`."""
    return f"{step:.0f}" if abs(step) > 50 * reach else count(step)


def _list_strokes(
    curve: Curve, frame: Frame, start: float, end: float
) -> list[_Stroke]:
    """What lies from `start` to `end` of the axis, cut off there; what cannot be shown,
    or was not finite, parts it."""
    xs: Sequence[float] = curve.steps
    ys: Sequence[float] = curve.values[: len(xs)]
    if frame.log_x:
        xs = [math.log10(x) if x > 0 else -math.inf for x in xs]
    if frame.log_y:
        ys = [math.log10(y) if y > 0 else math.nan for y in ys]
    ends = {bisect_left(curve.steps, gap) for gap in curve.gaps}
    if not math.isfinite(sum(xs) + sum(ys)):
        sums = enumerate(map(sum, zip(xs, ys, strict=True)))
        ends |= {
            at + more for at, one in sums if not math.isfinite(one) for more in (0, 1)
        }
    borders = sorted(ends | {0, len(xs)})
    strokes = [
        _cut(xs[first:last], ys[first:last], start, end)
        for first, last in pairwise(borders)
        if math.isfinite(xs[first] + ys[first])
    ]
    return [one for one in strokes if one[0]]


def _cut(xs: Sequence[float], ys: Sequence[float], start: float, end: float) -> _Stroke:
    """The part of a stroke between two edges, which it is led up to."""
    first, last = bisect_left(xs, start), bisect_right(xs, end)
    kept, levels = list(xs[first:last]), list(ys[first:last])
    for edge, at, place in ((start, first, 0), (end, last, len(kept) + 1)):
        if 0 < at < len(xs):
            share = (edge - xs[at - 1]) / (xs[at] - xs[at - 1])
            kept.insert(place, edge)
            levels.insert(place, ys[at - 1] + share * (ys[at] - ys[at - 1]))
    return kept, levels


class _Axes(NamedTuple):
    """What the edges of a plot stand for, on its scales."""

    start: float
    reach: float
    top: float
    depth: float


def _fit_axes(strokes: Sequence[_Stroke], start: float, end: float) -> _Axes | None:
    """Axes on which all strokes have room; None: there is none."""
    if not strokes:
        return None
    low, high = min(min(ys) for _, ys in strokes), max(max(ys) for _, ys in strokes)
    margin = (high - low) * 0.04 or abs(high) * 0.04 or 1.0
    return _Axes(start, (end - start) or 1.0, high + margin, high - low + 2 * margin)


_Plane: TypeAlias = list[list[tuple[int, int]]]
"""By row and column the dots of a cell, as braille has them, and the place of the curve
that was drawn there last."""


class _Canvas:
    """Curves, behind them bands and what was smoothed, before them letters."""

    def __init__(self, width: int, height: int, axes: _Axes) -> None:
        self.width, self.height, self.axes = width, height, axes
        self.front, self.back = (
            [[(0, 0)] * width for _ in range(height)] for _ in range(2)
        )
        self.letters: list[dict[int, int]] = [{} for _ in range(height)]
        """By row, then by column, the places of curves."""
        levels = range(height * 4)
        self._upper = [
            [0, *accumulate(side[level % 4] << level // 4 * 8 for level in levels)]
            for side in _BITS
        ]
        """By side, the dots above each one; of a column each byte is a row of cells."""

    def put(self, plane: _Plane, cells: Sequence[int], owner: int) -> None:
        """Draw dots over what is there."""
        for column, column_dots in enumerate(cells):
            for row, dots in enumerate(column_dots.to_bytes(self.height, "little")):
                if dots:
                    plane[row][column] = plane[row][column][0] | dots, owner

    def shade(self, high: Sequence[int], low: Sequence[int], place: int) -> None:
        """Strew dots between two edges, to the end where one of them is not drawn."""
        ones = int.from_bytes(b"\1" * self.height, "little")
        strewn = ones * (0x6A if place % 2 else 0x95)
        cells = [0] * self.width
        for column, (top, bottom) in enumerate(zip(high, low, strict=True)):
            for side in map(ones.__mul__, map(sum, _BITS)):
                above, below = top & side, bottom & side
                end = below.bit_length() or 8 * self.height
                if above or below:
                    reach = (1 << end) - (above & -above or 1)
                    cells[column] |= reach & side & strewn
        self.put(self.back, cells, place)

    def trace(self, strokes: Iterable[_Stroke]) -> list[int]:
        """The dots of strokes by column of cells."""
        cells, sides = [0] * self.width, self._upper
        start, reach, top, depth = self.axes
        across, down = (self.width * 2 - 1) / reach, (self.height * 4 - 1) / depth
        for xs, ys in strokes:
            columns = [int((x - start) * across + 0.5) for x in xs]
            levels = [int((top - y) * down + 0.5) for y in ys]
            before, was = columns[0], levels[0]
            for column, level in _fill(columns, levels):
                if column != before and level != was:
                    was += 1 if level > was else -1  # no gap, and no overlap
                low, high = (was, level) if was < level else (level, was)
                upper = sides[column & 1]
                cells[column >> 1] |= upper[high + 1] - upper[low]
                before, was = column, level
        return cells

    def put_letters(self, cells: Sequence[int], place: int, *, many: bool) -> None:
        """A letter at the end, and along a curve of several, where there is room."""
        columns = [at for at in reversed(range(self.width)) if cells[at]]
        for column in columns:
            row = _find_middle(cells[column])
            if not {column - 1, column, column + 1} & self.letters[row].keys():
                self.letters[row][column] = place
                break
        for column in columns if many else ():
            if (column + 5 * place) % _LETTERS_EVERY == 0:
                row = _find_middle(cells[column])
                if self.front[row][column][1] == place:
                    self.letters[row].setdefault(column, place)

    def list_rows(self, cursor: int, *, ascii_only: bool) -> Iterator[Line]:
        """The rows; what is empty takes the role before it."""
        for letters, *rows in zip(self.letters, self.front, self.back, strict=True):
            found: list[tuple[str, Role]] = []
            role: Role = "text"
            cells = enumerate(zip(*rows, strict=True))
            for column, ((dots, owner), (behind, other)) in cells:
                glyph = " "
                if column in letters or (dots and ascii_only):
                    letter = letters.get(column, owner)
                    role, glyph = find_role(letter), find_letter(letter)
                elif dots:
                    role, glyph = find_role(owner), _GLYPHS[dots]
                elif column == cursor:
                    role, glyph = "accent", "│"
                elif behind:
                    role = "muted" if other == _FAINT else find_role(other)
                    glyph = "." if ascii_only else _GLYPHS[behind]
                found.append((glyph, role))
            yield join_cells(found)


def _fill(columns: Sequence[int], levels: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The points, and between two of them one in each column, on a straight line."""
    points = list(zip(columns, levels, strict=True))
    if all(second - first < 2 for first, second in pairwise(columns)):
        return points
    filled = points[:1]
    for (first, low), (last, high) in pairwise(points):
        for at in range(first + 1, last):
            filled.append((at, low + (high - low) * (at - first) // (last - first)))
        filled.append((last, high))
    return filled


def _find_middle(dots: int) -> int:
    """The row amid the dots of a column."""
    return ((dots & -dots).bit_length() + dots.bit_length() - 2) // 16


def _list_parts(one: Drawn) -> Iterator[Curve]:
    """The curve, what it was smoothed from, and the edges of its band."""
    yield from (one.curve, one.raw or Curve())
    if one.band is not None:
        yield from (
            Curve(one.band.steps, edge) for edge in (one.band.high, one.band.low)
        )


def render_plot(
    drawn: Sequence[Drawn], cells: int, rows: int, frame: Frame
) -> tuple[Line, ...]:
    """Curves on one scale with their axes, the last on top: `rows` lines of exactly
    `cells` cells."""
    is_small = cells < LEAST_CELLS or rows < LEAST_ROWS
    whole = measure_steps((one.curve for one in drawn), log=frame.log_x)
    first, last = frame.find_window(whole) if whole else (1, 1)
    start, end = frame.scale(first), frame.scale(last)
    curves = [
        [_list_strokes(part, frame, start, end) for part in _list_parts(one)]
        for one in (drawn if whole else ())
    ]
    every = [stroke for parts in curves for strokes in parts for stroke in strokes]
    axes = _fit_axes(every, start, end)
    if axes is None or is_small:
        text = "too small to draw" if is_small else "nothing to draw here"
        told = pad((Span(f" {text}", "muted"),), cells)
        return (told, *[pad((), cells)] * (rows - 1))[:rows]
    canvas = _Canvas(cells - MARGIN, rows - 2, axes)
    traces = [[canvas.trace(strokes) for strokes in parts] for parts in curves]
    for one, (trace, raw, *edges) in zip(drawn, traces, strict=True):
        if edges:
            canvas.shade(edges[0], edges[1], one.place)
        canvas.put(canvas.back, raw, _FAINT)
        canvas.put(canvas.front, trace, one.place)
    for one, (trace, *_) in zip(reversed(drawn), reversed(traces), strict=True):
        canvas.put_letters(trace, one.place, many=len(drawn) > 1)
    cursor = -1
    if frame.cursor is not None and first <= frame.cursor <= last:
        share = (frame.scale(frame.cursor) - start) / axes.reach
        cursor = round(share * (canvas.width - 1))
    lines = canvas.list_rows(cursor, ascii_only=frame.ascii)
    labels = _list_labels(axes, canvas.height, log=frame.log_y)
    return (
        *(
            (label, Span(" │", "rule"), *one)
            for label, one in zip(labels, lines, strict=True)
        ),
        *_render_steps(first, last, cursor, frame.cursor or 0.0, canvas.width),
    )


def _list_labels(axes: _Axes, height: int, *, log: bool) -> Iterator[Span]:
    """The values left of the rows, with more digits where these would look alike."""
    alike = not log and axes.depth < abs(axes.top) * 2e-3 < 200
    for row in range(height):
        text = ""
        if row % max(1, (height - 1) // 4) == 0 or row == height - 1:
            value = axes.top - axes.depth * row / max(1, height - 1)
            text = format_metric(10.0**value if log else value)
            text = f"{value:.7f}"[: MARGIN - 2] if alike else text
        yield Span(fit(text, MARGIN - 2, right=True), "muted")


def _render_steps(
    first: float, last: float, cursor: int, step: float, width: int
) -> Iterator[Line]:
    """The axis of steps: its ends, and the step of the readout."""
    rule = "─" * width
    if cursor >= 0:
        rule = f"{rule[:cursor]}┴{rule[cursor + 1 :]}"
    yield (Span(f"{' ' * (MARGIN - 1)}└{rule}", "rule"),)
    ends = [format_step(one, last - first) for one in (first, last, step)]
    left, right, here = ends[0], f"{ends[1]} steps", ends[2]
    gap = " " * max(1, width - len(left) - len(right))
    row = fit(f"{' ' * MARGIN}{left}{gap}{right}", MARGIN + width)
    at = MARGIN + cursor - len(here) // 2
    if cursor < 0 or row[at - 1 : at + len(here) + 1].strip() or at < MARGIN:
        yield (Span(row, "muted"),)
    else:
        rest = Span(row[at + len(here) :], "muted")
        yield (Span(row[:at], "muted"), Span(here, "accent"), rest)


def render_legend(
    metrics: Sequence[tuple[str, Sequence[Series]]],
    rising: Sequence[bool],
    frame: Frame,
    cells: int,
) -> Iterator[Line]:
    """What the columns are, then a line for each curve of the first metric: its letter,
    of each metric the value (the newest, or at the readout) and the best, its gaps, its
    name. Metrics for which there is no room are counted in the head."""
    shown = metrics[: max(1, (cells - _LETTER - _LABEL) // (_VALUE + _BEST))]
    at = "newest" if frame.cursor is None else f"at {count(frame.cursor)}"
    head = " " * _LETTER
    for (name, _), most in zip(shown, rising, strict=False):
        title = at if len(shown) == 1 else shorten(outside(name), _VALUE - 1)
        best = f"  {'highest' if most else 'lowest'} at step"
        head += fit(title, _VALUE - 1, right=True) + fit(best, _BEST + 1)
    hidden = len(metrics) - len(shown)
    note = f" +{hidden} hidden" if hidden else ""
    parts = (*cut((Span(head, "muted"),), cells - len(note)), Span(note, "accent"))
    yield line(*parts)
    known = [{one.key: one for one in series} for _, series in shown]
    for one in shown[0][1]:
        columns = "".join(
            _format_values(others.get(one.key), frame) for others in known
        )
        gaps = one.curve.gaps
        more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        told = f"  not finite at {gaps[-1]}{more}" if gaps else ""
        room = cells - _LETTER - len(columns) - len(told)
        parts = line(
            Span(fit(f" {find_letter(one.place)}", _LETTER), find_role(one.place)),
            Span(columns),
            Span(shorten(one.label, max(_LABEL // 2, room)), "muted"),
            Span(told, "failed"),
        )
        yield cut(parts, cells)


def _format_values(one: Series | None, frame: Frame) -> str:
    """The columns of a metric; of one that the run lacks a stroke."""
    value, best = None, ""
    if one is not None and one.curve.values:
        value = one.curve.values[-1]
        if frame.cursor is not None:
            value = one.curve.values[one.curve.find_nearest(frame.cursor)]
    if one is not None and one.best is not None:
        best = f"  {format_metric(one.best[1])} {count(one.best[0])}"
    return f"{format_metric(value):>{_VALUE - 1}}{fit(best, _BEST + 1)}"
