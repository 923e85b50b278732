"""Which session? Shown when the cockpit was opened with neither config nor session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.context import Clock, CockpitOptions, ScreenContext, WallClock
from autoexp_tui.cockpit.keymap import find_move
from autoexp_tui.cockpit.render.lists import (
    SESSION_TITLES,
    render_session,
    render_session_counts,
)
from autoexp_tui.cockpit.spans import Line, Span, join
from autoexp_tui.cockpit.themes import apply_skin
from autoexp_tui.cockpit.widgets.pane import LinesWidget, ListPane, Painted
from autoexp_tui.model.snapshot import SessionBrief

ListSessions = Callable[[], Sequence[SessionBrief]]


class SessionsPane(ListPane):
    """The sessions, the one with the newest event first."""

    name_in_table = "jobs"
    heading = "Sessions"
    nothing = (
        " No sessions here. `autoexp-tui --config-ref exp` opens the demo; "
        "`autoexp-init -- python train.py` plans your own."
    )
    sessions: Sequence[SessionBrief] = ()

    def show(self, sessions: Sequence[SessionBrief]) -> None:
        self.sessions = sessions
        self.set_keys(session.id for session in sessions)

    def build_head(self, cells: int) -> Sequence[Line]:
        return ((Span("  "), Span(SESSION_TITLES, "muted")),)

    def row(self, place: int, cells: int) -> Line:
        return render_session(self.sessions[place], self.context.clock.utc())

    def find_session(self) -> SessionBrief | None:
        return self.sessions[self.cursor] if self.sessions else None


class PickerFooter(LinesWidget):
    """What the keys do, and the session under the cursor in words."""

    pane: SessionsPane

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        chosen = self.pane.find_session()
        about: Line = render_session_counts(chosen) if chosen is not None else ()
        keys = (("enter", "open"), ("j k", "move"), ("r", "look again"), ("q", "leave"))
        hints = join([(Span(key, "key"), Span(f" {word}")) for key, word in keys], "  ")
        return [Painted(about), Painted((Span(" "), *hints))]


class PickerScreen(Screen[None], inherit_bindings=False):
    """The list above, the keys below."""

    AUTO_FOCUS = "#sessions"

    def __init__(self, context: ScreenContext, sessions: ListSessions) -> None:
        super().__init__()
        self._list = sessions
        self.pane = SessionsPane(context, id="sessions")
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
            self.app.exit(chosen.id)
        elif event.key == "r":
            self.renew()
        elif event.key in ("q", "escape", "ctrl+q", "ctrl+c"):
            self.app.exit(None)


class SessionPicker(App[str], inherit_bindings=False):
    """Ends with the id of the chosen session, or None."""

    CSS_PATH = Path(__file__).parent.parent / "cockpit.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        sessions: ListSessions,
        options: CockpitOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`sessions` lists them, newest first; it is called again on `r`."""
        super().__init__(driver_class=terminal.CockpitDriver)
        self.animation_level = "none"
        wanted = options or CockpitOptions()
        skin = apply_skin(
            self, wanted.theme, no_color=wanted.no_color, ascii_only=wanted.ascii
        )
        self._sessions = sessions
        self.context = ScreenContext(skin=skin, clock=clock or WallClock())

    def get_default_screen(self) -> Screen[Any]:
        return PickerScreen(self.context, self._sessions)

    def notify_terminal_lost(self) -> None:
        """From any thread: the terminal is gone, and with it the question."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.exit, None)
