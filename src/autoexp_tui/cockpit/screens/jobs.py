"""Jobs mode: stages, jobs, why, metrics, what needs you, the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.logfile import find_logs
from autoexp_tui.cockpit.render.layout import (
    Box,
    Boxes,
    build_boxes,
    has_side,
    is_low,
    place_main,
)
from autoexp_tui.cockpit.screens.base import JobListScreen, LogScreen, Request
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.reasons import CauseGroup, describe_cause, find_alike
from autoexp_tui.cockpit.state.rows import (
    FilterError,
    check_names,
    compile_filter,
    is_unfinished,
)
from autoexp_tui.cockpit.state.session import JobView, Scope, sort_jobs
from autoexp_tui.cockpit.widgets.headings import NeedsPane, StagesPane
from autoexp_tui.cockpit.widgets.job_panes import JobsPane
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.cockpit.widgets.metrics_pane import MOST_RUNS, MetricsPane
from autoexp_tui.cockpit.widgets.pane import ListPane
from autoexp_tui.cockpit.widgets.why_pane import WhyPane
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane

FIRST_ROWS = 6
"""Of the table, whose curves are shown where none is marked."""
LIVE_FILTER_UP_TO = 2000
"""Jobs up to which a filter works while it is typed."""


class JobsScreen(LogScreen, JobListScreen):
    """The main screen."""

    _folded_for: tuple[object, ...] = ()
    """Whether the screen was low when that was decided, and for how many jobs and
    stages."""
    _came_from = "jobs"
    """The mode in which the curves were asked for."""

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        self.stages = StagesPane(context, id="stages")
        self.jobs = self.active_list = JobsPane(context, id="jobs")
        self.needs = NeedsPane(context, id="needs")
        self.metrics = MetricsPane(context, id="metrics")
        self.why = WhyPane(context, id="why")
        self.logs = LogPane(context, id="log")
        lists = (self.stages, self.jobs, self.needs)
        self.content = (*lists, self.metrics, self.why, self.logs)

    def renew_panes(self) -> None:
        self.layout_panes()
        for pane in (self.stages, self.jobs, self.needs):
            pane.renew()
        self._follow_focus()
        self.follow_cursor()

    def find_warnings(self) -> CauseGroup | None:
        """The cause whose warnings `X` says were seen; None: it skips jobs."""
        group = self.needs.find_group() if self.active_list is self.needs else None
        shows = group is not None and group.acknowledgeable and not self.model.marks
        return group if shows else None

    def _find_asks(self) -> tuple[str, ...]:
        """The questions under the cursor that are no job's."""
        group = self.needs.find_group() if self.active_list is self.needs else None
        return tuple(group.asks) if group is not None else ()

    def find_scope(self) -> Scope:
        scope = super().find_scope()
        return scope if scope.by_marks else replace(scope, asks=self._find_asks())

    def follow_cursor(self) -> None:
        """Let why, metrics and log follow the cursor."""
        jobs = self.find_jobs()
        self.why.show(jobs, self.active_list.describe_row(), self._find_asks())
        self.metrics.show([job.name for job in jobs[:MOST_RUNS]])
        self.logs.read(*find_logs(jobs, self.model.session.now))

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        self.metrics.chosen = ()
        if message.pane is self.active_list:
            super().on_list_pane_cursor_moved(message)

    def on_descendant_focus(self) -> None:
        before = self.active_list
        self._follow_focus()
        if self.active_list is not before:
            self.follow_cursor()
        super().on_descendant_focus()

    def _follow_focus(self) -> None:
        """Act on the focused list's row; on the table's where that list is empty."""
        if isinstance(self.focused, ListPane):
            self.active_list = self.focused
        if not self.active_list.keys:
            self.active_list = self.jobs

    def place_panes(self, middle: Box) -> Boxes:
        jobs, folded = len(self.model.session.jobs), self.model.arrangement.fold
        rows = len(self.model.rows) if folded else jobs or None
        return place_main(middle, len(self.model.stages), rows)

    def layout_panes(self) -> None:
        self.stages.bare = not has_side(*self.room) and self.enlarged != "stages"
        jobs, low = len(self.model.session.jobs), is_low(self.room.height)
        if self._folded_for != (low, jobs, len(self.model.stages)):
            # Low screens fold equal causes when the rows do not fit.
            self._folded_for = (low, jobs, len(self.model.stages))
            self.model.fold(on=low and jobs > self.room.height // 2)
        super().layout_panes()

    def show_pane(self, name: Pane) -> None:
        """Go to a pane; one without a place of its own opens enlarged."""
        usual = build_boxes(*self.room, self.place_panes)
        if name not in usual:
            self.enlarge(name)
        elif self.enlarged not in (None, name):
            self.enlarge(None)
        self.focus_pane(self.query_one(f"#{name}"))

    def stay_with(self, jobs: Sequence[JobView]) -> None:
        """Put the cursor on the row of the first of `jobs`, where it has one."""
        places = {job.index for job in jobs[:1]}
        for row in self.model.rows:
            if places.intersection(row.jobs):
                self.jobs.move_to_key(row.key)
                return

    def show_job(self, job: JobView) -> None:
        if job.name not in self.model.list_shown():
            self.model.update_arrangement(filter=None, only=None)
            self.notify("the filter hid it: cleared")
        if self.enlarged not in (None, "jobs"):
            self.enlarge(None)
        self.renew()
        self.focus_pane(self.jobs)
        self.stay_with((job,))

    def show_need(self) -> None:
        jobs = self.jobs.find_jobs()
        asks = self._find_asks()
        after = self.needs.key if asks else jobs[-1].name if jobs else ""
        target = self.model.next_need(after)
        if target is None:
            self.notify(self.model.describe_opening() or "nothing needs you")
        elif isinstance(target, CauseGroup):
            self.show_pane("needs")
            self.needs.move_to_key(target.key)
        else:
            self.show_job(target)

    def action_rows_filter(self) -> None:
        """Ask for a filter; given up, or where none can be meant, the old one stays."""
        wanted = self.model.arrangement.filter
        before = wanted.text if wanted is not None else ""
        is_small = len(self.model.session.jobs) <= LIVE_FILTER_UP_TO

        def preview(text: str) -> None:
            if is_small and not is_unfinished(text):
                if problem := self.filter_by(text):
                    self.filter_by(before)
                self.show_problem(problem)

        request = Request(
            label="filter",
            hint="words, lr>1e-3, stage:cooldown",
            text=before,
            answer=self.filter_by,
            preview=preview,
            give_up=lambda: self.filter_by(before),
        )
        self.ask_line(request)

    def filter_by(self, text: str) -> str:
        """Keep the rows that match; what is wrong with the text, which changes none."""
        try:
            wanted = compile_filter(text)
            check_names(wanted, self.model.session.jobs)
        except FilterError as error:
            return outside(error)
        self.model.update_arrangement(filter=wanted)
        self.renew()
        return ""

    def action_rows_order(self) -> None:
        order = "plan" if self.model.arrangement.order == "needs" else "needs"
        self.model.update_arrangement(order=order, column=None, ranks={})
        self.renew()

    def action_rows_sort(self) -> None:
        """Sort by a column; then the other way round; then plan order again."""
        self.jobs.sort()
        self.renew()

    def action_rows_columns(self) -> None:
        """Let the person choose the columns of the table."""
        from autoexp_tui.cockpit.dialogs.columns import choose_columns

        async def choose() -> None:
            if await choose_columns(self.context, self.app):
                self.renew()

        self.run_worker(choose())

    def action_rows_curves(self) -> None:
        """Curves of the marked, of a heading's jobs, or of the table's first rows."""
        jobs = self.find_jobs()
        if self.active_list is self.jobs:
            rows = (job for row in self.model.rows for job in self.model.find_jobs(row))
            with_curves = (job for job in rows if job.live.curves)
            jobs = tuple(islice(with_curves, FIRST_ROWS)) or jobs
        self.show_curves(jobs)

    def show_curves(
        self,
        jobs: Sequence[JobView],
        metric: str = "",
        *,
        joins: bool = False,
        mode: str = "jobs",
    ) -> None:
        """To the curves of the marked jobs, else of these, until the cursor moves;
        `joins`: of these over seeds; `mode`: where esc leads back to."""
        self.metrics.chosen = tuple((job.session, job.name) for job in jobs)
        self.metrics.metric, self.metrics.joins = metric or self.metrics.metric, joins
        self._came_from = mode
        self.show_pane("metrics")
        self.metrics.renew()

    def action_rows_group(self) -> None:
        """Fold equal causes, or show every job; the cursor stays with its job."""
        jobs = self.jobs.find_jobs()
        self.model.fold(on=not self.model.arrangement.fold)
        self.renew()
        self.stay_with(jobs)

    def action_rows_move(self, how: str) -> None:
        """To the job after, or before, the pane kept."""
        self.active_list, self.metrics.chosen = self.jobs, ()
        self.jobs.move(how)
        self.follow_cursor()

    def action_rows_mark(self) -> None:
        marks, names = self.model.marks, {job.name for job in self.jobs.find_jobs()}
        (marks.difference_update if names <= marks else marks.update)(names)
        self.jobs.move("down")
        self.renew()

    def action_rows_range(self) -> None:
        model, keys = self.model, self.jobs.keys
        first, last = model.range_from, self.jobs.key
        model.range_from = "" if first else last
        if first:
            if first in keys and last in keys:
                start, end = sorted((keys.index(first), keys.index(last)))
                for row in model.rows[start : end + 1]:
                    model.marks.update(job.name for job in model.find_jobs(row))
            self.notify(f"{len(model.marks)} marked")
        self.renew()

    def action_rows_alike(self) -> None:
        """Mark the jobs of a heading, or all that have the same cause as this one."""
        jobs: Sequence[JobView] = self.find_jobs()
        told = "marked"
        if len(jobs) == 1:
            told = f"alike marked: {describe_cause(jobs[0])}"
            jobs = find_alike(jobs[0], self.model.session)
        if jobs:
            self.model.marks.update(job.name for job in jobs)
            self.notify(f"{len(jobs)} {told}")
        self.renew()

    async def action_rows_diff(self) -> None:
        """Compare two jobs: the marked ones, or the marked one with this."""
        names = set(self.model.marks)
        if len(names) < 2:
            names |= {job.name for job in self.find_jobs()}
        if len(names) != 2:
            marked = f"{len(names)} are marked: " if len(names) > 2 else ""
            text = f"{marked}mark two jobs with space, then d"
            self.notify(text, severity="warning")
            return
        jobs = sort_jobs(self.model.session.list_jobs(names))
        await self.app.run_action(("app", "show_details", (jobs,)))

    def action_look_open(self) -> None:
        jobs = self.find_jobs()
        if self.active_list is not self.jobs:
            if jobs:
                self.narrow_to(jobs)
                self.enlarge(None)
                self.focus_pane(self.jobs)  # at once: it is told of
                self.renew()
            elif self._find_asks():
                self._enlarge_why()
            return
        row = self.model.find_row(self.jobs.key)
        if row is not None and row.folded:
            unfolded = self.model.arrangement.unfolded | {row.key}
            self.model.update_arrangement(unfolded=unfolded)
            self.renew()
            self.stay_with(jobs)
        elif row is not None:
            self._enlarge_why()

    def _enlarge_why(self) -> None:
        self.enlarge("why")
        self.focus_pane(self.why)

    async def action_look_back(self) -> None:
        wanted = self.model.arrangement
        jobs = self.jobs.find_jobs()
        if self.focused is self.logs and self.logs.has_stopped_search():
            return
        if self.focused is self.metrics and self.metrics.go_back():
            return
        mode, self._came_from = self._came_from, "jobs"
        if self.focused is self.metrics and self.metrics.chosen and mode != "jobs":
            self.metrics.chosen = ()
            self.enlarge(None)
            await self.run_action(f"app.show_mode({mode!r})")
        elif self.model.range_from:
            self.model.range_from = ""
        elif self.enlarged is not None:
            self.enlarge(None)
            self.focus_pane(self.jobs)
        elif wanted.unfolded:
            self.model.update_arrangement(unfolded=frozenset())
            self.renew()
            self.stay_with(jobs)
        elif wanted.filter is not None:
            self.model.update_arrangement(filter=None)
        elif wanted.only is not None:
            self.model.update_arrangement(only=None)
        elif self.focused is not self.jobs:
            self.focus_pane(self.jobs)
        elif self.model.marks:
            number = plural(len(self.model.marks), "mark")
            back = self.context.keymap.key("look.back")
            self.notify(f"{number} cleared; {back} again brings them back")
            self.model.dropped = frozenset(self.model.marks)
            self.model.marks.clear()
        elif self.model.dropped:
            self.model.marks.update(self.model.dropped)
            self.model.dropped = frozenset()
        self.renew()
