"""The campaign over time: stages and jobs above, why below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.screens.condition_list_screen import AnsweringScreen
from autoexp_tui.cockpit.widgets.timeline_pane import TimelinePane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Pane
    from autoexp_tui.cockpit.state.session import JobView

STEP: Final = 0.125
"""Of the window's length: how far it is moved at a time."""
CLOSER: Final = 0.5


class TimelineScreen(AnsweringScreen):
    """The strips above, the job under the cursor below."""

    first_pane: Pane = "timeline"

    def make_list(self) -> TimelinePane:
        self.timeline = TimelinePane(self.skin, self.desk, id=self.first_pane)
        return self.timeline

    def answer_cursor(self) -> None:
        self.answer.show(self.timeline.job(), stage=self.timeline.stage())

    # ---------------------------------------------------------------------- acting
    def under_cursor(self) -> tuple[JobView, ...]:
        return self.timeline.jobs()

    def subject(self) -> str:
        stage = self.timeline.stage()
        return f"stage {stage.name}" if stage and self.timeline.job() is None else ""

    # --------------------------------------------------------------------- looking
    def do_move(self, how: str) -> None:
        if self.focused is self.timeline and how in ("left", "right"):
            self.timeline.pan(STEP if how == "right" else -STEP)
            return
        super().do_move(how)

    def do_timeline_closer(self) -> None:
        """Half as long a window."""
        self.timeline.zoom(CLOSER)

    def do_timeline_wider(self) -> None:
        """Twice as long a window."""
        self.timeline.zoom(1 / CLOSER)

    def do_timeline_whole(self) -> None:
        """Everything, up to the present and the expected end."""
        self.timeline.fit_all()

    def do_look_open(self) -> None:
        """Unfold a stage, fold it again; of a job, go to its row in the table."""
        job, stage = self.timeline.job(), self.timeline.stage()
        if job is not None:
            self.to_job(job)
        elif stage is not None:
            self.timeline.unfold(on=stage.name not in self.timeline.open)

    def do_look_back(self) -> None:
        """One level back."""
        if self.left_answer():
            return
        if self.timeline.job() is not None:
            self.timeline.unfold(on=False)
        elif self.timeline.window is not None:
            self.timeline.fit_all()
        else:
            self.cockpit.to_jobs("jobs")
