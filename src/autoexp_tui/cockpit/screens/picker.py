"""Which session? Shown when the cockpit was opened with neither config nor session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.context import Clock, CockpitOptions, ScreenContext, WallClock
from autoexp_tui.cockpit.keymap import find_move
from autoexp_tui.cockpit.render.sessions import (
    render_session,
    render_session_counts,
    render_session_titles,
)
from autoexp_tui.cockpit.spans import Line, Span, join
from autoexp_tui.cockpit.themes import apply_skin
from autoexp_tui.cockpit.widgets.pane import LinesWidget, ListPane, Painted
from autoexp_tui.model.snapshot import SessionBrief

ListSessions = Callable[[], Sequence[SessionBrief]]


class Choice(NamedTuple):
    """What a person took."""

    ids: Sequence[str]
    compares: bool = False
    """Whether their results are wanted, in one table; else there is one, to open."""


class SessionsPane(ListPane):
    """The sessions, the one with the newest event first."""

    name_in_table = "jobs"
    heading = "Sessions"
    lead = 3
    nothing = (
        " No sessions here. `autoexp-tui --config-ref exp` opens the demo; "
        "`autoexp-init -- python train.py` plans your own."
    )
    sessions: Sequence[SessionBrief] = ()
    marks: Mapping[str, None] = MappingProxyType({})
    """Ids, in the order in which they were marked."""

    def is_marked(self, key: str) -> bool:
        return key in self.marks

    def mark(self) -> None:
        """Mark the session under the cursor, or no longer, and go on to the next."""
        kept = {one: None for one in self.marks if one != self.key}
        self.marks = kept if self.key in self.marks else {**kept, self.key: None}
        self.move("down")
        self.update_lines()

    def show(self, sessions: Sequence[SessionBrief]) -> None:
        self.sessions = sessions
        ids = {session.id for session in sessions}
        self.marks = {one: None for one in self.marks if one in ids}
        self.set_keys(session.id for session in sessions)

    def build_head(self, cells: int) -> Sequence[Line]:
        titles = render_session_titles(cells - self.lead)
        return ((Span(" " * self.lead), *titles),)

    def row(self, place: int, cells: int) -> Line:
        return render_session(self.sessions[place], self.context.clock.utc(), cells)

    def find_session(self) -> SessionBrief | None:
        return self.sessions[self.cursor] if self.sessions else None


class PickerFooter(LinesWidget):
    """What the keys do, and the session under the cursor in words."""

    pane: SessionsPane

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        chosen = self.pane.find_session()
        about: Line = render_session_counts(chosen) if chosen is not None else ()
        number = len(self.pane.marks)
        results = f"compare the {number} marked" if number > 1 else "results"
        keys = (
            *(("enter", "open"), ("space", "mark"), ("e", results)),
            *(("j k", "move"), ("r", "look again"), ("q", "leave")),
        )
        hints = join([(Span(key, "key"), Span(f" {word}")) for key, word in keys], "  ")
        return [Painted(about), Painted((Span(" "), *hints))]


class SessionPicker(App[Choice], inherit_bindings=False):
    """The list above, the keys below; ends with what was chosen, or None."""

    CSS_PATH = Path(__file__).parent.parent / "cockpit.tcss"
    CSS = "Screen { overflow: hidden; }"
    AUTO_FOCUS = "#sessions"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        sessions: ListSessions,
        options: CockpitOptions | None = None,
        clock: Clock | None = None,
        marked: Sequence[str] = (),
    ) -> None:
        """`sessions` lists them, newest first; it is called again on `r`. `marked`: ids
        that have a mark from the beginning."""
        super().__init__(driver_class=terminal.CockpitDriver)
        self.animation_level = "none"
        wanted = options or CockpitOptions()
        skin = apply_skin(
            self, wanted.theme, no_color=wanted.no_color, ascii_only=wanted.ascii
        )
        context = ScreenContext(skin=skin, clock=clock or WallClock())
        self._list = sessions
        self.pane = SessionsPane(context, id="sessions")
        self.pane.marks = dict.fromkeys(marked)
        self.footer = PickerFooter(context)
        self.footer.pane = self.pane

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self.footer

    def on_mount(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.pane.show(self._list())
        self.footer.update_lines()

    def on_list_pane_cursor_moved(self) -> None:
        self.footer.update_lines()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        chosen = self.pane.find_session()
        if how := find_move(event.key):
            self.pane.move(how)
        elif event.key == "enter" and chosen is not None:
            self.exit(Choice((chosen.id,)))
        elif event.key == "e" and chosen is not None:
            self.exit(Choice((*self.pane.marks,) or (chosen.id,), compares=True))
        elif event.key == "space" and chosen is not None:
            self.pane.mark()
            self.footer.update_lines()
        elif event.key == "r":
            self.renew()
        elif event.key in ("q", "escape", "ctrl+q", "ctrl+c"):
            self.exit(None)

    def notify_terminal_lost(self) -> None:
        """From any thread: the terminal is gone, and with it the question."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.exit, None)
