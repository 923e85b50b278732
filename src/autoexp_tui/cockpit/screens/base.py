"""What every full screen shares: boxes, the key table, notices, the prompt.

A key belongs to the command that has it in the focused pane; a function of
`COMMANDS_HERE`, or the screen's method `do_<id>`, carries it out. Nothing else listens
to keys: the app hands each to `hear` before it looks at the next, so that what is typed
right behind a key that opens a field reaches that field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.reactive import Reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from autoexp_tui.cockpit.commands import COMMANDS, Pane
from autoexp_tui.cockpit.painting import ThriftyCompositor
from autoexp_tui.cockpit.render.layout import TALL_FROM, Box, is_too_small
from autoexp_tui.cockpit.screens.replay_commands import carry_out_replay
from autoexp_tui.cockpit.spans import Line, Role, Span, outside
from autoexp_tui.cockpit.widgets import pane as panes
from autoexp_tui.cockpit.widgets.bars import Footer, Header, Prompt, TimeBar, Typed

if TYPE_CHECKING:
    from autoexp_tui.cockpit.app import CockpitApp
    from autoexp_tui.cockpit.render.layout import Boxes
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.themes import Skin

NOTICE_SECONDS = 6.0


class BoxLayout(Layout):
    """Puts each child where its parent's `boxes` say, by the child's id."""

    name = "boxes"

    def __init__(self, boxes: Mapping[str, Box]) -> None:
        self._boxes = boxes

    def arrange(
        self,
        parent: Widget,
        children: list[Widget],
        size: Size,
        greedy: bool = True,  # noqa: FBT001, FBT002 - Textual's signature
    ) -> ArrangeResult:
        boxes = self._boxes
        return [
            WidgetPlacement(_region(boxes[name]), NULL_OFFSET, Spacing(), child)
            for child in children
            if (name := child.id or "") in boxes
        ]


def _after(box: Box, cells: int) -> Box:
    """What is left of a line behind `cells` of it."""
    return replace(box, x=box.x + cells, width=max(1, box.width - cells))


def _region(box: Box) -> Region:
    return Region(box.x, box.y, box.width, box.height)


class BoxScreen(Screen[None], inherit_bindings=False):
    """A screen of panes in boxes."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = "BoxScreen { overflow: hidden; }"
    COMMANDS_HERE: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    """Commands that a function carries out, by id; `do_<id>` methods do the rest."""
    first_pane: Pane = "jobs"
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Panes show the focus themselves: Textual would draw all of the screen for it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._compositor = ThriftyCompositor()
        self.enlarged: Pane | None = None
        self.prompting: Prompt | None = None
        self._boxes: Boxes = {}
        self._label = ""
        self._notice_timer: Timer | None = None
        self._answer: Callable[[str], None] | None = None
        self._given_up: Callable[[], None] = lambda: None
        self._preview: Callable[[str], None] | None = None

    @property
    def cockpit(self) -> CockpitApp:
        """The app, by its own type."""
        return cast("CockpitApp", self.app)

    @property
    def layout(self) -> Layout:
        """Boxes, whatever a style sheet says."""
        return BoxLayout(cast("Mapping[str, Box]", self._boxes))

    # ------------------------------------------------------------------------ keys
    def hear(self, event: Typed) -> None:
        """Take a key, or a text that was pasted."""
        if self.prompting is not None:
            self._hear_prompt(self.prompting, event)
        elif isinstance(event, events.Key) and self.is_mounted:
            self._press(event.key)

    def _press(self, key: str) -> None:
        """Carry out the command that has `key` in the focused pane."""
        pane, replay = self.pane_name(), self.cockpit.replays
        for command in self.cockpit.commands.at(pane, replay=replay):
            if key in self.cockpit.commands.keys(command.id):
                self.carry_out(command.id)
                return

    def pane_name(self) -> Pane:
        """The focused pane's name in the command table."""
        focused = self.focused
        if isinstance(focused, panes.Pane):
            return focused.name_in_table
        return self.first_pane

    def carry_out(self, command_id: str) -> None:
        """Carry out a command by its id."""
        self.say("")
        command = COMMANDS[command_id]
        prefix, _, rest = command_id.partition(".")
        if prefix == "move":
            self.do_move(rest)
        elif prefix == "pane" and rest not in ("next", "previous"):
            self.do_pane(cast("Pane", rest))
        elif command.acts and self.cockpit.read_only:
            self.say(self._no_commands(), "warning")
        elif command.replay:
            carry_out_replay(self, command_id)
        elif command.acts and is_too_small(*self.size):
            return  # nobody could read what is asked; the one line says why
        elif command_id in self.COMMANDS_HERE:
            self.COMMANDS_HERE[command_id](self)
        else:
            getattr(self, f"do_{command_id.replace('.', '_')}")()

    def _no_commands(self) -> str:
        if self.cockpit.replays:
            return "a replay: what has happened takes no commands"
        if user := self.cockpit.desk.session.snapshot.engine.user:
            return f"read only: this is the session of {outside(user)}"
        return "read only: this view sends no commands"

    def do_move(self, how: str) -> None:
        """Move in the focused pane."""
        if isinstance(self.focused, panes.Pane):
            self.focused.move(how)

    def do_pane(self, name: Pane) -> None:
        """Go to a pane of Jobs mode; that screen says where it is."""
        self.cockpit.to_jobs(name)

    def do_rows_need(self) -> None:
        """To the next that needs a person, in the table."""
        self.cockpit.to_jobs("jobs")
        self.cockpit.jobs_screen.carry_out("rows.need")

    def do_mode_events(self) -> None:
        """To Events mode."""
        self.cockpit.to_mode("events")

    def do_mode_timeline(self) -> None:
        """To the campaign over time."""
        self.cockpit.to_mode("timeline")

    def do_mode_waiting(self) -> None:
        """To all that waits."""
        self.cockpit.to_mode("waiting")

    def do_pane_next(self) -> None:
        """To the next pane on the screen."""
        self.focus_next()

    def do_pane_previous(self) -> None:
        """To the pane before."""
        self.focus_previous()

    def do_look_larger(self) -> None:
        """Give the focused pane the whole middle."""
        self.enlarge(self.pane_name())

    def do_look_smaller(self) -> None:
        """Back to the usual places."""
        self.enlarge(None)

    def to_list(self) -> None:
        """Focus what this screen begins with."""
        self.set_focus(self.query_one(f"#{self.first_pane}"), scroll_visible=False)

    def do_plan_again(self) -> None:
        """Plan again from what was saved."""
        self.cockpit.planning.again()

    def do_plan_changes(self) -> None:
        """Show what changed since the last plan."""
        self.cockpit.planning.show_changes()

    def do_app_help(self) -> None:
        """List the keys."""
        self.cockpit.show_help()

    def do_app_palette(self) -> None:
        """Find a command by its name."""
        self.cockpit.show_palette(self.pane_name())

    def do_app_leave(self) -> None:
        """Ask whether to leave."""
        self.cockpit.ask_to_leave()

    def do_app_redraw(self) -> None:
        """Draw everything again."""
        self.refresh(layout=True)
        for widget in self.query(panes.LinesWidget):
            widget.refresh()

    # ---------------------------------------------------------------------- places
    def boxes_for(self, size: Size) -> Boxes:
        """Where everything is at a size."""
        raise NotImplementedError

    def enlarge(self, pane: Pane | None) -> None:
        """Give a pane the whole middle, or none."""
        if pane != self.enlarged:
            self.enlarged = pane
            self.place()

    @property
    def room(self) -> Size:
        """What the panes have: all of the screen but a replay's time bar."""
        return self.size - Size(0, self._bar_rows())

    def _bar_rows(self) -> int:
        if not self.cockpit.replays or is_too_small(*self.size):
            return 0
        return 1 if self.size.height < TALL_FROM else 2

    def place(self) -> None:
        """Put every pane where it belongs at the present size."""
        boxes = dict(self.boxes_for(self.room))
        if rows := self._bar_rows():
            boxes["timebar"] = Box(0, self.room.height, self.size.width, rows)
        if self.prompting is not None and "footer" in boxes:
            boxes[cast("Pane", "prompt")] = _after(boxes["footer"], len(self._label))
        moved = boxes != self._boxes
        self._boxes = boxes
        for widget in self.children:
            box = boxes.get(cast("Pane", widget.id))
            widget.display = box is not None
            if isinstance(widget, panes.Pane) and box is not None:
                self.fit(widget, box)
        if self.focused is None or not self.focused.display:
            self._focus_somewhere()
        if moved:
            self._clear_arrangement_cache()  # Textual clears its ancestors' only
            self.refresh(layout=True)

    def fit(self, pane: panes.Pane, box: Box) -> None:
        """Tell a pane its box."""
        pane.box = box

    def _focus_somewhere(self) -> None:
        wanted = self.enlarged or self.first_pane
        for widget in self.query(panes.Pane):
            if widget.id == wanted and widget.display:
                self.set_focus(widget, scroll_visible=False)
                return

    def on_resize(self) -> None:
        self.place()
        self.renew()

    def renew(self) -> None:
        """Show the desk's newest session."""
        raise NotImplementedError

    def frame(self, skin: Skin, desk: Desk) -> Iterator[Widget]:
        """What every screen has above and below its panes."""
        yield Header(skin, desk, id="header")
        if self.cockpit.replays:
            yield TimeBar(skin, desk, id="timebar")
        footer = Footer(skin, self.cockpit.commands, id="footer")
        footer.replay = self.cockpit.replays
        yield footer

    def pass_time(self) -> None:
        """A second has passed: ages grow."""
        self.cockpit.pass_time()
        self.tell_time()

    def tell_time(self) -> None:
        """Let header and time bar tell the present."""
        self.header.read_only = self.cockpit.read_only
        self.header.tell(self.cockpit.desk.session.present(self.cockpit.clock.utc()))
        for bar in self.query(TimeBar):
            bar.repaint()

    # --------------------------------------------------------------------- notices
    @property
    def header(self) -> Header:
        """The top lines."""
        return self.query_one(Header)

    @property
    def footer(self) -> Footer:
        """The bottom line."""
        return self.query_one(Footer)

    def say(self, text: str, role: Role = "accent", *, keep: bool = False) -> None:
        """Show a notice where the keys stand: for some seconds, or until a key."""
        notice: Line = (Span(f" {text}", role),) if text else ()
        if not notice and not self.footer.notice:
            return
        if self._notice_timer is not None:
            self._notice_timer.stop()
            self._notice_timer = None
        self.footer.say(notice)
        if notice and not keep:
            self._notice_timer = self.set_timer(NOTICE_SECONDS, self._unsay)

    def _unsay(self) -> None:
        self._notice_timer = None
        self.footer.say(())

    def useful(self) -> Collection[str]:
        """Ids of acting commands that could do something now."""
        return ()

    def labels(self) -> Mapping[str, str]:
        """Words, by id, for commands that now do something else than usual."""
        paused = self.cockpit.desk.session.snapshot.paused
        return {} if paused is None else {"run.pause": "resume"}

    def tell_footer(self) -> None:
        """Show the focused pane's keys."""
        self.footer.tell(self.pane_name(), self.useful(), self.labels())

    def on_pane_focused(self, message: panes.Pane.Focused) -> None:
        message.stop()
        self.tell_footer()

    # ---------------------------------------------------------------------- prompt
    def prompt(
        self,
        label: str,
        hint: str,
        text: str,
        answer: Callable[[str], None],
        *,
        preview: Callable[[str], None] | None = None,
        given_up: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for one line where the footer stands.

        Args:
            label: what is asked, in a word.
            hint: how to answer, shown while nothing is typed.
            text: what stands there at first.
            answer: called with the line on enter, never on esc.
            preview: called with what is typed so far.
            given_up: called on esc.
        """
        if self.prompting is not None:
            return
        self._answer = answer
        self._preview = preview
        self._given_up = given_up
        self._label = f" {label} "
        self.footer.say((Span(self._label, "accent"),))
        self.prompting = Prompt(value=text, placeholder=hint, id="prompt")
        self.mount(self.prompting)
        self.place()
        self.set_focus(self.prompting, scroll_visible=False)

    def on_input_changed(self, event: Prompt.Changed) -> None:
        if self._preview is not None and event.input is self.prompting:
            self._preview(event.value)

    def _hear_prompt(self, prompt: Prompt, event: Typed) -> None:
        key = event.key if isinstance(event, events.Key) else ""
        if key == "enter":
            self.answer_prompt(prompt.value)
        elif key == "escape":
            self.close_prompt()
            self._given_up()
        else:
            prompt.take(event)

    def answer_prompt(self, text: str) -> None:
        """The line is typed: hand it to who asked for it."""
        answer = self._answer
        self.close_prompt()
        if answer is not None:
            answer(text)

    def close_prompt(self) -> None:
        """Nothing is asked any more."""
        prompt, self.prompting = self.prompting, None
        self._answer, self._preview = None, None
        if prompt is not None:
            prompt.remove()
            self.footer.say(())
        self.place()
        self._focus_somewhere()
