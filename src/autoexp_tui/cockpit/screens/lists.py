"""Waiting, Time-line and Grid: a list of jobs, and below it why the one is as it is.

And the pane of a policy, over the whole screen: lines that it makes of the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual.app import ComposeResult

from autoexp_tui.cockpit.screens.base import BoxScreen, JobListScreen
from autoexp_tui.cockpit.spans import Line, line, outside, wrap
from autoexp_tui.cockpit.widgets.grid_pane import GridPane
from autoexp_tui.cockpit.widgets.headings import (
    HeadingsPane,
    TimelinePane,
    WaitingPane,
)
from autoexp_tui.cockpit.widgets.pane import TextPane
from autoexp_tui.cockpit.widgets.why_pane import AnswerPane
from autoexp_tui.model.policy import Policy, find_policy

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane
    from autoexp_tui.cockpit.widgets.list_pane import ListPane


class ListScreen(JobListScreen):
    """A list (its class in `list_class`), and every condition of what it points at."""

    active_list: HeadingsPane | GridPane
    lower_pane: Pane = "conditions"
    home: ClassVar[Pane] = "jobs"
    """The pane to which the last level back leads."""
    list_class: ClassVar[type[HeadingsPane | GridPane]]

    def compose(self) -> ComposeResult:
        self.active_list = self.list_class(self.context, id=self.first_pane)
        self.answer = AnswerPane(self.context, id=self.lower_pane)
        yield self.active_list
        yield self.answer
        yield from self.compose_frame()

    def renew_panes(self) -> None:
        self.active_list.renew()
        self._follow_cursor()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self._follow_cursor()
        self.show_keys()

    def _follow_cursor(self) -> None:
        self.answer.show_answer(self.active_list.find_answer())

    async def action_look_back(self) -> None:
        """One level back: from the answer, within the list, from the marks; at last to
        other panes."""
        if self.enlarged is not None or self.focused is self.answer:
            self.enlarge(None)
            self.focus_pane()
        elif self.active_list.go_back():
            return
        elif self.model.marks and isinstance(self, WaitingScreen):
            self.model.marks.clear()
            self.notify("marks cleared")
        else:
            await self.run_action(f"app.show_pane({self.home!r})")


class HeadingsScreen(ListScreen):
    """The list has headings that open."""

    active_list: HeadingsPane

    async def action_look_open(self) -> None:
        """Open a heading, close it again; of a job, go to its row in the table."""
        rows = self.active_list
        if (job := rows.find_job()) is not None:
            await self.app.run_action(("app", "show_job", (job,)))
        elif rows.keys:
            rows.set_open(on=rows.key not in rows.open)


class WaitingScreen(HeadingsScreen):
    """All that waits: grouped by reason, the longest wait first."""

    first_pane: Pane = "waiting"
    list_class = WaitingPane


class TimelineScreen(HeadingsScreen):
    """The campaign over time: stages and jobs as strips."""

    first_pane: Pane = "timeline"
    list_class = TimelinePane


class GridScreen(ListScreen):
    """Swept values by stages; worked out once a plan, of many jobs in a thread."""

    first_pane: Pane = "grid"
    list_class = GridPane
    active_list: GridPane
    home = "stages"

    async def action_look_open(self) -> None:
        """To the cell's job in the table; of several, the table of them alone."""
        jobs = self.find_jobs()
        if len(jobs) == 1:
            await self.app.run_action(("app", "show_job", jobs))
        elif jobs:
            self.narrow_to(jobs)
            await self.run_action("app.show_pane('jobs')")
        elif self.active_list.find_cell() is not None:
            self.focus_pane(self.answer)


class PolicyPane(TextPane):
    """What a policy says of its part of the session."""

    name_in_table = "why"
    policy: Policy

    def build_lines(self, cells: int) -> Sequence[Line]:
        lines = self.policy.list_lines(self.model.session.snapshot)
        return [part for text in lines for part in wrap(line(outside(text)), cells)]


class PolicyScreen(BoxScreen):
    """One pane, as large as the terminal."""

    first_pane: Pane = cast("Pane", "policy")

    def __init__(self, context: CockpitContext, name: str) -> None:
        super().__init__(context)
        self.pane = PolicyPane(context, id="policy")
        self.pane.policy = find_policy(name) or Policy()

    def compose(self) -> ComposeResult:
        yield self.pane
        yield from self.compose_frame()

    def renew_panes(self) -> None:
        self.pane.renew()

    async def action_look_back(self) -> None:
        """Back to the jobs."""
        await self.run_action("app.show_pane('jobs')")


SCREENS: Final[Mapping[str, type[BoxScreen]]] = MappingProxyType(
    {"waiting": WaitingScreen, "timeline": TimelineScreen, "grid": GridScreen}
)
"""By mode."""
