"""A list whose rows are jobs; below it, every condition of the one pointed at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.render.layout import Boxes, build_two_boxes
from autoexp_tui.cockpit.screens.job_list_screen import RUN_COMMANDS, ActingScreen
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.cockpit.widgets.waiting_panes import AnswerPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin

ANSWER: Final = "conditions"
"""The pane that every such screen has below."""


class AnsweringScreen(ActingScreen):
    """Two panes: a list of the screen's own, and every condition of what it points at.

    A screen makes the list (`make_list`, named `first_pane`) and fills the answer
    (`answer_cursor`).
    """

    COMMANDS_HERE: ClassVar[Mapping[str, Callable[[Any], object]]] = cast(
        "Mapping[str, Callable[[Any], object]]", RUN_COMMANDS
    )
    list_pane: ListPane

    def __init__(self, skin: Skin, desk: Desk) -> None:
        super().__init__(self.first_pane)
        self.skin = skin
        self.desk = desk

    def make_list(self) -> ListPane:
        """The pane above, with the id `first_pane`."""
        raise NotImplementedError

    def answer_cursor(self) -> None:
        """Tell below about what is under the cursor."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self.list_pane = self.make_list()
        self.answer = AnswerPane(self.skin, self.desk, id=ANSWER)
        yield self.list_pane
        yield self.answer
        yield from self.frame(self.skin, self.desk)

    def on_mount(self) -> None:
        self.set_interval(1.0, self.pass_time)

    def boxes_for(self, size: Size) -> Boxes:
        return build_two_boxes(
            size.width, size.height, self.first_pane, ANSWER, self.enlarged
        )

    def renew(self) -> None:
        if not self.is_mounted:
            return
        self.tell_time()
        self.answer.acts = not self.cockpit.read_only
        self.list_pane.renew()
        self.answer_cursor()
        self.tell_footer()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.answer_cursor()
        self.tell_footer()

    def do_look_copy(self) -> None:
        """Copy the row under the cursor, or the answer."""
        if self.focused is self.answer:
            self.cockpit.copy(self.answer.text())
        elif self.list_pane.keys:
            self.cockpit.copy(
                plain(self.list_pane.row(self.list_pane.cursor, 200)).strip()
            )

    def left_answer(self) -> bool:
        """Go from the enlarged pane, or from the answer, back to the list."""
        if self.enlarged is not None:
            self.enlarge(None)
        elif self.focused is not self.answer:
            return False
        self.to_list()
        return True

    def to_job(self, job: JobView) -> None:
        """Go to a job's row in the table."""
        self.cockpit.to_jobs("jobs")
        self.cockpit.jobs_screen.reveal(job)
