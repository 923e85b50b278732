"""What every full screen shares: boxes, the key table's actions, notices, the prompt.

A key belongs to the command that has it in the focused pane. Nothing else listens to
keys: the app hands each to `take_key` before it looks at the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.reactive import Reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from autoexp_tui.cockpit.keymap import Command, Pane
from autoexp_tui.cockpit.render.layout import (
    TALL_FROM,
    Box,
    Boxes,
    build_boxes,
    is_too_small,
    place_two,
)
from autoexp_tui.cockpit.render.why import find_unbegun_search
from autoexp_tui.cockpit.spans import Role, Span, outside
from autoexp_tui.cockpit.state.forecast import NOTHING_TO_END
from autoexp_tui.cockpit.state.session import JobView, Scope, choose_scope
from autoexp_tui.cockpit.widgets import pane as panes
from autoexp_tui.cockpit.widgets.bars import Footer, Header, Prompt, TimeBar, Typed
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.model.resubmission import can_come_back
from autoexp_tui.model.states import NOT_STARTED
from autoexp_tui.text.patterns import PatternRefused

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.widgets.pane import ListPane

NOTICE_SECONDS: Final = 6.0
_ROLES: Final[Mapping[SeverityLevel, Role]] = {
    "information": "accent",
    "warning": "warning",
    "error": "failed",
}
"""Of a notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One line that a screen asks for, where the footer stands."""

    label: str
    """What is asked, in a word."""
    hint: str
    """How to answer, shown while nothing is typed."""
    answer: Callable[[str], str]
    """Takes the line on enter; what is wrong with it is told, to be mended."""
    text: str = ""
    """What stands there at first."""
    behind: int = 0
    """Characters of that text behind the cursor."""
    others: Sequence[str] = ()
    """What the up and down keys put in its place, one after the other."""
    preview: Callable[[str], object] = lambda text: None
    """Called with what is typed so far."""
    give_up: Callable[[], object] = lambda: None
    """Called on esc."""
    back_to: Widget | None = None
    """Has the focus afterwards; None: what the screen begins with."""


class BoxScreen(Screen[None], inherit_bindings=False):
    """A screen of panes in boxes."""

    AUTO_FOCUS = ""
    first_pane: Pane = "jobs"
    lower_pane: Pane | None = None
    """Below the first; None: that is as large as the terminal."""
    content: Sequence[panes.Pane] = ()
    """All of its panes, in the order in which `tab` goes through them."""
    way_back: str = "app.show_pane('jobs')"
    """What the last level back does."""
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Panes show the focus themselves: Textual would draw all of the screen for it."""
    enlarged: Pane | None = None
    field: Prompt | None = None
    """Where a person types, while something is asked."""
    _request: Request | None = None
    _notice_timer: Timer | None = None

    def __init__(self, context: CockpitContext) -> None:
        super().__init__()
        self.context = context
        self.model = context.model

    def compose(self) -> ComposeResult:
        yield from self.content
        yield Header(self.context, id="header")
        if self.context.is_replay:
            yield TimeBar(self.context, id="timebar")
        yield Footer(self.context, id="footer")

    async def take_key(self, event: Typed) -> None:
        """Take a key, or a text that was pasted."""
        if self.field is not None:
            await self._type(self.field, event)
        elif isinstance(event, events.Key) and self.is_mounted:
            name, replay = self.find_pane().name_in_table, self.context.is_replay
            keymap, parts = self.context.keymap, self.context.parts
            command = keymap.find(event.key, name, replay=replay, parts=parts)
            if command is not None:
                await self.run_command(command)

    async def run_command(self, command: Command) -> None:
        """Carry out a command now: a message would come behind the next key."""
        self.show_notice("")
        await self.app.run_action(command.action, self, {"pane": self.find_pane()})

    async def on_footer_clicked(self, message: Footer.Clicked) -> None:
        message.stop()
        if self.field is None:
            await self.run_command(message.command)

    def find_pane(self) -> panes.Pane:
        """The pane that has the focus, else what this screen begins with."""
        if isinstance(self.focused, panes.Pane):
            return self.focused
        return self.query_one(f"#{self.first_pane}", panes.Pane)

    async def act(self, verb: str) -> None:
        """Carry out an acting command that is this screen's own. Nothing is sent
        unasked: the app's `ask` puts a question, `answer` what a policy asks."""
        raise NotImplementedError

    def action_move(self, how: str) -> None:
        self.find_pane().move(how)

    def action_look_larger(self) -> None:
        self.enlarge(self.find_pane().name_in_table)

    async def action_look_copy(self) -> None:
        await self.app.run_action(("app", "copy", (self.find_pane().copy_text(),)))

    def action_look_smaller(self) -> None:
        self.enlarge(None)

    def focus_pane(self, pane: Widget | None = None) -> None:
        """Focus a pane: by default what this screen begins with."""
        found = pane if pane is not None else self.query_one(f"#{self.first_pane}")
        self.set_focus(found, scroll_visible=False)

    def find_boxes(self, size: Size) -> Boxes:
        """Where everything is at a size."""
        return build_boxes(*size, self.place_panes, self.enlarged)

    def place_panes(self, middle: Box) -> Boxes:
        """Where the panes stand in the middle of the screen."""
        if self.lower_pane is None:
            return {self.first_pane: middle}
        return place_two(middle, self.first_pane, self.lower_pane)

    def enlarge(self, pane: Pane | None) -> None:
        if pane != self.enlarged:
            self.enlarged = pane
            self.layout_panes()

    @property
    def room(self) -> Size:
        """What the panes have: all of the screen but a replay's time bar."""
        width, height = self.size
        if not self.context.is_replay or is_too_small(width, height):
            return self.size
        return Size(width, height - (1 if height < TALL_FROM else 2))

    def layout_panes(self) -> None:
        room = self.room
        boxes = dict(self.find_boxes(room))
        if rows := self.size.height - room.height:
            boxes["timebar"] = Box(0, room.height, self.size.width, rows)
        footer = boxes.get("footer")
        if self._request is not None and footer is not None:
            label = len(self._request.label) + 2
            width = max(1, footer.width - label)
            boxes["prompt"] = Box(label, footer.y, width, 1)
            if self.footer.problem:  # above what is typed
                boxes["footer"] = Box(0, footer.y - 1, footer.width, 2)
        for widget in self.children:
            box = boxes.get(widget.id or "")
            widget.display = box is not None
            if box is not None and isinstance(widget, panes.Pane):
                widget.set_box(box)
            elif box is not None:
                panes.set_place(widget, box)
        if self.focused is None or not self.focused.display:
            self._focus()

    def _focus(self, pane: Widget | None = None) -> None:
        """Focus a pane, else the one that is enlarged, or the first; a shown one."""
        found = pane or self.query_one(f"#{self.enlarged or self.first_pane}")
        if found.display:
            self.focus_pane(found)

    def on_resize(self) -> None:
        self.layout_panes()
        self.renew()

    def renew(self) -> None:
        if self.is_mounted:
            self.update_time()
            self.renew_panes()
            self.show_keys()

    def renew_panes(self) -> None:
        self.content[0].renew()
        self.follow_cursor()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.follow_cursor()
        self.show_keys()

    def follow_cursor(self) -> None:
        """Show what goes with the row under the cursor."""

    async def action_look_back(self) -> None:
        """One level back: to the first pane, within it, at last to other panes."""
        if not (self.leave_lower() or self.go_back()):
            await self.run_action(self.way_back)

    def leave_lower(self) -> bool:
        """Back to the first pane, as small as usual; False: it was so."""
        if self.enlarged is None and self.find_pane().id == self.first_pane:
            return False
        self.enlarge(None)
        self.focus_pane()
        return True

    def go_back(self) -> bool:
        """One level back within the first pane; False: there is none."""
        return False

    def update_time(self) -> None:
        """Let header and time bar tell the present."""
        for bar in self.query("Header, TimeBar").results(panes.LinesWidget):
            bar.update_lines()

    @property
    def footer(self) -> Footer:
        return self.query_one(Footer)

    def show_notice(
        self, text: str, severity: SeverityLevel = "information", *, keep: bool = False
    ) -> None:
        """Show a notice where the keys stand: for some seconds, or until a key."""
        if not self.query(Footer) or not (text or self.footer.notice):
            return
        if self._notice_timer is not None:
            self._notice_timer.stop()
            self._notice_timer = None
        self.footer.show_notice((Span(f" {text}", _ROLES[severity]),) if text else ())
        if text and not keep:
            clear = partial(self.footer.show_notice, ())
            self._notice_timer = self.set_timer(NOTICE_SECONDS, clear)

    def find_useful(self) -> Collection[str]:
        """Ids of acting commands that could do something now."""
        return ()

    def show_keys(self) -> None:
        self.footer.show_keys(self.find_pane().name_in_table, self.find_useful())

    def on_descendant_focus(self) -> None:
        self.show_keys()

    def ask_line(self, request: Request) -> None:
        if self.field is not None:
            return
        self._request = request
        self.footer.show_notice((Span(f" {request.label} ", "accent"),))
        self.field = Prompt(value=request.text, placeholder=request.hint, id="prompt")
        self.field.cursor_position = len(request.text) - request.behind
        self.mount(self.field)
        self.layout_panes()
        self.focus_pane(self.field)

    def on_input_changed(self, event: Prompt.Changed) -> None:
        if self._request is not None and event.input is self.field:
            self._request.preview(event.value)

    async def _type(self, field: Prompt, event: Typed) -> None:
        key = event.key if isinstance(event, events.Key) else ""
        request = self._request
        if request is not None and request.others and key in ("up", "down"):
            texts = (request.text, *request.others)
            at = texts.index(field.value) if field.value in texts else 0
            field.value = texts[(at + (1 if key == "down" else -1)) % len(texts)]
            field.cursor_position = len(field.value) - request.behind
            return
        if request is None or key not in ("enter", "escape"):
            await field.take(event)
            return
        problem = request.answer(field.value) if key == "enter" else ""
        self.show_problem(problem)
        if not problem:
            self._close_field()
        if key == "escape":
            request.give_up()

    def show_problem(self, problem: str) -> None:
        """Show what is wrong with what is being typed, above it; empty: nothing."""
        self.footer.problem = problem
        self.footer.update_lines()
        self.layout_panes()

    def _close_field(self) -> None:
        field, request = self.field, self._request
        self.field = self._request = None
        if field is not None and request is not None:
            field.remove()
            self.footer.show_notice(())
            self.layout_panes()
            self._focus(request.back_to)


