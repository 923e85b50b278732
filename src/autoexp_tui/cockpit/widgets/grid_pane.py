"""The panes of the Grid screen: the cells, and what is said of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.render import grid as view
from autoexp_tui.cockpit.spans import Line, Span
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.cockpit.widgets.waiting_panes import AnswerPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.why import WhyText
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.planning.grid import Grid, Row


class GridPane(ListPane):
    """A row for each combination; `left` and `right` choose the stage."""

    name_in_table = "grid"
    number = "G"
    heading = "Grid"

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
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
        self.repaint()

    def cell(self) -> tuple[Row, str] | None:
        """Row and stage under the cursor; None without rows."""
        grid = self.grid
        if grid is None or not grid.rows or not grid.stages:
            return None
        return grid.rows[self.cursor], grid.stages[self.column]

    def jobs(self) -> tuple[JobView, ...]:
        """The jobs of the cell under the cursor."""
        cell = self.cell()
        if cell is None or self.grid is None:
            return ()
        return view.find_jobs(self.grid, *cell, self.desk.session)

    def step(self, by: int) -> bool:
        """To the stage beside; whether there is one."""
        last = len(self.grid.stages) - 1 if self.grid is not None else 0
        place = max(0, min(self.column + by, last))
        if place == self.column:
            return False
        self.column = place
        self.repaint()
        return True

    # -------------------------------------------------------------------- drawing
    def title(self) -> Line:
        return (Span(view.describe_grid(self.grid), "muted"),) if self.grid else ()

    def head(self, cells: int) -> Sequence[Line]:
        if self.grid is None or not self.grid.rows:
            return ()
        shown = self._columns(self.grid, cells - self.lead)
        heads = view.render_heads(self.grid, shown, self.column)
        return ((Span(" " * self.lead), *heads),)

    def _columns(self, grid: Grid, cells: int) -> view.Columns:
        """What stands beside each other; worked out once for all rows."""
        wish = (grid, cells, self.column)
        if self._columns_shown is None or wish != self._columns_for:
            self._columns_shown = view.choose_columns(grid, cells, self.column)
            self._columns_for = wish
        return self._columns_shown

    def placeholder(self) -> Line:
        if self.grid is None:
            return (Span(" The grid is being drawn.", "muted"),)
        return (Span(" This plan has no jobs.", "muted"),)

    def row(self, place: int, cells: int) -> Line:
        grid = self.grid
        if grid is None:
            return ()
        shown = self._columns(grid, cells)
        at = self.column if place == self.cursor else None
        return view.render_row(grid, grid.rows[place], shown, self.desk.session, at)


class CellPane(AnswerPane):
    """About the cell's job; of a cell without one, what emptied it."""

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, desk, **options)
        self._hole: WhyText | None = None

    def show_cell(self, job: JobView | None, lead: Line, hole: WhyText | None) -> None:
        """Tell about a cell."""
        self._hole = hole
        self.show(job, lead)

    def make(self, cells: int) -> Sequence[Line]:
        if self._hole is None:
            return super().make(cells)
        self._told = self._hole
        return self._told.wrap(cells)
