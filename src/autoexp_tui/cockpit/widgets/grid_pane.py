"""The plan as a grid: a row for each combination of swept values, a column a stage.

A cell is a job's glyph and word, or how many jobs look how, or the filter that emptied
it, `f1`. The cell under the cursor stands in brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from rich.cells import cell_len

from autoexp_tui.cockpit.render.why import NO_JOB_SHOWN, WhyText
from autoexp_tui.cockpit.session_model import MANY
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    cut,
    fit,
    line,
    outside,
    pad,
    plain,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import CHANGED
from autoexp_tui.cockpit.state.session import (
    JobView,
    SessionView,
    count_looks,
    render_tallies,
)
from autoexp_tui.cockpit.state.stages import name_stage
from autoexp_tui.cockpit.widgets.pane import FieldsPane, find_fitting
from autoexp_tui.cockpit.widgets.why_pane import explain_row
from autoexp_tui.planning.grid import Grid, Row, build_grid
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.keymap import Pane as PaneName
    from autoexp_tui.model.specs import Plan

_WIDEST_VALUE: Final = 12
_WIDEST_STAGE: Final = 14
_NARROWEST_STAGE: Final = 6
"""With a bracket at each side."""
_WORD_FROM: Final = 12
"""Cells of a column from which a look's word stands beside its glyph."""
_WIDEST_WORD: Final = 16
_MOST_FILTERS: Final = 40
NO_GRID: Final = Grid((), (), (), {}, {}, (), {})
"""While one is drawn."""


class Columns(NamedTuple):
    """What of a grid stands beside each other at a width."""

    axes: Sequence[int]
    """Cells of each axis that has room; the others are told below."""
    hidden: int
    """How many others there are."""
    stages: range
    """Places of the stages that are on the screen."""
    width: int
    """Cells of a stage's column."""


