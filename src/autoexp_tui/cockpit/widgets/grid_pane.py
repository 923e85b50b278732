"""The plan as a grid: a row for each combination of swept values, a column a stage.

A cell is a job's glyph and word, or how many jobs look how, or the filter that emptied
it, `f1`. The cell under the cursor stands in brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    plain,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import CHANGED
from autoexp_tui.cockpit.state.session import count_looks
from autoexp_tui.cockpit.state.stages import name_stage
from autoexp_tui.cockpit.state.status import render_tallies
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.cockpit.widgets.why_pane import Answer
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.planning.grid import Grid, Row

_WIDEST_VALUE: Final = 12
_WIDEST_STAGE: Final = 14
_NARROWEST_STAGE: Final = 6
"""With a bracket at each side."""
_WORD_FROM: Final = 12
"""Cells of a column from which a look's word stands beside its glyph."""
_WIDEST_WORD: Final = 16
_MOST_FILTERS: Final = 40


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
    room = (left - 2) // max(1, number)
    if room >= _WORD_FROM:
        width = max(width, min(_WIDEST_WORD, room))
    fitting = max(1, min(number, (left - 2) // width))
    first = max(0, min(at - fitting // 2, number - fitting))
    return Columns(axes, hidden, range(first, first + fitting), width)


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
    """The jobs of a cell."""
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


class GridPane(ListPane):
    """A row for each combination; `left` and `right` choose the stage."""

    name_in_table = "grid"
    number = "G"
    heading = "Grid"

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.grid: Grid | None = None
        self.column = 0
        """Place of the stage under the cursor."""
        self._columns: Columns | None = None
        self._columns_for: tuple[object, ...] = ()

    def take(self, grid: Grid | None) -> None:
        """Show a plan's grid; None while it is drawn."""
        self.grid = grid
        rows = grid.rows if grid is not None else ()
        self.column = min(self.column, max(0, len(grid.stages) - 1)) if grid else 0
        self.set_keys([str(row) for row in rows])

    def renew(self) -> None:
        """Show how the jobs look now."""
        self.update_lines()

    def find_cell(self) -> tuple[Row, str] | None:
        """Row and stage under the cursor; None without rows."""
        grid = self.grid
        if grid is None or not grid.rows or not grid.stages:
            return None
        return grid.rows[self.cursor], grid.stages[self.column]

    def describe_row(self) -> str:
        """What a cell of several jobs is called; empty for others."""
        cell = self.find_cell()
        if self.grid is None or cell is None or len(self.find_jobs()) < 2:
            return ""
        row, stage = cell
        return f"{name_stage(stage)} {self.grid.describe_row(row)}"

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the cell under the cursor."""
        cell = self.find_cell()
        if cell is None or self.grid is None:
            return ()
        return _find_jobs(self.grid, *cell, self.model.session)

    def find_answer(self) -> Answer:
        """About the first job of the cell, or about what emptied it."""
        cell, jobs = self.find_cell(), self.find_jobs()
        if self.grid is None or cell is None:
            return Answer()
        if not jobs:
            return Answer(instead=explain_cell(self.grid, *cell))
        row, stage = cell
        where = f" {self.grid.describe_row(row)}".rstrip()
        if len(jobs) > 1:
            number = plural(len(jobs), "job")
            where += f"  {number} of {name_stage(stage)} are here, the first:"
        return Answer(jobs[0], line(Span(where, "muted")))

    def move(self, how: str) -> None:
        step = {"right": 1, "left": -1}.get(how, 0)
        if not step:
            super().move(how)
        elif self.grid is not None:  # to the stage beside
            self.column = max(0, min(self.column + step, len(self.grid.stages) - 1))
            self.update_lines()
            self.post_message(self.CursorMoved(self))

    def copy_text(self) -> str:
        answer = self.find_answer().instead
        lines = [plain(one).strip() for one in answer.lines] if answer else []
        return super().copy_text() or "\n".join(lines)

    def go_back(self) -> bool:
        """There is no way back within a grid."""
        return False

    def build_title(self) -> Line:
        grid = self.grid
        if grid is None:
            return ()
        holes, number = sum(grid.counts.values()), plural(len(grid.rows), "row")
        by = f"{plural(holes, 'hole')} by {plural(len(grid.counts), 'filter')}"
        size = f"{number} x {plural(len(grid.stages), 'stage')}"
        return (Span(f"{size}, {by if holes else 'no holes'}", "muted"),)

    def build_head(self, cells: int) -> Sequence[Line]:
        if self.grid is None or not self.grid.rows:
            return ()
        shown = self._find_columns(self.grid, cells - self.lead)
        heads = render_heads(self.grid, shown, self.column)
        return ((Span(" " * self.lead), *heads),)

    def _find_columns(self, grid: Grid, cells: int) -> Columns:
        """What stands beside each other; worked out once for all rows."""
        wish = (grid, cells, self.column)
        if self._columns is None or wish != self._columns_for:
            self._columns = choose_columns(grid, cells, self.column)
            self._columns_for = wish
        return self._columns

    def describe_nothing(self) -> str:
        drawn = self.grid is not None
        return " This plan has no jobs." if drawn else " The grid is being drawn."

    def row(self, place: int, cells: int) -> Line:
        grid = self.grid
        if grid is None:
            return ()
        shown = self._find_columns(grid, cells)
        at = self.column if place == self.cursor else None
        return render_row(grid, grid.rows[place], shown, self.model.session, at)
