"""What every overlay shares: a framed box over the screen, its own keys only.

While an overlay is up nothing below it hears a key. The app hands each key to
`take_key` before it looks at the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.reactive import Reactive
from textual.screen import ModalScreen
from textual.widget import Widget

from autoexp_tui.cockpit.keymap import find_move
from autoexp_tui.cockpit.render.layout import Box
from autoexp_tui.cockpit.spans import Line, Role, Span, pad
from autoexp_tui.cockpit.widgets.pane import (
    LinesWidget,
    Painted,
    count_lines_moved,
    set_place,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.widgets.bars import Prompt, Typed

Result = TypeVar("Result")
_ALL_LINES: Final = 10**9
"""As far as there is anything."""


class Frame(LinesWidget, can_focus=True):
    """The box: a title in its upper edge, a body that scrolls, lines that stay."""

    def __init__(self, overlay: Overlay[object]) -> None:
        super().__init__(overlay.context, id="frame")
        self._overlay = overlay
        self.top = 0

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        overlay, inner = self._overlay, cells - 4
        fixed, body = overlay.build_fixed(inner), overlay.build_body(inner)
        room = max(1 if body else 0, rows - 2 - len(fixed))
        self.top = max(0, min(self.top, len(body) - room))
        shown = [*body[self.top : self.top + room]]
        shown += [()] * (room - len(shown))
        place: Line = ()
        if len(body) > room:
            last = min(self.top + room, len(body))
            place = (Span(f" {self.top + 1}-{last} of {len(body)}, j k ", "muted"),)
        edge = Span("│", overlay.edge_role)
        return [
            Painted(self._build_edge("┌", "┐", overlay.build_title(), cells)),
            *(
                Painted((edge, Span(" "), *pad(one, inner), Span(" "), edge))
                for one in (*shown, *fixed)
            ),
            Painted(self._build_edge("└", "┘", place, cells)),
        ]

    def _build_edge(self, left: str, right: str, words: Line, cells: int) -> Line:
        role = self._overlay.edge_role
        used = sum(len(span.text) for span in words)
        fill = "─" * max(0, cells - 3 - used)
        return (Span(f"{left}─", role), *words, Span(f"{fill}{right}", role))

    def scroll_lines(self, lines: int) -> None:
        self.top = max(0, self.top + lines)
        self.update_lines()


class Overlay(ModalScreen[Result], Generic[Result], inherit_bindings=False):
    """A box over the screen; subclasses say what stands in it and take its keys."""

    AUTO_FOCUS = "#frame"
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    edge_role: Role = "rule"
    most_cells: int = 100
    """Columns of the box where the screen has more."""
    deaf_seconds: float = 0.0
    """For how long the app is to take no key, once this is closed."""

    def __init__(self, context: CockpitContext) -> None:
        super().__init__()
        self.context = context
        self.frame = Frame(cast("Overlay[object]", self))
        self.field: Prompt | None = None
        self.box_size = Size()
        """Of the box as it was placed last, whether it is drawn so yet or not."""
        self._is_finished = False

    def compose(self) -> ComposeResult:
        yield self.frame
        if self.field is not None:
            yield self.field

    def on_mount(self) -> None:
        self.layout_box()

    def on_resize(self) -> None:
        self.layout_box()

    def finish(self, result: Result | None) -> None:
        """Close with a result; keys that come after the first count no more."""
        if not self._is_finished:
            self._is_finished = True
            self.dismiss(cast("Result", result))

    async def take_key(self, event: Typed) -> None:
        """Take a key, or a text that was pasted."""
        if isinstance(event, events.Key):
            await self.process_key(event)
        elif self.field is not None and self.field.display:
            await self.field.take(event)

    async def process_key(self, event: events.Key) -> None:
        """Act on a key."""
        raise NotImplementedError

    def handle_scroll(self, key: str) -> None:
        """Scroll for a key that means it."""
        page = max(1, self.frame.size.height // 2)
        self.frame.scroll_lines(count_lines_moved(find_move(key), page, _ALL_LINES))

    def build_title(self) -> Line:
        """What stands in the upper edge."""
        return ()

    def build_body(self, cells: int) -> Sequence[Line]:
        """Lines that scroll when there are too many."""
        return ()

    def build_fixed(self, cells: int) -> Sequence[Line]:
        """Lines below the body that stay."""
        return ()

    def find_field_row(self) -> int | None:
        """Which of the fixed lines the field lies on; None: no field."""
        return None

    def layout_box(self) -> None:
        """Put the box in the middle, as large as it needs to be."""
        size = self.size or self.app.size  # before its own layout it has none
        width = min(size.width - 4, self.most_cells) if size.width > 8 else size.width
        inner = width - 4
        fixed = self.build_fixed(inner)
        needed = len(self.build_body(inner)) + len(fixed) + 2
        height = max(3, min(needed, size.height - 2))
        x, y = (size.width - width) // 2, max(0, (size.height - height) // 3)
        self.box_size = Size(width, height)
        set_place(self.frame, Box(x, y, width, height))
        row = self.find_field_row()
        if self.field is not None:
            self.field.display = row is not None
            if row is not None:
                at = y + height - 1 - len(fixed) + row
                set_place(self.field, Box(x + 4, at, inner - 4, 1))
        self.frame.update_lines()


def build_keys(keys: Iterable[tuple[str, str]]) -> Line:
    """Keys and what they do, in a row behind a button."""
    return tuple(
        part
        for key, words in keys
        for part in (Span(f"   {key}", "key"), Span(f" {words}"))
    )
