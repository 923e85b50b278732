"""The lists of other modes: what waits, the campaign over time, the plan as a grid.

Of the time-line only visible jobs are worked out. A stage's strip is kept until its
jobs, the window or the present move by a cell.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cockpit.render import grid as view
from autoexp_tui.cockpit.render.lists import (
    describe_wait_group,
    render_wait_group,
    render_waiting_job,
)
from autoexp_tui.cockpit.render.timeline import (
    Window,
    build_job_strip,
    build_stage_strip,
    build_window,
    render_axis,
)
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    fit,
    join,
    join_cells,
    outside,
    shorten_middle,
)
from autoexp_tui.cockpit.state.parameters import describe_job
from autoexp_tui.cockpit.state.stages import StageView, name_stage
from autoexp_tui.cockpit.state.waiting import WaitGroup, Waits
from autoexp_tui.cockpit.widgets.list_pane import GroupsPane, ListPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.planning.grid import Grid, Row


class WaitingPane(GroupsPane[WaitGroup]):
    """Groups of jobs that wait alike."""

    name_in_table = "waiting"
    number = "w"
    heading = "Waiting"

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.waits = Waits()

    def renew(self) -> None:
        """Take the model's newest session."""
        if self.waits.take(self.model.session):
            self.list_groups(self.waits.groups)
        else:
            self.update_lines()

    def find_key(self, group: WaitGroup) -> str:
        return group.key

    def describe_row(self) -> str:
        """What a group under the cursor is called; empty on a job."""
        group, job = self.find_group(), self.find_job()
        if group is None or job is not None or len(group.jobs) == 1:
            return ""
        return (
            f"{group.jobs[0].stage}: {describe_wait_group(group, self.model.session)}"
        )

    def build_lead(self) -> Line:
        """Says that the job told about stands for the group under the cursor."""
        group = self.find_group()
        if group is None or self.find_job() is not None or len(group.jobs) == 1:
            return ()
        words = describe_wait_group(group, self.model.session)
        return (Span(f" of {len(group.jobs)} that wait alike ({words}), the oldest:"),)

    def build_title(self) -> Line:
        return (Span(self.waits.describe(), "muted"),)

    def describe_nothing(self) -> Line:
        return (Span(" Nothing waits.", "muted"),)

    def row(self, place: int, cells: int) -> Line:
        group, job = self._rows[place]
        if job is not None:
            parameters = self.model.words.parameters
            return render_waiting_job(job, self.model.session, parameters, cells)
        return render_wait_group(
            group,
            self.model.session,
            cells,
            unfolded=self.is_open(group),
            apart=self.skin.ascii,
        )


_LEGEND: tuple[tuple[str, str], ...] = (
    ("·", "waits"),
    ("░", "queued"),
    ("█", "ran"),
    ("▒", "in vain"),
    ("✗", "failed"),
)
_LEGEND_CELLS: Final = 76
"""From here on all of the legend has room in the title; else it does without the mark
that the rows have too.
"""


