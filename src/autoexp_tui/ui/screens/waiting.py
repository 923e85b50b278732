"""All that waits: grouped by reason, the longest wait first; below, every condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.ui.screens.acting import RUN_COMMANDS, ActingScreen
from autoexp_tui.ui.view.layout import Boxes, two_boxes
from autoexp_tui.ui.view.spans import plain
from autoexp_tui.ui.view.waiting import reason_of_group
from autoexp_tui.ui.widgets.waiting_panes import AnswerPane, WaitingPane, lead_of

if TYPE_CHECKING:
    from autoexp_tui.ui.commands import Pane
    from autoexp_tui.ui.desk import Desk
    from autoexp_tui.ui.themes import Skin
    from autoexp_tui.ui.view.session import JobView
    from autoexp_tui.ui.widgets.list_pane import ListPane


class WaitingScreen(ActingScreen):
    """The list above, the conditions of the job under the cursor below."""

    COMMANDS_HERE = cast("Mapping[str, Callable[[Any], object]]", RUN_COMMANDS)
    first_pane: Pane = "waiting"

    def __init__(self, skin: Skin, desk: Desk) -> None:
        super().__init__("waiting")
        self.skin = skin
        self.desk = desk

    def compose(self) -> ComposeResult:
        self.waiting = WaitingPane(self.skin, self.desk, id="waiting")
        self.answer = AnswerPane(self.skin, self.desk, id="conditions")
        yield self.waiting
        yield self.answer
        yield from self.frame(self.skin, self.desk)

    def on_mount(self) -> None:
        super().on_mount()
        self.header.read_only = self.cockpit.read_only
        self.set_interval(1.0, self.tell_time)

    def boxes_for(self, size: Size) -> Boxes:
        return two_boxes(
            size.width, size.height, "waiting", "conditions", self.enlarged
        )

    def renew(self) -> None:
        if not self.is_mounted:
            return
        self.tell_time()
        self.waiting.renew()
        self._tell_about()
        self.tell_footer()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self._tell_about()
        self.tell_footer()

    def _tell_about(self) -> None:
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
        return f"{group.jobs[0].stage}: {reason_of_group(group, self.desk.session)}"

    # --------------------------------------------------------------------- looking
    def do_move(self, how: str) -> None:
        if self.focused is self.waiting and how in ("left", "right"):
            self.waiting.unfold(on=how == "right")
            self._tell_about()
            return
        super().do_move(how)

    def do_look_open(self) -> None:
        """Unfold a group, fold it again; of a job, go to its row in the table."""
        group, job = self.waiting.group(), self.waiting.job()
        if job is not None:
            self.cockpit.to_jobs("jobs")
            self.cockpit.jobs_screen.reveal(job)
        elif group is not None:
            self.waiting.unfold(on=group.key not in self.waiting.open)

    def do_look_back(self) -> None:
        """One level back."""
        if self.enlarged is not None:
            self.enlarge(None)
            self.waiting.focus(scroll_visible=False)
        elif self.focused is self.answer:
            self.waiting.focus(scroll_visible=False)
        elif self.waiting.job() is not None:
            self.waiting.unfold(on=False)
        elif self.desk.marks:
            self.desk.marks.clear()
            self.say("marks cleared")
        else:
            self.cockpit.to_jobs("jobs")

    def do_look_copy(self) -> None:
        """Copy the row under the cursor, or the answer."""
        if self.focused is self.answer:
            self.cockpit.copy(self.answer.text())
        elif self.waiting.keys:
            self.cockpit.copy(plain(self.waiting.row(self.waiting.cursor, 200)).strip())
