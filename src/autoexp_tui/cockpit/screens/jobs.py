"""Jobs mode: stages, jobs, why, metrics, what needs you, the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.render.layout import Box, Boxes, build_boxes, has_side, is_low
from autoexp_tui.cockpit.render.logs import find_logs
from autoexp_tui.cockpit.screens.job_commands import JOB_COMMANDS
from autoexp_tui.cockpit.screens.job_list_screen import ActingScreen
from autoexp_tui.cockpit.screens.log_screen import LogScreen
from autoexp_tui.cockpit.spans import outside, plain
from autoexp_tui.cockpit.state.filtering import FilterError, check_names, compile_filter
from autoexp_tui.cockpit.state.rows import find_column, sort_by
from autoexp_tui.cockpit.widgets.bars import ProblemLine
from autoexp_tui.cockpit.widgets.job_panes import JobsPane, NeedsPane, StagesPane
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.cockpit.widgets.metrics_pane import MOST_CURVES, MetricsPane
from autoexp_tui.cockpit.widgets.why_pane import WhyPane
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.background import Background
    from autoexp_tui.cockpit.commands import Pane
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.cockpit.widgets.list_pane import ListPane
    from autoexp_tui.cockpit.widgets.pane import Pane as PaneWidget

Lists = StagesPane | JobsPane | NeedsPane


class JobsScreen(LogScreen, ActingScreen):
    """The main screen. What its keys do beyond looking stands in `job_commands`."""

    COMMANDS_HERE = JOB_COMMANDS
    stages: StagesPane
    jobs: JobsPane
    needs: NeedsPane
    why: WhyPane
    metrics: MetricsPane
    logs: LogPane
    list: Lists
    """The list that the person looks at: verbs act on its row."""

    def __init__(self, skin: Skin, desk: Desk, background: Background) -> None:
        super().__init__("jobs")
        self.skin = skin
        self.desk = desk
        self._background = background
        self._folds_by_height: bool | None = None
        self._shape = (0, 0)
        self._rows_placed: int | None = None

    def compose(self) -> ComposeResult:
        skin, desk = self.skin, self.desk
        self.stages = StagesPane(skin, desk, id="stages")
        self.jobs = JobsPane(skin, desk, id="jobs")
        self.needs = NeedsPane(skin, desk, id="needs")
        thinking, come_back = self.cockpit.thinking, self.cockpit.come_back
        self.why = WhyPane(skin, desk, thinking, come_back, id="why")
        self.metrics = MetricsPane(skin, desk, id="metrics")
        self.logs = LogPane(skin, self._background, id="log")
        yield self.stages
        yield self.jobs
        yield self.needs
        yield self.metrics
        yield self.why
        yield self.logs
        yield ProblemLine(skin, id="problem")
        yield from self.frame(skin, desk)
        self.list: Lists = self.jobs

    def on_mount(self) -> None:
        self.set_interval(1.0, self.tick)
        self.call_after_refresh(self.forecast)

    # -------------------------------------------------------------------- contents
    def renew(self) -> None:
        """Show the desk's newest session."""
        if not self.is_mounted:
            return
        self._fit_plan()
        self.tell_time()
        self.why.acts = not self.cockpit.read_only
        self.stages.renew()
        self.jobs.renew()
        self.needs.renew()
        self._follow_focus()
        self.tell_about()
        self.tell_footer()

    def _fit_plan(self) -> None:
        """Lay out anew when jobs or stages came: the first plan, a further one."""
        shape = (len(self.desk.session.jobs), len(self.desk.stages))
        if shape != self._shape:
            self._shape = shape
            self._folds_by_height = None
            self.place()
        elif self._rows() != self._rows_placed:
            self.place()

    def tick(self) -> None:
        """A second has passed: ages grow, the log may have."""
        self.pass_time()
        self.logs.tick()

    def forecast(self) -> None:
        """Estimate ends anew when it is time."""
        if self.cockpit.forecast():
            self.renew()

    def under_cursor(self) -> tuple[JobView, ...]:
        """The jobs of the row that the person looks at."""
        return self.list.jobs()

    def tell_about(self) -> None:
        """Let why, metrics and log follow the cursor."""
        jobs = self.under_cursor()
        self.why.show(jobs, self.list.words())
        self.metrics.show([job.name for job in jobs[:MOST_CURVES]])
        self.logs.read(*find_logs(jobs, self.desk.session.now))

    def on_metrics_pane_bare(self, message: MetricsPane.Bare) -> None:
        message.stop()
        self.cockpit.handle.look_at(message.jobs)

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        if message.pane is self.list:
            self.tell_about()
            self.tell_footer()

    def on_pane_focused(self, message: PaneWidget.Focused) -> None:
        before = self.list
        self._follow_focus()
        if self.list is not before:
            self.tell_about()
        super().on_pane_focused(message)

    def _follow_focus(self) -> None:
        """Act on the focused list's row; on the table's where that list is empty."""
        if isinstance(self.focused, Lists):
            self.list = self.focused
        if not self.list.jobs():
            self.list = self.jobs

    # ---------------------------------------------------------------------- places
    def boxes_for(self, size: Size) -> Boxes:
        stages = len(self.desk.stages)
        found = build_boxes(
            size.width, size.height, stages, self.enlarged, self._rows()
        )
        return self.with_problem(found, size)

    def _rows(self) -> int | None:
        """Rows that the table may get: a filter does not move the panes.

        None before there are jobs: how many will come is not known.
        """
        if self.desk.arrangement.fold:
            return len(self.desk.rows)
        return len(self.desk.session.jobs) or None

    def place(self) -> None:
        side = has_side(*self.room)
        self.stages.bare = not side and self.enlarged != "stages"
        self._fold_by_height()
        self._rows_placed = self._rows()
        super().place()

    def fit(self, pane: PaneWidget, box: Box) -> None:
        super().fit(pane, box)
        if pane is self.needs:
            self.needs.with_evidence = box.width > 50

    def _fold_by_height(self) -> None:
        """Low screens fold equal causes when the rows do not fit."""
        low = is_low(self.room.height)
        if low != self._folds_by_height:
            self._folds_by_height = low
            room = self.room.height // 2
            self.desk.fold(on=low and len(self.desk.session.jobs) > room)

    def do_pane(self, name: Pane) -> None:
        """Go to a pane; one without a place of its own opens enlarged."""
        usual = build_boxes(*self.room, len(self.desk.stages))
        if name not in usual:
            self.enlarge(name)
        elif self.enlarged not in (None, name):
            self.enlarge(None)
        self.set_focus(self.query_one(f"#{name}"), scroll_visible=False)

    # --------------------------------------------------------------------- looking
    def do_look_open(self) -> None:
        """Open what is under the cursor."""
        if self.list is self.jobs:
            self._open_row()
            return
        jobs = self.list.jobs()
        if jobs:
            names = frozenset(job.name for job in jobs)
            self.desk.rearrange(only=(outside(self.list.words()), names))
            self.enlarge(None)
            self.set_focus(self.jobs, scroll_visible=False)  # at once: it is told of
            self.renew()

    def _open_row(self) -> None:
        row = self.desk.row(self.jobs.key)
        if row is not None and row.folded:
            jobs = self.desk.jobs_of(row)
            self.desk.unfold(row.key)
            self.renew()
            self.stay_with(jobs)
        elif row is not None:
            self.enlarge("why")
            self.set_focus(self.why, scroll_visible=False)

    def do_look_back(self) -> None:
        """One level back."""
        wanted = self.desk.arrangement
        jobs = self.jobs.jobs()
        if self.focused is self.logs and self.logs.give_up_search():
            return
        if self.desk.range_from:
            self.desk.range_from = ""
        elif self.enlarged is not None:
            self.enlarge(None)
            self.set_focus(self.jobs, scroll_visible=False)
        elif self.desk.refold():
            self.renew()
            self.stay_with(jobs)
        elif wanted.filter is not None:
            self.desk.filter_by("")
        elif wanted.only is not None:
            self.desk.rearrange(only=None)
        elif self.focused is not self.jobs:
            self.set_focus(self.jobs, scroll_visible=False)
        elif self.desk.marks:
            self.say(f"{plural(len(self.desk.marks), 'mark')} cleared")
            self.desk.marks.clear()
        self.renew()

    def do_move(self, how: str) -> None:
        if self.focused is self.stages and how in ("left", "right"):
            self.stages.unfold(on=how == "right")
            return
        if self.focused is self.jobs and how in ("left", "right"):
            self._sort_beside(1 if how == "right" else -1)
            return
        super().do_move(how)

    def _sort_beside(self, step: int) -> None:
        """Sort by the column beside; in another order nothing happens."""
        current, columns = self.desk.arrangement, self.jobs.columns
        if current.order != "column" or not columns:
            return
        column = find_column(columns, current, step)
        wanted = sort_by(self.desk.session, column, replace(current, column=""))
        self.desk.rearrange(
            column=wanted.column,
            reversed=wanted.reversed,
            last_column=wanted.last_column,
            ranks=wanted.ranks,
        )
        self.renew()

    def stay_with(self, jobs: Sequence[JobView]) -> None:
        """Put the cursor on the row of the first of `jobs`, where it has one."""
        places = {job.index for job in jobs[:1]}
        for row in self.desk.rows:
            if places.intersection(row.jobs):
                self.jobs.move_to_key(row.key)
                return

    def reveal(self, job: JobView) -> None:
        """Put the cursor on a job's row, whatever hides it."""
        if job.name not in self.desk.shown():
            self.desk.rearrange(filter=None, only=None)
            self.say("the filter hid it: cleared")
        if self.enlarged not in (None, "jobs"):
            self.enlarge(None)
        self.renew()
        row = next(row for row in self.desk.rows if job.index in row.jobs)
        self.set_focus(self.jobs, scroll_visible=False)
        self.jobs.move_to_key(row.key)

    def filter_by(self, text: str) -> None:
        """Keep the rows that match; what cannot be meant keeps those of before."""
        problem = self.filter_problem(text)
        if problem:
            self.say(f"filter as before: {problem}", "warning")
            return
        self.desk.filter_by(text)
        self.renew()

    def filter_problem(self, text: str) -> str:
        """What is wrong with a filter, in words; empty when nothing is."""
        try:
            wanted = compile_filter(text, self.desk.expression)
            check_names(wanted, self.desk.session.jobs)
        except FilterError as error:
            return outside(str(error))
        return ""

    def do_look_copy(self) -> None:
        """Copy what the focused pane shows under its cursor."""
        self.cockpit.copy(self._copied())

    def _copied(self) -> str:
        if self.focused is self.logs:
            return self.logs.copied()
        if self.focused is self.why:
            return self.why.text()
        if self.focused is self.needs and self.needs.group() is not None:
            return plain(self.needs.row(self.needs.cursor, 200)).strip()
        return "\n".join(outside(job.name, 2000) for job in self.under_cursor())

    def subject(self) -> str:
        return self.list.words()
