"""Pane 4: curves of the marked runs, or of the one under the cursor, on one scale.

They are drawn with braille dots, and told apart by a letter at their end as well as by
colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    join_cells,
    line,
    outside,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import describe_job
from autoexp_tui.cockpit.state.session import sort_jobs
from autoexp_tui.cockpit.widgets.pane import TextPane
from autoexp_tui.text.spelling import count, format_metric

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.snapshot import Curve

MOST_CURVES = 26
"""As many as there are letters to name them by."""
_ROLES: Final[tuple[Role, ...]] = (
    "curve1",
    "curve2",
    "curve3",
    "curve4",
    "curve5",
    "curve6",
)
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_MARGIN: Final = 8


class Plotted(NamedTuple):
    """A curve with its name."""

    label: str
    curve: Curve


class Canvas:
    """Dots of several curves by row and column: the one drawn last owns a cell."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._cells: dict[tuple[int, int], tuple[int, int]] = {}
        """The dots of a cell, and the curve that owns it."""
        self._letters: dict[tuple[int, int], int] = {}

    def draw(self, points: Iterable[tuple[float, float]], place: int) -> None:
        """Join points, each from 0 to 1 across and down; a letter stands at the end."""
        right, bottom = self.width * 2 - 1, self.height * 4 - 1
        found = [(round(x * right), round(y * bottom)) for x, y in points]
        for (x, y), here in zip(found, [*found[1:], *found[-1:]], strict=True):
            across, down = here[0] - x, here[1] - y
            steps = max(abs(across), abs(down), 1)
            for part in range(steps + 1):
                column = round(x + across * part / steps)
                row = min(max(round(y + down * part / steps), 0), bottom)
                cell = (row // 4, column // 2)
                dots = self._cells.get(cell, (0, 0))[0]
                self._cells[cell] = dots | _DOTS[row % 4][column % 2], place
        for x, y in found[-1:]:
            self._letters[min(max(y, 0), bottom) // 4, x // 2] = place

    def list_cells(self, row: int) -> Iterator[tuple[str, Role]]:
        """The glyphs of a row; what is empty takes the role before it."""
        role: Role = "text"
        for column in range(self.width):
            cell = (row, column)
            dots, owner = self._cells.get(cell, (0, None))
            letter = self._letters.get(cell)
            owner = owner if letter is None else letter
            role = role if owner is None else _find_role(owner)
            glyph = chr(0x2800 + dots) if dots else " "
            yield (glyph if letter is None else _find_letter(letter)), role


def _find_role(place: int) -> Role:
    return _ROLES[place % len(_ROLES)]


def _find_letter(place: int) -> str:
    return chr(ord("a") + place % MOST_CURVES)


def _list_points(curve: Curve, *, log: bool) -> Sequence[tuple[float, float]]:
    """The points that can be shown, y in log10 where asked."""
    return [
        (step, math.log10(value) if log else value)
        for step, value in zip(curve.steps, curve.values, strict=False)
        if math.isfinite(value) and (value > 0 or not log)
    ]


def render_plot(
    plotted: Sequence[Plotted], cells: int, rows: int, *, log: bool = False
) -> tuple[Line, ...]:
    """The frame with axes on a shared scale, `rows` lines of at most `cells` cells."""
    curves = [_list_points(one.curve, log=log) for one in plotted]
    xs, ys = ([point[axis] for curve in curves for point in curve] for axis in (0, 1))
    width, height = cells - _MARGIN - 1, rows - 2
    if not xs or width < 8 or height < 3:
        text = "too small to draw" if xs else "nothing to draw yet"
        return ((Span(f" {text}", "muted"),),)
    pad = (max(ys) - min(ys)) * 0.04 or abs(max(ys)) * 0.04 or 1.0
    start, top = min(xs), max(ys) + pad
    reach, depth = (max(xs) - start) or 1.0, top - min(ys) + pad
    canvas = Canvas(width, height)
    for place, curve in enumerate(curves):
        canvas.draw((((x - start) / reach, (top - y) / depth) for x, y in curve), place)
    lines: list[Line] = []
    for row in range(height):
        label = ""
        if row % max(1, (height - 1) // 4) == 0 or row == height - 1:
            value = top - depth * row / max(1, height - 1)
            label = format_metric(10**value if log else value)
        axis = (Span(fit(label, _MARGIN - 1, right=True), "muted"), Span(" │", "rule"))
        lines.append((*axis, *join_cells(canvas.list_cells(row))))
    left, right = count(start), f"{count(max(xs))} steps"
    gap = " " * max(1, width - cell_len(left) - cell_len(right))
    return (
        *lines,
        (Span(" " * _MARGIN + "└" + "─" * width, "rule"),),
        (Span(" " * (_MARGIN + 1) + left + gap + right, "muted"),),
    )


def render_legend(plotted: Sequence[Plotted], cells: int) -> Iterator[Line]:
    """A line for each curve: its letter, its newest value, its gaps, its name."""
    for place, one in enumerate(plotted):
        values, gaps = one.curve.values, one.curve.gaps
        newest = format_metric(values[-1] if values else None)
        more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        parts = line(
            Span(f" {_find_letter(place)} ", _find_role(place)),
            Span(f"{fit(newest, 8, right=True)}  "),
            Span(f"not finite at {gaps[-1]}{more}  " if gaps else "", "failed"),
            Span(shorten(one.label, max(1, cells - 14)), "muted"),
        )
        yield cut(parts, cells)


class MetricsPane(TextPane):
    """Curves with a shared scale, linear or logarithmic."""

    name_in_table = "metrics"
    number = "4"
    heading = "Metrics"

    logarithmic = False
    metric = ""
    _names: tuple[str, ...] = ()

    def show(self, names: Sequence[str]) -> None:
        """Draw these jobs' curves, of the first; marked jobs come before them."""
        self._names = tuple(names[:MOST_CURVES])
        self.renew()

    def find_jobs(self) -> tuple[JobView, ...]:
        session = self.model.session
        marked = sort_jobs(session.list_jobs(self.model.marks))
        return (marked or session.list_jobs(self._names))[:MOST_CURVES]

    def list_metrics(self) -> tuple[str, ...]:
        """Every metric of these jobs, the loss first."""
        jobs = self.find_jobs()
        names = dict.fromkeys(name for job in jobs for name in job.live.curves)
        return tuple(sorted(names, key=lambda name: (name != self.model.session.loss,)))

    def find_metric(self) -> str:
        names = self.list_metrics()
        if self.metric in names:
            return self.metric
        return names[0] if names else self.model.session.loss

    def move(self, how: str) -> None:
        names = self.list_metrics()
        if how not in ("left", "right") or not names:
            super().move(how)
            return
        place = names.index(self.find_metric()) + (1 if how == "right" else -1)
        self.metric = names[place % len(names)]
        self.renew()

    def action_scale(self) -> None:
        self.logarithmic = not self.logarithmic
        self.renew()

    def build_lines(self, cells: int) -> Sequence[Line]:
        jobs, parameters = self.find_jobs(), self.model.words.parameters
        metric = self.find_metric()
        plotted = []
        for job in jobs:
            words = describe_job(job.record.spec, parameters)
            label = f"{outside(job.stage)} {words}".strip() or outside(job.name)
            curve = job.live.curves.get(metric)
            if curve is not None and curve.steps:
                plotted.append(Plotted(label, curve))
        room = self.size.height - 1
        below = min(len(plotted), max(1, room // 3))
        drawn = render_plot(plotted, cells, room - below, log=self.logarithmic)
        if not plotted:
            text = " No curve: mark runs in the table with space."
            return ((Span(text, "muted"),),)
        return (*drawn, *render_legend(plotted, cells))

    def build_title(self) -> Line:
        names, metric = self.list_metrics(), self.find_metric()
        place = f" {names.index(metric) + 1}/{len(names)} (h l)" if names else ""
        scale = ", log" if self.logarithmic else ""
        return (Span(outside(metric), "accent"), Span(f"{scale}{place}", "muted"))
