"""All that waits: grouped by reason, the longest wait first; below, every condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.lists import describe_wait_group
from autoexp_tui.cockpit.screens.condition_list_screen import AnsweringScreen
from autoexp_tui.cockpit.widgets.waiting_panes import WaitingPane, lead_of

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Pane
    from autoexp_tui.cockpit.state.session import JobView


class WaitingScreen(AnsweringScreen):
    """The list above, the conditions of the job under the cursor below."""

    first_pane: Pane = "waiting"

    def make_list(self) -> WaitingPane:
        self.waiting = WaitingPane(self.skin, self.desk, id=self.first_pane)
        return self.waiting

    def answer_cursor(self) -> None:
        group, job = self.waiting.group(), self.waiting.job()
        if group is not None and job is None:
            self.answer.show(group.jobs[0], lead_of(group, self.waiting))
        else:
            self.answer.show(job)

    # ---------------------------------------------------------------------- acting
    def under_cursor(self) -> tuple[JobView, ...]:
        return self.waiting.jobs()

    def subject(self) -> str:
        group, job = self.waiting.group(), self.waiting.job()
        if group is None or job is not None or len(group.jobs) == 1:
            return ""
        return f"{group.jobs[0].stage}: {describe_wait_group(group, self.desk.session)}"

    # --------------------------------------------------------------------- looking
    def do_move(self, how: str) -> None:
        if self.focused is self.waiting and how in ("left", "right"):
            self.waiting.unfold(on=how == "right")
            self.answer_cursor()
            return
        super().do_move(how)

    def do_look_open(self) -> None:
        """Unfold a group, fold it again; of a job, go to its row in the table."""
        group, job = self.waiting.group(), self.waiting.job()
        if job is not None:
            self.to_job(job)
        elif group is not None:
            self.waiting.unfold(on=group.key not in self.waiting.open)

    def do_look_back(self) -> None:
        """One level back."""
        if self.left_answer():
            return
        if self.waiting.job() is not None:
            self.waiting.unfold(on=False)
        elif self.desk.marks:
            self.desk.marks.clear()
            self.say("marks cleared")
        else:
            self.cockpit.to_jobs("jobs")
