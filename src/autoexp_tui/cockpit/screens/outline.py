"""A screen of a policy's own: a list, what comes of it, and all of one row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.dialogs.reader import Page, ReaderScreen
from autoexp_tui.cockpit.render.layout import Boxes, build_outline_boxes
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.widgets.pane import DetailPane, ListPane, TextPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.questions import Question

T = TypeVar("T")
MOST_READ = 1 << 17
"""Bytes of a patch, or of the end of a transcript, that are shown."""


class OutlineScreen(BoxScreen):
    """The list, below it what comes of it, and all of the row under the cursor."""

    pane: ListPane
    below: TextPane
    detail: DetailPane
    explained: ClassVar[Mapping[str, str]] = {}
    """Why a verb has nothing to do."""

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self.below
        yield self.detail
        yield from self.compose_frame()

    def find_boxes(self, size: Size) -> Boxes:
        detail, below = str(self.detail.id), str(self.below.id)
        whole = detail if self.enlarged and self.focused is self.detail else None
        names = (str(self.pane.id), below, detail)
        boxes = build_outline_boxes(*size, names, whole or self.enlarged)
        self.below.bare = below in boxes and boxes[below].height == 1
        return boxes

    def renew_panes(self) -> None:
        self.pane.renew()
        self.below.renew()
        self.follow_cursor()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.follow_cursor()
        self.show_keys()

    def follow_cursor(self) -> None:
        """Show what is known of the row under the cursor."""
        self.detail.show(self.pane.key)

    async def fetch(self, work: Callable[[], T]) -> T:
        """What is read of files, behind the screen."""
        return await self.context.background.fetch(f"{self.first_pane} {work}", work)

    async def show_pages(self, title: str, pages: list[Page], turn: str = "n") -> None:
        """Open a reader; of one page the title says which."""
        title += f", {pages[0].title}" if len(pages) == 1 and pages[0].title else ""
        reader = ReaderScreen(self.context, title, pages, turn=turn)
        await self.app.push_screen(reader)

    async def act(self, verb: str) -> None:
        """Ask about the row under the cursor, then order it."""
        if verb in ("pause", "undo"):
            await self.run_action(f"app.order({verb!r})")
        elif verb == "approve" and (asks := self.list_asks()):
            await self.app.run_action(("app", "answer", (asks,)))
        elif question := self.find_question(verb):
            await self.app.run_action(("app", "ask", (question,)))
        else:
            self.notify(self.explained[verb], severity="warning")

    def list_asks(self) -> Collection[str]:
        """The questions of the policy that A answers here."""
        raise NotImplementedError

    def find_question(self, verb: str) -> Question | None:
        """None: there is nothing here that the verb could do."""
        raise NotImplementedError

    # Looking

    def action_look_larger(self) -> None:
        self.enlarge(self.first_pane)

    async def action_look_open(self) -> None:
        """To the row's job in the table."""
        if jobs := self.pane.find_jobs():
            await self.app.run_action(("app", "show_job", jobs))
        else:
            self.notify("there is no job of it")

    async def action_look_back(self) -> None:
        if self.enlarged is not None:
            self.enlarge(None)
        elif self.focused is not self.pane:
            self.focus_pane()
        else:
            await self.run_action("app.show_pane('jobs')")

    async def action_row_log(self) -> None:
        """The log of the row's job."""
        if jobs := self.pane.find_jobs():
            await self.app.run_action(("app", "show_job", jobs))
        await self.run_action("app.show_pane('log')")
