"""A screen of a policy's own: a list, what comes of it, and all of one row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from textual.geometry import Size

from autoexp_tui.cockpit.dialogs.reader import Page, ReaderScreen, render_diff
from autoexp_tui.cockpit.logfile import read_clean
from autoexp_tui.cockpit.render.layout import Box, Boxes, build_boxes, place_outline
from autoexp_tui.cockpit.render.outline import Outline
from autoexp_tui.cockpit.render.questions import Question
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.widgets.pane import ListPane, TextPane
from autoexp_tui.model.commands import Command
from autoexp_tui.model.policy import Policy

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.state import Ask

T = TypeVar("T")
Order: TypeAlias = Question | tuple[Command, str]
"""What is asked before a command; or one that needs no question, and what is told."""
_MOST_READ = 1 << 17
"""Bytes of a patch, or of the end of a transcript, that are shown."""


class OutlineScreen(BoxScreen):
    """The list, below it what comes of it, and all of the row under the cursor."""

    policy: ClassVar[type[Policy]]
    number: ClassVar[str]
    heading: ClassVar[str]
    nothing: ClassVar[str] = ""
    """What stands where there are no rows."""
    lower: ClassVar[tuple[str, str]]
    """The heading of what comes of it, and what stands in it."""
    explained: ClassVar[Mapping[str, str]] = {}
    """Why a verb has nothing to do."""
    _read: object = None
    """The row and the thing of which files were read last."""

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        self.pane = OutlinePane(context, id=self.first_pane)
        self.detail = DetailPane(context, id="detail")
        self.below = LowerPane(context, id="below")
        for pane in (self.pane, self.detail, self.below):
            pane.name_in_table = self.first_pane
        self.pane.number, self.pane.heading = self.number, self.heading
        self.pane.nothing = self.nothing
        self.below.heading, self.below.about = self.lower
        self.content = (self.pane, self.below, self.detail)

    def find_boxes(self, size: Size) -> Boxes:
        is_detail = self.enlarged and self.focused is self.detail
        whole = self.detail.id if is_detail else self.enlarged
        boxes = build_boxes(*size, self.place_panes, whole)
        self.below.bare = "below" in boxes and boxes["below"].height == 1
        return boxes

    def place_panes(self, middle: Box) -> Boxes:
        return place_outline(middle, self.first_pane, "below", "detail")

    def find_outline(self) -> Outline | None:
        """Of the newest snapshot; None: there is nothing yet."""
        raise NotImplementedError

    def renew_panes(self) -> None:
        outline = self.find_outline()
        self.pane.outline = self.below.outline = self.detail.outline = outline
        self.below.renew()
        super().renew_panes()

    def follow_cursor(self) -> None:
        """Show what is known of the row under the cursor, soon with what files say."""
        key = self.pane.key
        self.detail.show(key)
        about, read = self.find_reader()

        async def take_records() -> None:
            self.detail.take_records(key, await self.fetch(read))

        if (key, about) != self._read and about is not None:
            self.run_worker(take_records())
        self._read = (key, about)

    def find_reader(self) -> tuple[object, Callable[[], object]]:
        """What of the row has files to read, and how; None: nothing has."""
        raise NotImplementedError

    # Acting

    def list_asks(self) -> Mapping[str, Ask]:
        """The questions of the policy that stand open."""
        return self.model.session.find_asks(self.policy.asks)

    def list_orders(self) -> Mapping[str, Callable[[], Order]]:
        """By the verbs that have something to do now."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether the policy has ended, or there is nothing of it yet."""
        part = self.model.session.snapshot.parts.get(self.first_pane)
        return self.pane.outline is None or getattr(part, "stopped", None) is not None

    def find_useful(self) -> Collection[str]:
        """What could be done now, and with the row under the cursor."""
        if self.pane.outline is None or self.context.is_read_only:
            return ()
        verbs = {*self.list_orders(), *["approve"] * bool(self.list_asks())}
        useful = {f"{self.first_pane}.{verb}" for verb in verbs}
        return useful if self.is_over else {*useful, "run.pause"}

    async def act(self, verb: str) -> None:
        """Ask about the row under the cursor, then order it."""
        if verb in ("pause", "undo"):
            await self.run_action(f"app.order({verb!r})")
        elif verb == "approve" and (asks := self.list_asks()):
            await self.app.run_action(("app", "answer", (tuple(asks),)))
        elif self.pane.outline and (make := self.list_orders().get(verb)):
            order = make()
            if isinstance(order, Question):
                await self.app.run_action(("app", "ask", (order,)))
            else:
                await self.app.run_action(("app", "send", order))
        else:
            self.notify(self.explained[verb], severity="warning")

    # Looking

    async def fetch(self, work: Callable[[], T]) -> T:
        """What is read of files, behind the screen."""
        return await self.context.background.fetch(f"{self.first_pane} {work}", work)

    async def show_files(
        self, title: str, files: Mapping[str, str], turn: str = "n"
    ) -> None:
        """Open a reader of files by their names; of one the title says which."""
        pages = await self.fetch(
            lambda: [Page(outside(name), read_lines(files[name])) for name in files]
        )
        title += f", {pages[0].title}" if len(pages) == 1 and pages[0].title else ""
        reader = ReaderScreen(self.context, title, pages, turn=turn)
        await self.app.push_screen(reader)

    def action_look_larger(self) -> None:
        self.enlarge(self.first_pane)

    async def action_look_open(self) -> None:
        """To the row's job in the table."""
        if jobs := self.pane.find_jobs():
            await self.app.run_action(("app", "show_job", jobs))
        else:
            self.notify("there is no job of it")

    async def action_row_log(self) -> None:
        """The log of the row's job."""
        if jobs := self.pane.find_jobs():
            await self.app.run_action(("app", "show_job", jobs))
        await self.run_action("app.show_pane('log')")


