"""What waits, a line a reason; unfolded, a line a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.render.lists import (
    describe_wait_group,
    render_wait_group,
    render_waiting_job,
)
from autoexp_tui.cockpit.spans import Line, Span
from autoexp_tui.cockpit.state.waiting import WaitGroup, Waits
from autoexp_tui.cockpit.widgets.list_pane import GroupsPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.themes import Skin


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
