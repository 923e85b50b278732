"""The grid of a plan as lines: values at the left, a column a stage.

A cell is a job's glyph and word, or how many jobs look how, or the filter that emptied
it, `f1`. The cell under the cursor stands in brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.render.why import WhyText
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    cut,
    fit,
    line,
    outside,
    pad,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import CHANGED
from autoexp_tui.cockpit.state.session import count_looks
from autoexp_tui.cockpit.state.stages import name_stage
from autoexp_tui.cockpit.state.status import render_tallies
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.planning.grid import Grid, Row

_WIDEST_VALUE: Final = 12
_WIDEST_STAGE: Final = 14
_NARROWEST_STAGE: Final = 6
"""With a bracket at each side."""
_WORD_FROM: Final = 12
"""Cells of a column from which a look's word stands beside its glyph."""
_MOST_FILTERS: Final = 40


@dataclass(frozen=True, slots=True)
class Columns:
    """What of a grid stands beside each other at a width."""

    axes: tuple[int, ...]
    """Cells of each axis that has room; the others are told below."""
    stages: tuple[int, ...]
    """Places of the stages that are on the screen."""
    width: int
    """Cells of a stage's column."""
    hidden: int
    """Axes without room."""
    before: bool
    """Whether stages stand left of these."""
    after: bool
    """Whether stages stand right of these."""


def choose_columns(grid: Grid, cells: int, at: int) -> Columns:
    """What has room in `cells`, the stage at place `at` among it."""
    axes: list[int] = []
    for one in grid.axes:
        widest = max(map(cell_len, (one.label, *one.values)), default=1)
        width = min(_WIDEST_VALUE, widest)
        if sum(axes) + 2 * len(axes) + width + 2 > cells * 45 // 100:
            break
        axes.append(width)
    hidden = len(grid.axes) - len(axes)
    left = cells - sum(axes) - 2 * len(axes) - (4 if hidden else 0)
    names = [cell_len(name_stage(one)) + 2 for one in grid.stages]
    number = len(grid.stages)
    width = max(_NARROWEST_STAGE, min(_WIDEST_STAGE, max(names, default=6)))
    if width < _WORD_FROM <= left // max(1, number):
        width = _WORD_FROM
    fitting = max(1, min(number, (left - 2) // width))
    first = max(0, min(at - fitting // 2, number - fitting))
    return Columns(
        axes=tuple(axes),
        stages=tuple(range(first, first + fitting)),
        width=width,
        hidden=hidden,
        before=first > 0,
        after=first + fitting < number,
    )


def render_heads(grid: Grid, shown: Columns, at: int) -> Line:
    """Labels of axes and stages; `at` is the stage under the cursor."""
    parts = [
        Span(f"{fit(grid.axes[place].label, width)}  ", "muted")
        for place, width in enumerate(shown.axes)
    ]
    hidden = f"+{shown.hidden}".ljust(4) if shown.hidden else ""
    parts += [Span(hidden, "muted"), Span("<" if shown.before else " ", "muted")]
    for place in shown.stages:
        name = fit(f" {name_stage(grid.stages[place])}", shown.width)
        parts.append(Span(name, "strong" if place == at else "muted"))
    return line(*parts, Span(">" if shown.after else "", "muted"))


def render_row(
    grid: Grid, row: Row, shown: Columns, session: SessionView, at: int | None
) -> Line:
    """A row; `at` is the stage under the cursor, None in other rows."""
    parts: list[Span] = [
        Span(f"{fit(grid.value(row, place), width)}  ")
        for place, width in enumerate(shown.axes)
    ]
    parts += [Span("    " if shown.hidden else ""), Span(" ")]
    for place in shown.stages:
        content = _render_cell(grid, row, grid.stages[place], session, shown.width - 2)
        left, right = "[]" if place == at else "  "
        parts += [Span(left, "key"), *pad(content, shown.width - 2), Span(right, "key")]
    return line(*parts)


def _render_cell(
    grid: Grid, row: Row, stage: str, session: SessionView, cells: int
) -> Line:
    jobs = find_jobs(grid, row, stage, session)
    if len(jobs) == 1:
        look = jobs[0].look
        word = f" {look}" if cells >= _WORD_FROM - 2 else ""
        changed = Span(CHANGED if jobs[0].record.spec.own_values else "", "strong")
        mark = Span(look.glyph, look.role)
        return cut(line(mark, changed, Span(word, look.role)), cells)
    if jobs:
        return cut(tuple(render_tallies(count_looks(jobs))), cells)
    hole = grid.holes.get((row, stage))
    return () if hole is None else (Span(f"f{hole + 1}", "skipped"),)


def find_jobs(
    grid: Grid, row: Row, stage: str, session: SessionView
) -> tuple[JobView, ...]:
    """The jobs of a cell."""
    places = grid.jobs.get((row, stage), ())
    return tuple(session.jobs[at] for at in places if at < len(session.jobs))


def describe_grid(grid: Grid) -> str:
    """`12 rows x 3 stages, 4 holes by 1 filter`."""
    holes = sum(grid.counts.values())
    by = f"{plural(holes, 'hole')} by {plural(len(grid.counts), 'filter')}"
    size = f"{plural(len(grid.rows), 'row')} x {plural(len(grid.stages), 'stage')}"
    return f"{size}, {by if holes else 'no holes'}"


def explain_cell(grid: Grid, row: Row, stage: str) -> WhyText:
    """About a cell that has no job: what emptied it, and what else was emptied."""
    hole = grid.holes.get((row, stage))
    lines: list[Line] = []
    if hole is None:
        text = " No job: the sweep does not make this combination."
        lines.append((Span(text),))
    else:
        told = f": the filter f{hole + 1} took it, and "
        number = f"{plural(grid.counts[hole], 'cell')} in all."
        lines.append((Span(" No job", "strong"), Span(told), Span(number)))
        lines.append(_render_filter(grid, hole))
    if grid.more:
        more = plural(grid.more, "more combination")
        verb = "has" if grid.more == 1 else "have"
        text = f"   {more} that filters took {verb} no row here."
        lines.append((Span(text, "muted"),))
    if others := [at for at in sorted(grid.counts) if at != hole]:
        lines += [(), (Span(" Other filters that made holes", "title"),)]
        lines += [_render_filter(grid, at) for at in others[:_MOST_FILTERS]]
    where = f"{grid.describe_row(row)}, {name_stage(stage)}".lstrip(", ")
    return WhyText(where, tuple(lines))


def _render_filter(grid: Grid, at: int) -> Line:
    text, where = grid.filters[at]
    return line(
        Span(f"   f{at + 1}  ", "accent"),
        Span(shorten(outside(text, 2000), 1500)),
        Span(f"   at {outside(where)}", "muted"),
    )


def render_lead(grid: Grid, row: Row, stage: str, jobs: Sequence[JobView]) -> Line:
    """Which cell is told about, and that its first job stands for several."""
    where = f" {grid.describe_row(row)}".rstrip()
    if len(jobs) != 1:
        number = plural(len(jobs), "job")
        where += f"  {number} of {name_stage(stage)} are here, the first:"
    return line(Span(where, "muted"))