@lru_cache(maxsize=1)
def choose_columns(grid: Grid, cells: int, at: int) -> Columns:
    """What has room in `cells`, the stage at place `at` among it; once for all rows."""
    axes: list[int] = []
    for one in grid.axes:
        widest = max(map(cell_len, (one.label, *one.shown)), default=1)
        width = min(_WIDEST_VALUE, widest)
        if sum(axes) + 2 * len(axes) + width + 2 > cells * 45 // 100:
            break
        axes.append(width)
    hidden = len(grid.axes) - len(axes)
    left = cells - sum(axes) - 2 * len(axes) - (4 if hidden else 0)
    names = [cell_len(name_stage(one)) + 2 for one in grid.stages]
    number = len(grid.stages)
    width = max(_NARROWEST_STAGE, min(_WIDEST_STAGE, max(names, default=6)))
    room = (left - 2) // max(1, number)
    if room >= _WORD_FROM:
        width = max(width, min(_WIDEST_WORD, room))
    stages = find_fitting(number, (left - 2) // width, at)
    return Columns(axes, hidden, stages, width)


def render_heads(grid: Grid, shown: Columns, at: int) -> Line:
    """Labels of axes and stages; `at` is the stage under the cursor."""
    parts = [
        Span(f"{fit(grid.axes[place].label, width)}  ", "muted")
        for place, width in enumerate(shown.axes)
    ]
    hidden = f"+{shown.hidden}".ljust(4) if shown.hidden else ""
    more = "<" if shown.stages.start > 0 else " "
    parts.append(Span(f"{hidden}{more}", "muted"))
    for place in shown.stages:
        name = fit(f" {name_stage(grid.stages[place])}", shown.width)
        parts.append(Span(name, "strong" if place == at else "muted"))
    more = ">" if shown.stages.stop < len(grid.stages) else ""
    return line(*parts, Span(more, "muted"))


def render_row(
    grid: Grid, row: Row, shown: Columns, session: SessionView, at: int | None
) -> Line:
    """A row; `at` is the stage under the cursor, None in other rows."""
    parts: list[Span] = [
        Span(f"{fit(grid.value(row, place), width)}  ")
        for place, width in enumerate(shown.axes)
    ]
    parts.append(Span("     " if shown.hidden else " "))
    for place in shown.stages:
        content = _render_cell(grid, row, grid.stages[place], session, shown.width - 2)
        left, right = "[]" if place == at else "  "
        parts += [Span(left, "key"), *pad(content, shown.width - 2), Span(right, "key")]
    return line(*parts)


def _render_cell(
    grid: Grid, row: Row, stage: str, session: SessionView, cells: int
) -> Line:
    jobs = _find_jobs(grid, row, stage, session)
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


def _find_jobs(
    grid: Grid, row: Row, stage: str, session: SessionView
) -> tuple[JobView, ...]:
    places = grid.jobs.get((row, stage), ())
    return tuple(session.jobs[at] for at in places if at < len(session.jobs))


def explain_cell(grid: Grid, row: Row, stage: str) -> WhyText:
    """About a cell that has no job: what emptied it, and what else was emptied."""
    hole = grid.holes.get((row, stage))
    lines: list[Line] = []
    if hole is None:
        text = " No job: the sweep does not make this combination."
        lines.append((Span(text),))
    else:
        reason = f": the filter f{hole + 1} took it, and "
        number = f"{plural(grid.counts[hole], 'cell')} in all."
        lines.append((Span(" No job", "strong"), Span(reason), Span(number)))
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


class GridPane(FieldsPane):
    """A row for each combination, a column a stage."""

    name_in_table = "grid"
    number = "G"
    heading = "Grid"
    nothing = " The grid is being drawn."
    home: ClassVar[PaneName] = "stages"
    """The pane to which the last level back leads."""
    grid: Grid = NO_GRID
    _plan: Plan | None = None
    """The plan whose grid is shown, or being drawn."""

    def renew(self) -> None:
        """Show how the jobs look; work out the grid of a plan that is new."""
        plan = self.model.session.snapshot.plan
        if plan is None or plan is self._plan:
            self.update_lines()
            return
        self._plan = plan

        async def load() -> None:
            work = partial(build_grid, plan)
            self._take(await self.context.background.fetch("grid", work))
            self.post_message(self.CursorMoved(self))

        if len(plan.jobs) <= MANY:
            self._take(build_grid(plan))
        else:
            self._take(NO_GRID)
            self.run_worker(load())

    def _take(self, grid: Grid) -> None:
        self.grid = grid
        self.column = min(self.column, max(0, len(grid.stages) - 1))
        self.set_keys(map(str, grid.rows))

    def find_cell(self) -> tuple[Row, str] | None:
        if not self.grid.rows or not self.grid.stages:
            return None
        return self.grid.rows[self.cursor], self.grid.stages[self.column]

    def describe_row(self) -> str:
        cell = self.find_cell()
        if cell is None or len(self.find_jobs()) < 2:
            return ""
        return f"{name_stage(cell[1])} {self.grid.describe_row(cell[0])}"

    def find_jobs(self) -> tuple[JobView, ...]:
        cell = self.find_cell()
        return _find_jobs(self.grid, *cell, self.model.session) if cell else ()

    def find_answer(self) -> WhyText:
        """About the first job of the cell, or about what emptied it."""
        cell, jobs = self.find_cell(), self.find_jobs()
        if cell is None:
            return NO_JOB_SHOWN
        if not jobs:
            return explain_cell(self.grid, *cell)
        row, stage = cell
        where = f" {self.grid.describe_row(row)}".rstrip()
        if len(jobs) > 1:
            number = plural(len(jobs), "job")
            where += f"  {number} of {name_stage(stage)} are here, the first:"
        return explain_row(self.context, jobs[0], line(Span(where, "muted")))

    def count_columns(self) -> int:
        return len(self.grid.stages)

    def copy_text(self) -> str:
        if self.find_jobs() or not self.keys:
            return super().copy_text()
        return "\n".join(plain(one).strip() for one in self.find_answer().lines)

    def build_title(self) -> Line:
        grid = self.grid
        if grid is NO_GRID:
            return ()
        holes, number = sum(grid.counts.values()), plural(len(grid.rows), "row")
        by = f"{plural(holes, 'hole')} by {plural(len(grid.counts), 'filter')}"
        size = f"{number} x {plural(len(grid.stages), 'stage')}"
        return (Span(f"{size}, {by if holes else 'no holes'}", "muted"),)

    def build_head(self, cells: int) -> Sequence[Line]:
        if not self.grid.rows:
            return ()
        shown = choose_columns(self.grid, cells - self.lead, self.column)
        heads = render_heads(self.grid, shown, self.column)
        return ((Span(" " * self.lead), *heads),)

    def describe_nothing(self) -> str:
        return self.nothing if self.grid is NO_GRID else " This plan has no jobs."

    def row(self, place: int, cells: int) -> Line:
        shown = choose_columns(self.grid, cells, self.column)
        at = self.column if place == self.cursor else None
        row = self.grid.rows[place]
        return render_row(self.grid, row, shown, self.model.session, at)
