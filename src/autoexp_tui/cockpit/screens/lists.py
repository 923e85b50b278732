"""Waiting, Time-line and Grid: a list of jobs, and below it why the one is as it is.

And the pane of a policy, over the whole screen: lines that it makes of the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.screens.base import BoxScreen, JobListScreen
from autoexp_tui.cockpit.spans import Line, line, outside, wrap
from autoexp_tui.cockpit.widgets.grid_pane import GridPane
from autoexp_tui.cockpit.widgets.headings import HeadingsPane, TimelinePane, WaitingPane
from autoexp_tui.cockpit.widgets.pane import TextPane
from autoexp_tui.cockpit.widgets.why_pane import AnswerPane
from autoexp_tui.model.policy import Policy, find_policy

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane
    from autoexp_tui.cockpit.widgets.results_pane import ResultsPane


class ListScreen(JobListScreen):
    """A list of a kind, and every condition of what its cursor points at."""

    active_list: HeadingsPane | GridPane | ResultsPane
    lower_pane: Pane = "conditions"

    def __init__(
        self, context: CockpitContext, kind: type[HeadingsPane | GridPane | ResultsPane]
    ) -> None:
        super().__init__(context)
        self.first_pane = kind.name_in_table
        self.active_list = kind(context, id=self.first_pane)
        self.answer = AnswerPane(context, id=self.lower_pane)
        self.content = (self.active_list, self.answer)
        self.way_back = f"app.show_pane({kind.home!r})"

    def follow_cursor(self) -> None:
        self.answer.show(self.active_list.find_answer())

    async def action_look_open(self) -> None:
        """Open the row within the list, or go to its job in the table; of several
        jobs, to the table of them alone."""
        jobs = self.active_list.open_row()
        if len(jobs) == 1:
            await self.app.run_action(("app", "show_job", jobs))
        elif jobs:
            self.narrow_to(jobs)
            await self.run_action("app.show_pane('jobs')")

    def go_back(self) -> bool:
        return self.active_list.go_back()


class PolicyPane(TextPane):
    """What a policy says of its part of the session."""

    name_in_table = "policy"
    policy: Policy

    def build_lines(self, cells: int) -> Sequence[Line]:
        lines = self.policy.list_lines(self.model.session.snapshot)
        return [part for text in lines for part in wrap(line(outside(text)), cells)]


class PolicyScreen(BoxScreen):
    """One pane, as large as the terminal."""

    first_pane: Pane = "policy"

    def __init__(self, context: CockpitContext, name: str) -> None:
        super().__init__(context)
        pane = PolicyPane(context, id="policy")
        pane.policy = find_policy(name) or Policy()
        pane.heading = outside(pane.policy.title or name)
        self.content = (pane,)

    def find_useful(self) -> Collection[str]:
        is_asked = self.model.session.asks and not self.context.is_read_only
        return ("run.answer",) if is_asked else ()

    async def act(self, verb: str) -> None:
        """Answer what asks: the one verb that it has."""
        await self.run_action(f"app.{verb}")


LISTS: Final[Mapping[str, type[HeadingsPane | GridPane]]] = {
    "waiting": WaitingPane,
    "timeline": TimelinePane,
    "grid": GridPane,
}
"""By mode."""
