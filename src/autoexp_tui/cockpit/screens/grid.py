"""The plan as a grid: swept values by stages; below, why a cell is as it is.

The grid is worked out when it is first looked at, of many jobs off the screen's
thread, and again only for another plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult

from autoexp_tui.cockpit.render import grid as view
from autoexp_tui.cockpit.screens.condition_list_screen import ANSWER, AnsweringScreen
from autoexp_tui.cockpit.screens.job_commands import inspect
from autoexp_tui.cockpit.screens.job_list_screen import RUN_COMMANDS
from autoexp_tui.cockpit.session_model import MANY
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.stages import name_stage
from autoexp_tui.cockpit.widgets.grid_pane import CellPane, GridPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Pane
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.specs import Plan
    from autoexp_tui.planning.grid import Grid


class GridScreen(AnsweringScreen):
    """Verbs act on the jobs of the cell under the cursor."""

    first_pane: Pane = "grid"
    COMMANDS_HERE: ClassVar[Mapping[str, Callable[[Any], object]]] = MappingProxyType(
        {**RUN_COMMANDS, "rows.config": inspect}
    )
    _plan: Plan | None = None
    """The plan whose grid is shown, or being drawn."""

    def make_list(self) -> GridPane:
        self.cells = GridPane(self.skin, self.desk, id=self.first_pane)
        return self.cells

    def compose(self) -> ComposeResult:
        self.list_pane = self.make_list()
        self.answer = self.told = CellPane(self.skin, self.desk, id=ANSWER)
        yield self.list_pane
        yield self.answer
        yield from self.frame(self.skin, self.desk)

    def renew(self) -> None:
        self._draw_plan()
        super().renew()

    def _draw_plan(self) -> None:
        """Work the grid out for a plan that was not seen before."""
        from autoexp_tui.planning.grid import build_grid

        plan = self.desk.session.snapshot.plan
        if plan is None or plan is self._plan or not self.is_mounted:
            return
        self._plan = plan
        if len(plan.jobs) <= MANY:
            self.cells.take(build_grid(plan))
            return
        self.cells.take(None)
        self.cockpit.background.call("grid", lambda: build_grid(plan), self._drawn)

    def _drawn(self, result: Any, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem
        grid: Grid = result
        self.cells.take(grid)
        self.answer_cursor()

    def answer_cursor(self) -> None:
        grid, cell, jobs = self.cells.grid, self.cells.cell(), self.cells.jobs()
        if grid is None or cell is None:
            self.told.show_cell(None, (), None)
        elif jobs:
            self.told.show_cell(jobs[0], view.render_lead(grid, *cell, jobs), None)
        else:
            self.told.show_cell(None, (), view.explain_cell(grid, *cell))

    # ---------------------------------------------------------------------- acting
    def under_cursor(self) -> tuple[JobView, ...]:
        return self.cells.jobs()

    def subject(self) -> str:
        grid, cell = self.cells.grid, self.cells.cell()
        if grid is None or cell is None or len(self.cells.jobs()) < 2:
            return ""
        row, stage = cell
        return f"{name_stage(stage)} {grid.describe_row(row)}"

    # --------------------------------------------------------------------- looking
    def do_move(self, how: str) -> None:
        if self.focused is self.cells and how in ("left", "right"):
            if self.cells.step(1 if how == "right" else -1):
                self.answer_cursor()
                self.tell_footer()
            return
        super().do_move(how)

    def do_look_open(self) -> None:
        """To the cell's job in the table; of several, the table of them alone."""
        jobs = self.cells.jobs()
        if len(jobs) == 1:
            self.to_job(jobs[0])
        elif jobs:
            names = frozenset(job.name for job in jobs)
            self.desk.rearrange(only=(outside(self.subject()), names))
            self.cockpit.to_jobs("jobs")
        elif self.cells.cell() is not None:
            self.set_focus(self.answer, scroll_visible=False)

    def do_look_back(self) -> None:
        """One level back: to the stages at last."""
        if not self.left_answer():
            self.cockpit.to_jobs("stages")

    def do_look_copy(self) -> None:
        """Copy the names of the cell's jobs, or what is said of it."""
        jobs = self.cells.jobs()
        if jobs and self.focused is self.cells:
            self.cockpit.copy("\n".join(outside(job.name, 2000) for job in jobs))
        else:
            self.cockpit.copy(self.answer.text())
