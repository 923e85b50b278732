"""What every overlay shares: a framed box over the screen, its own keys only.

While an overlay is up nothing below it hears a key. The app hands each key to `hear`
before it looks at the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.layout import Layout
from textual.reactive import Reactive
from textual.screen import ModalScreen
from textual.widget import Widget, _RenderCache

from autoexp_tui.cockpit.painting import tinted
from autoexp_tui.cockpit.render.layout import Box
from autoexp_tui.cockpit.screens.base import BoxLayout
from autoexp_tui.cockpit.spans import Line, Role, Span, pad
from autoexp_tui.cockpit.widgets.pane import LinesWidget, Painted

if TYPE_CHECKING:
    from autoexp_tui.cockpit.app import CockpitApp
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.cockpit.widgets.bars import Prompt, Typed

Result = TypeVar("Result")
WIDEST = 100


class Frame(LinesWidget, can_focus=True):
    """The box: a title in its upper edge, a body that scrolls, lines that stay."""

    def __init__(self, skin: Skin, owner: Overlay[object]) -> None:
        super().__init__(skin, id="frame")
        self.owner = owner
        self.top = 0

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        owner = self.owner
        inner = cells - 4
        fixed = owner.fixed(inner)
        body = owner.body(inner)
        room = max(1 if body else 0, rows - 2 - len(fixed))
        self.top = max(0, min(self.top, len(body) - room))
        shown = [*body[self.top : self.top + room]]
        shown += [()] * (room - len(shown))
        lines = [self._edged(one, inner) for one in (*shown, *fixed)]
        more = len(body) > room
        return [
            Painted(self._edge("┌", "┐", owner.heading(), cells)),
            *(Painted(one) for one in lines),
            Painted(self._edge("└", "┘", self._position(body, room, more=more), cells)),
        ]

    def _position(self, body: Sequence[Line], room: int, *, more: bool) -> Line:
        if not more:
            return ()
        last = min(self.top + room, len(body))
        return (Span(f" {self.top + 1}-{last} of {len(body)}, j k ", "muted"),)

    def _edge(self, left: str, right: str, words: Line, cells: int) -> Line:
        role = self.owner.edge_role
        used = sum(len(span.text) for span in words)
        fill = "─" * max(0, cells - 3 - used)
        return (Span(f"{left}─", role), *words, Span(f"{fill}{right}", role))

    def _edged(self, content: Line, inner: int) -> Line:
        edge = Span("│", self.owner.edge_role)
        return (edge, Span(" "), *pad(content, inner), Span(" "), edge)

    def scroll_by(self, lines: int) -> None:
        """Move the body."""
        self.top = max(0, self.top + lines)
        self.repaint()

    def watch_has_focus(self, value: bool) -> None:  # noqa: FBT001 - Textual's
        super().watch_has_focus(value)
        self.repaint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_by(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_by(-3)


class Overlay(ModalScreen[Result], inherit_bindings=False):
    """A box over the screen; subclasses say what stands in it and hear its keys."""

    AUTO_FOCUS = "#frame"
    DEFAULT_CSS = "Overlay { overflow: hidden; }"
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    edge_role: Role = "rule"
    widest = WIDEST
    """Columns of the box where the screen has more."""

    def __init__(self, skin: Skin) -> None:
        super().__init__()
        self.skin = skin
        self.frame = Frame(skin, cast("Overlay[object]", self))
        self.field: Prompt | None = None
        self._boxes: dict[str, Box] = {}
        self._finished = False

    @property
    def cockpit(self) -> CockpitApp:
        """The app, by its own type."""
        return cast("CockpitApp", self.app)

    @property
    def layout(self) -> Layout:
        """Boxes, whatever a style sheet says."""
        return BoxLayout(self._boxes)

    def compose(self) -> ComposeResult:
        yield self.frame
        if self.field is not None:
            yield self.field

    def _screen_resized(self, size: Size) -> None:
        """Textual tells the size after the first layout too, which had it already."""
        if size != self._compositor.size:
            super()._screen_resized(size)

    def _render_content(self) -> None:
        """The screen below, tinted: as Textual draws it, in a fraction of its time."""
        stack, tint = self.app.screen_stack, self.styles.background
        place = stack.index(self) if self in stack else 0
        if not place or tint.a == 1:
            super()._render_content()
            return
        below = stack[place - 1]._compositor.render_strips(self.size)
        drawn = tinted(below, tint, self.visual_style.rich_style)
        self._render_cache = _RenderCache(self.size, drawn)
        self._dirty_regions.clear()

    def on_mount(self) -> None:
        self.place()

    def finish(self, result: Result | None) -> None:
        """Close with a result; keys that come after the first count no more."""
        if not self._finished:
            self._finished = True
            self.dismiss(cast("Result", result))

    # ------------------------------------------------------------------------ keys
    def hear(self, event: Typed) -> None:
        """Take a key, or a text that was pasted."""
        if isinstance(event, events.Key):
            self.press(event)
        elif self.field is not None and self.field.display:
            self.field.take(event)

    def press(self, event: events.Key) -> None:
        """Act on a key."""
        raise NotImplementedError

    # ------------------------------------------------------- what subclasses say
    def heading(self) -> Line:
        """What stands in the upper edge."""
        return ()

    def body(self, cells: int) -> Sequence[Line]:
        """Lines that scroll when there are too many."""
        return ()

    def fixed(self, cells: int) -> Sequence[Line]:
        """Lines below the body that stay."""
        return ()

    def field_row(self) -> int | None:
        """Which of the fixed lines the field lies on; None: no field."""
        return None

    # ----------------------------------------------------------------------- places
    def place(self) -> None:
        """Put the box in the middle, as large as it needs to be."""
        size = self.size or self.app.size  # before its own layout it has none
        width = min(size.width - 4, self.widest) if size.width > 8 else size.width
        inner = width - 4
        fixed = self.fixed(inner)
        needed = len(self.body(inner)) + len(fixed) + 2
        height = max(3, min(needed, size.height - 2))
        x, y = (size.width - width) // 2, max(0, (size.height - height) // 3)
        before = self._boxes
        self._boxes = {"frame": Box(x, y, width, height)}
        row = self.field_row()
        if row is not None and self.field is not None:
            at = y + height - 1 - len(fixed) + row
            self._boxes["field"] = Box(x + 4, at, inner - 4, 1)
        if self.field is not None:
            self.field.display = row is not None
        if before != self._boxes:
            self._clear_arrangement_cache()  # Textual clears its ancestors' only
            self.refresh(layout=True)
        self.frame.repaint()

    def on_resize(self) -> None:
        self.place()

    @property
    def frame_size(self) -> Size:
        """Of the box as it was placed last, whether it is drawn so yet or not."""
        box = self._boxes["frame"]
        return Size(box.width, box.height)

    def scroll_key(self, key: str) -> bool:
        """Scroll for a key that means it; whether it did."""
        page = max(1, Size(*self.frame.size).height // 2)
        steps = {
            "j": 1,
            "down": 1,
            "k": -1,
            "up": -1,
            "ctrl+d": page,
            "pagedown": page,
            "ctrl+u": -page,
            "pageup": -page,
            "g": -(10**9),
            "home": -(10**9),
            "G": 10**9,
            "end": 10**9,
        }
        if key in steps:
            self.frame.scroll_by(steps[key])
        return key in steps
