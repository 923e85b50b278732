"""Events mode: every command and effect, as sent, and what it said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.ui.screens.base import BoxScreen
from autoexp_tui.ui.view.chronicle import (
    Entry,
    detail,
    entries,
    entry_line,
    entry_text,
)
from autoexp_tui.ui.view.layout import Boxes, events_boxes
from autoexp_tui.ui.view.spans import Line, Span
from autoexp_tui.ui.widgets.list_pane import ListPane
from autoexp_tui.ui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from autoexp_tui.ui.commands import Pane
    from autoexp_tui.ui.desk import Desk
    from autoexp_tui.ui.themes import Skin


class EventsPane(ListPane):
    """The chronicle, newest below; it stays at the end until the cursor is moved."""

    name_in_table = "events"
    number = "8"
    heading = "Events"

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.entries: Sequence[Entry] = ()
        self.everything = False
        """Whether what is only bookkeeping is shown too."""
        self._made_for: tuple[int, bool] = (-1, False)

    def renew(self) -> None:
        """Take the desk's newest events."""
        wish = (self.desk.session.snapshot.seq, self.everything)
        if wish == self._made_for:
            self.repaint()
            return
        self._made_for = wish
        at_end = self.cursor >= len(self.entries) - 1
        self.entries = entries(self.desk.session.snapshot, everything=self.everything)
        self.set_keys(tuple(entry.key for entry in self.entries))
        if at_end:
            self.move("last")

    def title(self) -> Line:
        number = len(self.entries)
        if self.everything:
            return (Span(f"the newest {number}, all (. fewer)", "muted"),)
        what = f"{number} commands, effects, ends, warnings (. shows all)"
        return (Span(what, "muted"),)

    def placeholder(self) -> Line:
        return (Span(" Nothing has happened yet.", "muted"),)

    def row(self, place: int, cells: int) -> Line:
        return entry_line(self.entries[place], self.desk.session.now, cells)

    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        return self.entries[self.cursor] if self.entries else None


class EffectPane(TextPane):
    """All of one entry: the exact words sent and answered."""

    name_in_table = "effect"
    number = ""
    heading = "As sent, and what it said"

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.entry: Entry | None = None

    def show(self, entry: Entry | None) -> None:
        """Tell about an entry."""
        fresh = entry is None or self.entry is None or entry.key != self.entry.key
        self.entry = entry
        self.renew(to_top=fresh)

    def make(self, cells: int) -> Sequence[Line]:
        return detail(self.entry, self.desk.session.now, cells)


class EventsScreen(BoxScreen):
    """The list above, the effect under the cursor below."""

    first_pane: Pane = "events"

    def __init__(self, skin: Skin, desk: Desk) -> None:
        super().__init__("events")
        self.skin = skin
        self.desk = desk

    def compose(self) -> ComposeResult:
        self.events_pane = EventsPane(self.skin, self.desk, id="events")
        self.effect = EffectPane(self.skin, self.desk, id="effect")
        yield self.events_pane
        yield self.effect
        yield from self.frame(self.skin, self.desk)

    def on_mount(self) -> None:
        super().on_mount()
        self.header.read_only = self.cockpit.read_only
        self.set_interval(1.0, self.tell_time)

    def boxes_for(self, size: Size) -> Boxes:
        return events_boxes(size.width, size.height, enlarged=self.enlarged == "effect")

    def renew(self) -> None:
        if not self.is_mounted:
            return
        self.tell_time()
        self.events_pane.renew()
        self.effect.show(self.events_pane.entry())
        self.tell_footer()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.effect.show(self.events_pane.entry())

    def do_pane(self, name: Pane) -> None:
        """A pane of Jobs mode: go there."""
        self.cockpit.to_jobs(name)

    def do_mode_events(self) -> None:
        """Already here."""
        self.events_pane.focus(scroll_visible=False)

    def do_events_all(self) -> None:
        """Every event, or only what a person asked for, was done, or ended."""
        self.events_pane.everything = not self.events_pane.everything
        self.renew()

    def do_look_open(self) -> None:
        """The effect, enlarged."""
        self.enlarge("effect")
        self.effect.focus(scroll_visible=False)

    def do_look_larger(self) -> None:
        self.do_look_open()

    def do_look_back(self) -> None:
        """One level back."""
        if self.enlarged is not None:
            self.enlarge(None)
            self.events_pane.focus(scroll_visible=False)
        elif self.focused is self.effect:
            self.events_pane.focus(scroll_visible=False)
        else:
            self.cockpit.to_jobs("jobs")

    def do_look_copy(self) -> None:
        """Copy the entry under the cursor."""
        entry = self.events_pane.entry()
        if entry is not None:
            self.cockpit.copy(entry_text(entry, self.desk.session.now))