def read_lines(path: str) -> tuple[Line, ...]:
    """A patch, all of it seen, or the end of another file."""
    is_patch = path.endswith(".patch")
    none = "it left no change" if is_patch else "it has left nothing yet"
    text = read_clean(
        path, _MOST_READ, end=not is_patch, missing=none, escapes=is_patch
    )
    rows = [outside(row, 2000) for row in (text.rstrip() or f"({none})").split("\n")]
    return tuple(render_diff(rows) if is_patch else map(line, rows))


class OutlinePane(ListPane):
    """The rows."""

    always_points = True
    outline: Outline | None = None

    def renew(self) -> None:
        self.set_keys(self.outline.keys if self.outline else ())

    def build_title(self) -> Line:
        return self.outline.build_title() if self.outline else ()

    def build_head(self, cells: int) -> Sequence[Line]:
        return self.outline.build_head(cells) if self.outline else ()

    def row(self, place: int, cells: int) -> Line:
        return self.outline.build_row(place, cells) if self.outline else ()

    def find_jobs(self) -> tuple[JobView, ...]:
        return self.outline.find_jobs(self.key) if self.outline else ()

    def copy_text(self) -> str:
        """Where the row's files are."""
        return self.outline.find_files(self.key) if self.outline else ""


class DetailPane(TextPane):
    """All that is known of one row."""

    heading = "Detail"
    outline: Outline | None = None
    key: str = ""
    records: object = None
    """What its files say; None: they were not read."""

    def build_title(self) -> Line:
        return line(outside(self.outline.name_row(self.key))) if self.outline else ()

    def show(self, key: str) -> None:
        if key != self.key:
            self.key, self.records = key, None
        self.renew(key)

    def take_records(self, key: str, records: object) -> None:
        """Show what the files of a row say, if it is still the one that is shown."""
        if self.key == key and records != self.records:
            self.records = records
            self.renew(key)

    def build_lines(self, cells: int) -> Sequence[Line]:
        if self.outline is None or self.key not in self.outline.keys:
            return ()
        return self.outline.build_detail(self.key, self.records, cells)


class LowerPane(TextPane):
    """What comes of it; one line where the screen is low."""

    can_focus = False
    outline: Outline | None = None
    about: str = ""
    """What stands in it, for its title."""

    def build_title(self) -> Line:
        return line(Span(self.about, "muted"))

    def build_lines(self, cells: int) -> Sequence[Line]:
        rows = self.size.height - (not self.bare)
        return self.outline.build_below(cells, rows) if self.outline else ()