class TimelinePane(GroupsPane[StageView]):
    """Stages and jobs over time."""

    name_in_table = "timeline"
    number = "9"
    heading = "Time-line"

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.window: Window | None = None
        """What a person chose to see; None: everything."""
        self._strips: dict[str, tuple[object, tuple[JobView, ...], list[Span]]] = {}

    # -------------------------------------------------------------------- contents
    def renew(self) -> None:
        """Take the model's newest session."""
        self.list_groups(self.model.stages)

    def find_key(self, group: StageView) -> str:
        return f"stage:{group.name}"

    def describe_row(self) -> str:
        """What a stage under the cursor is called; empty on a job."""
        stage = self.find_group()
        return f"stage {stage.name}" if stage and self.find_job() is None else ""

    @property
    def label_width(self) -> int:
        """Cells left of the strips."""
        return 18 if self.cells < 100 else 32

    @property
    def strip_width(self) -> int:
        """Cells of a strip."""
        return max(1, self.cells - self.lead - self.label_width)

    def find_window(self) -> Window:
        """The window as it is drawn now."""
        if self.window is not None:
            return Window(self.window.begin, self.window.seconds, self.strip_width)
        return build_window(self._find_begin(), self._find_end(), self.strip_width)

    def _find_begin(self) -> float:
        snapshot = self.model.session.snapshot
        return snapshot.started_at or self.model.session.now

    def _find_end(self) -> float:
        playback = self.model.session.snapshot.playback
        latest = max(self.model.session.now, self.model.ends.session or 0.0)
        return latest if playback is None else max(latest, playback.end)

    # -------------------------------------------------------------------- the window
    def resize_window(self, factor: float) -> None:
        """Show less, or more, around the present, or around the middle."""
        shown, now = self.find_window(), self.model.session.now
        middle = shown.begin + shown.seconds / 2
        around = now if shown.begin <= now < shown.end else middle
        self.window = shown.zoom(factor, around)
        self.update_lines()

    def move_window(self, share: float) -> None:
        """Move the window by a share of its length."""
        self.window = self.find_window().move(share)
        self.update_lines()

    def show_all(self) -> None:
        """Show everything again, and follow the present."""
        self.window = None
        self.update_lines()

    # -------------------------------------------------------------------------- rows
    def build_head(self, cells: int) -> Sequence[Line]:
        session = self.model.session
        indent = self.lead + self.label_width
        return render_axis(
            self.find_window(), session.now, session.snapshot.gaps, indent
        )

    def row(self, place: int, cells: int) -> Line:
        stage, job = self._rows[place]
        window, now = self.find_window(), self.model.session.now
        if job is None:
            mark = "▾" if self.is_open(stage) else "▹"
            name = fit(f"{mark} {stage.name}", self.label_width - 6)
            label = Span(f"{name}{stage.total:>5} ", "strong")
            return (label, *join_cells(self._build_strip(stage, window)))
        words = describe_job(job.record.spec, self.model.words.parameters)
        name = shorten_middle(words or outside(job.name), self.label_width - 5)
        strip = build_job_strip(job.record, self._find_begin(), now, window)
        return (
            Span(f"  {job.look.glyph} ", job.look.role),
            Span(fit(name, self.label_width - 4)),
            *join_cells(strip),
        )

    def _build_strip(self, stage: StageView, window: Window) -> list[Span]:
        now = self.model.session.now
        wish = (window, window.cell(now))
        known = self._strips.get(stage.name)
        if known is not None and known[0] == wish and _is_same(known[1], stage.jobs):
            return known[2]
        cells = build_stage_strip(stage.jobs, self._find_begin(), now, window)
        self._strips[stage.name] = (wish, stage.jobs, cells)
        return cells

    def build_title(self) -> Line:
        parts: list[Line] = []
        wide = self.cells >= _LEGEND_CELLS
        if self.window is not None:
            parts.append((Span("f shows all" if wide else "f all", "accent"),))
        legend = [
            (Span(glyph, "text"), Span(f" {word}", "muted"))
            for glyph, word in (_LEGEND if wide else _LEGEND[:-1])
        ]
        return join([*parts, *legend], "  ")

    def describe_nothing(self) -> Line:
        return (Span(" Nothing is planned yet.", "muted"),)


def _is_same(old: tuple[JobView, ...], new: tuple[JobView, ...]) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))


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

    def move_column(self, by: int) -> bool:
        """To the stage beside; whether there is one."""
        last = len(self.grid.stages) - 1 if self.grid is not None else 0
        place = max(0, min(self.column + by, last))
        if place == self.column:
            return False
        self.column = place
        self.update_lines()
        return True

    # -------------------------------------------------------------------- drawing
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

    def describe_nothing(self) -> Line:
        if self.grid is None:
            return (Span(" The grid is being drawn.", "muted"),)
        return (Span(" This plan has no jobs.", "muted"),)

    def row(self, place: int, cells: int) -> Line:
        grid = self.grid
        if grid is None:
            return ()
        shown = self._find_columns(grid, cells)
        at = self.column if place == self.cursor else None
        return view.render_row(grid, grid.rows[place], shown, self.model.session, at)
