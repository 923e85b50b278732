"""Pane 4: curves of the marked runs, or of the one under the cursor, on one scale.

They are drawn with braille dots, and told apart by a letter at their end as well as by
colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
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
from autoexp_tui.cockpit.widgets.pane import TextPane
from autoexp_tui.text.spelling import count, format_metric

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.snapshot import Curve

MOST_CURVES = 26
"""As many as there are letters to name them by."""
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


class Plotted(NamedTuple):
    """A curve with its name."""

    label: str
    curve: Curve


class Scale(NamedTuple):
    """The shared ranges; values are in log10 where `log` says so."""

    x0: float
    x1: float
    y0: float
    y1: float
    log: bool


def measure_scale(plotted: Sequence[Plotted], *, log: bool) -> Scale | None:
    """The ranges that hold every curve; None when nothing can be shown."""
    shown = [point for one in plotted for point in _list_points(one.curve, log=log)]
    if not shown:
        return None
    xs, ys = zip(*shown, strict=True)
    pad = (max(ys) - min(ys)) * 0.04 or abs(max(ys)) * 0.04 or 1.0
    return Scale(min(xs), max(xs), min(ys) - pad, max(ys) + pad, log)


def _list_points(curve: Curve, *, log: bool) -> Iterator[tuple[float, float]]:
    """The points that can be shown, y in log10 where asked."""
    for step, value in zip(curve.steps, curve.values, strict=False):
        if math.isfinite(value) and (value > 0 or not log):
            yield step, math.log10(value) if log else value


def render_plot(
    plotted: Sequence[Plotted], cells: int, rows: int, *, log: bool = False
) -> tuple[Line, ...]:
    """The frame with axes, `rows` lines of at most `cells` cells."""
    ranges = measure_scale(plotted, log=log)
    width, height = cells - _MARGIN - 1, rows - 2
    if ranges is None or width < 8 or height < 3:
        text = "nothing to draw yet" if ranges is None else "too small to draw"
        return ((Span(f" {text}", "muted"),),)
    canvas = _Canvas(width, height, ranges)
    for place, one in enumerate(plotted):
        canvas.draw(one.curve, place)
    lines: list[Line] = []
    for row in range(height):
        label = ""
        if row % max(1, (height - 1) // 4) == 0 or row == height - 1:
            value = ranges.y1 - (ranges.y1 - ranges.y0) * row / max(1, height - 1)
            label = format_metric(10**value if log else value)
        axis = (Span(fit(label, _MARGIN - 1, right=True), "muted"), Span(" │", "rule"))
        lines.append((*axis, *join_cells(canvas.list_cells(row))))
    left, right = count(ranges.x0), f"{count(ranges.x1)} steps"
    gap = " " * max(1, width - cell_len(left) - cell_len(right))
    return (
        *lines,
        (Span(" " * _MARGIN + "└" + "─" * width, "rule"),),
        (Span(" " * (_MARGIN + 1) + left + gap + right, "muted"),),
    )


@dataclass(slots=True)
class _Canvas:
    """Dots of several curves by row and column: the one drawn last owns a cell."""

    width: int
    height: int
    ranges: Scale
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    letters: dict[tuple[int, int], int] = field(default_factory=dict)

    def draw(self, curve: Curve, place: int) -> None:
        """Join the points of a curve; its letter stands at its end."""
        before: tuple[int, int] | None = None
        for step, value in _list_points(curve, log=self.ranges.log):
            here = self._find_dot(step, value)
            x, y = before or here
            across, down = here[0] - x, here[1] - y
            dots = max(abs(across), abs(down), 1)
            for part in range(dots + 1):
                self._add_dot(
                    round(x + across * part / dots),
                    round(y + down * part / dots),
                    place,
                )
            before = here
        if before is not None:
            self.letters[before[1] // 4, before[0] // 2] = place

    def _add_dot(self, x: int, y: int, place: int) -> None:
        cell = (y // 4, x // 2)
        self.dots[cell] = self.dots.get(cell, 0) | _DOTS[y % 4][x % 2]
        self.owners[cell] = place

    def _find_dot(self, step: float, value: float) -> tuple[int, int]:
        ranges = self.ranges
        across = (step - ranges.x0) / ((ranges.x1 - ranges.x0) or 1.0)
        up = (value - ranges.y0) / ((ranges.y1 - ranges.y0) or 1.0)
        x = round(across * (self.width * 2 - 1))
        y = round((1 - up) * (self.height * 4 - 1))
        return x, min(max(y, 0), self.height * 4 - 1)

    def list_cells(self, row: int) -> Iterator[tuple[str, Role]]:
        """The glyphs of a row; what is empty takes the role before it."""
        role: Role = "text"
        for column in range(self.width):
            cell = (row, column)
            letter = self.letters.get(cell)
            owner = self.owners.get(cell) if letter is None else letter
            role = role if owner is None else _find_role(owner)
            dots = self.dots.get(cell, 0)
            glyph = chr(0x2800 + dots) if dots else " "
            yield (glyph if letter is None else LETTERS[letter % 26]), role


def _find_role(place: int) -> Role:
    """The role of the curve at `place`."""
    return CURVE_ROLES[place % len(CURVE_ROLES)]


def render_legend(plotted: Sequence[Plotted], cells: int) -> Iterator[Line]:
    """A line for each curve: its letter, its newest value, its gaps, its name."""
    for place, one in enumerate(plotted):
        values, gaps = one.curve.values, one.curve.gaps
        newest = format_metric(values[-1] if values else None)
        more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        parts = line(
            Span(f" {LETTERS[place % 26]} ", _find_role(place)),
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
        """The jobs whose curves are drawn."""
        session = self.model.session
        marked = sorted(
            session.list_jobs(tuple(self.model.marks)), key=attrgetter("index")
        )
        return (tuple(marked) or session.list_jobs(self._names))[:MOST_CURVES]

    def list_metrics(self) -> tuple[str, ...]:
        """Every metric of these jobs, the loss first."""
        jobs = self.find_jobs()
        names = dict.fromkeys(
            name for job in jobs if job.live for name in job.live.curves
        )
        return tuple(sorted(names, key=lambda name: (name != self.model.session.loss,)))

    def find_metric(self) -> str:
        """The metric that is drawn."""
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
        """Logarithmic or linear."""
        self.logarithmic = not self.logarithmic
        self.renew()

    def build_lines(self, cells: int) -> Sequence[Line]:
        jobs, parameters = self.find_jobs(), self.model.words.parameters
        metric = self.find_metric()
        plotted = []
        for job in jobs:
            words = describe_job(job.record.spec, parameters)
            label = f"{outside(job.stage)} {words}".strip() or outside(job.name)
            curve = job.live.curves.get(metric) if job.live else None
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
