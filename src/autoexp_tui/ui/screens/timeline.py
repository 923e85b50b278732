"""The campaign over time: stages and jobs above, why below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.ui.screens.acting import RUN_COMMANDS, ActingScreen
from autoexp_tui.ui.view.layout import Boxes, two_boxes
from autoexp_tui.ui.view.spans import plain
from autoexp_tui.ui.widgets.timeline_pane import TimelinePane
from autoexp_tui.ui.widgets.waiting_panes import AnswerPane

if TYPE_CHECKING:
    from autoexp_tui.ui.commands import Pane
    from autoexp_tui.ui.desk import Desk
    from autoexp_tui.ui.themes import Skin
    from autoexp_tui.ui.view.session import JobView
    from autoexp_tui.ui.widgets.list_pane import ListPane

STEP: Final = 0.125
"""Of the window's length: how far it is moved at a time."""
CLOSER: Final = 0.5


class TimelineScreen(ActingScreen):
    """The strips above, the job under the cursor below."""

    COMMANDS_HERE = cast("Mapping[str, Callable[[Any], object]]", RUN_COMMANDS)
    first_pane: Pane = "timeline"

    def __init__(self, skin: Skin, desk: Desk) -> None:
        super().__init__("timeline")
        self.skin = skin
        self.desk = desk

    def compose(self) -> ComposeResult:
        self.timeline = TimelinePane(self.skin, self.desk, id="timeline")
        self.answer = AnswerPane(self.skin, self.desk, id="conditions")
        yield self.timeline
        yield self.answer
        yield from self.frame(self.skin, self.desk)

    def on_mount(self) -> None:
        super().on_mount()
        self.header.read_only = self.cockpit.read_only
        self.set_interval(1.0, self.tell_time)

    def boxes_for(self, size: Size) -> Boxes:
        return two_boxes(
            size.width, size.height, "timeline", "conditions", self.enlarged
        )

    def renew(self) -> None:
        if not self.is_mounted:
            return
        self.tell_time()
        self.timeline.renew()
        self.answer.show(self.timeline.job(), stage=self.timeline.stage())
        self.tell_footer()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.answer.show(self.timeline.job(), stage=self.timeline.stage())
        self.tell_footer()

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
            self.cockpit.to_jobs("jobs")
            self.cockpit.jobs_screen.reveal(job)
        elif stage is not None:
            self.timeline.unfold(on=stage.name not in self.timeline.open)

    def do_look_back(self) -> None:
        """One level back."""
        if self.enlarged is not None:
            self.enlarge(None)
            self.to_list()
        elif self.focused is self.answer:
            self.to_list()
        elif self.timeline.job() is not None:
            self.timeline.unfold(on=False)
        elif self.timeline.window is not None:
            self.timeline.fit_all()
        else:
            self.cockpit.to_jobs("jobs")

    def do_look_copy(self) -> None:
        """Copy the row under the cursor, or the answer."""
        if self.focused is self.answer:
            self.cockpit.copy(self.answer.text())
        elif self.timeline.keys:
            row = self.timeline.row(self.timeline.cursor, 0)
            self.cockpit.copy(plain(row).rstrip())
