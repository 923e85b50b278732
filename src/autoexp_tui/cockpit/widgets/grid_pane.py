"""The plan as a grid: a row for each combination of swept values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.render import grid as view
from autoexp_tui.cockpit.spans import Line, Span
from autoexp_tui.cockpit.state.stages import name_stage
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.cockpit.widgets.why_pane import Answer

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.planning.grid import Grid, Row


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
        self._columns_shown: view.Columns | None = None
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
        return view.find_jobs(self.grid, *cell, self.model.session)

    def find_answer(self) -> Answer:
        """About the first job of the cell, or about what emptied it."""
        cell, jobs = self.find_cell(), self.find_jobs()
        if self.grid is None or cell is None:
            return Answer()
        if not jobs:
            return Answer(instead=view.explain_cell(self.grid, *cell))
        return Answer(jobs[0], view.render_lead(self.grid, *cell, jobs))

    def go_sideways(self, *, right: bool) -> None:
        """To the stage beside."""
        last = len(self.grid.stages) - 1 if self.grid is not None else 0
        self.column = max(0, min(self.column + (1 if right else -1), last))
        self.update_lines()

    def go_back(self) -> bool:
        """There is no way back within a grid."""
        return False

    def build_title(self) -> Line:
        return (Span(view.describe_grid(self.grid), "muted"),) if self.grid else ()

    def build_head(self, cells: int) -> Sequence[Line]:
        if self.grid is None or not self.grid.rows:
            return ()
        shown = self._find_columns(self.grid, cells - self.lead)
        heads = view.render_heads(self.grid, shown, self.column)
        return ((Span(" " * self.lead), *heads),)

    def _find_columns(self, grid: Grid, cells: int) -> view.Columns:
        """What stands beside each other; worked out once for all rows."""
        wish = (grid, cells, self.column)
        if self._columns_shown is None or wish != self._columns_for:
            self._columns_shown = view.choose_columns(grid, cells, self.column)
            self._columns_for = wish
        return self._columns_shown

    def describe_nothing(self) -> str:
        drawn = self.grid is not None
        return " This plan has no jobs." if drawn else " The grid is being drawn."

    def row(self, place: int, cells: int) -> Line:
        grid = self.grid
        if grid is None:
            return ()
        shown = self._find_columns(grid, cells)
        at = self.column if place == self.cursor else None
        return view.render_row(grid, grid.rows[place], shown, self.model.session, at)