class LogScreen(BoxScreen):
    """Shows a log, among other things."""

    logs: LogPane

    def action_log_search(self) -> None:
        """Ask what to look for in the log; its own keys go on from there."""

        def search(text: str) -> str:
            try:
                self.logs.search(text)
            except PatternRefused as refused:
                hint = "\\ before a sign takes it as it is"
                return outside(f"the pattern {refused.problem}; {hint}")
            return ""

        request = Request(
            label="search",
            hint="a regular expression",
            answer=search,
            preview=lambda _: self.show_problem(""),
            back_to=self.logs,
        )
        self.ask_line(request)


class JobListScreen(BoxScreen):
    """A screen whose rows are jobs; verbs act on those, or on the marked."""

    active_list: ListPane
    """The list that the person looks at: verbs act on its row."""

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the row that the person looks at."""
        return self.active_list.find_jobs()

    async def action_rows_config(self) -> None:
        """Read how the job under the cursor is made; of several, the first."""
        if jobs := self.find_jobs():
            await self.app.run_action(("app", "show_details", (jobs[:1],)))
        else:
            self.notify("there is no job here")

    def narrow_to(self, jobs: Sequence[JobView]) -> None:
        """Let the table have the jobs of this row alone."""
        names = frozenset(job.name for job in jobs)
        only = (outside(self.active_list.describe_row()), names)
        self.model.update_arrangement(only=only)

    def find_scope(self) -> Scope:
        """What a verb would touch now."""
        return choose_scope(
            self.model.session,
            self.model.marks,
            self.model.list_shown,
            self.find_jobs(),
            outside(self.active_list.describe_row()),
        )

    def find_useful(self) -> Collection[str]:
        if self.context.is_read_only:
            return ()
        session = self.model.session
        jobs = session.list_jobs(tuple(self.model.marks)) or self.find_jobs()
        states = {job.record.state for job in jobs}
        looks = {str(look) for look in session.counts}
        useful = {
            "run.pause": bool(session.snapshot.paused),
            "run.resubmit": any(can_come_back(job.record) for job in jobs),
            "run.kill": bool(states - NOTHING_TO_END),
            "run.skip": bool(states & NOT_STARTED),
            "run.submit": not looks.isdisjoint({"planned", "held"})
            or bool(find_unbegun_search(session)),
            "run.answer": "asks" in looks or bool(session.asks),
        }
        return {command for command, could in useful.items() if could}
