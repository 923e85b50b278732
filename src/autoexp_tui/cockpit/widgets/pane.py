"""The base of every pane: lines in a box, repainted only where they changed.

A pane works its visible lines out anew at each change and compares them with what is
on the screen; only the cells that differ are drawn. So cost follows what is visible,
and bytes follow what changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from autoexp_tui.cockpit.render.layout import Box
from autoexp_tui.cockpit.spans import Line, Span, compare_lines, cut, pad, width
from autoexp_tui.cockpit.text import strip

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Pane as PaneName
    from autoexp_tui.cockpit.themes import Skin

Tone: TypeAlias = Literal["", "cursor", "away"]


class Painted(NamedTuple):
    """A line as drawn, and what is laid over it."""

    line: Line
    tone: Tone = ""


class LinesWidget(Widget, can_focus=False, inherit_css=False):
    """Draws lines; subclasses say which in `compose_lines`."""

    ALLOW_SELECT = False

    def __init__(self, skin: Skin, **options: Any) -> None:
        super().__init__(**options)
        self.skin = skin
        self._shown: tuple[Painted, ...] = ()

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        """The visible lines, at most `rows` of them, at most `cells` wide."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Work the lines out again and draw what changed."""
        cells, rows = self.size
        if not rows or not self.is_attached:
            return
        fresh = tuple(
            Painted(pad(one.line, cells), one.tone)
            for one in self.compose_lines(cells, rows)[:rows]
        )
        fresh += (Painted(pad((), cells)),) * (rows - len(fresh))
        old, self._shown = self._shown, fresh
        self._dirty_regions.clear()  # Textual's own rendering would; ours bypasses it
        if len(old) != len(fresh):
            self.refresh()
            return
        regions = [
            Region(start, y, end - start, 1)
            for y, (before, after) in enumerate(zip(old, fresh, strict=True))
            if before != after
            for start, end in _changed(before, after, cells)
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One line as a strip: called by the compositor for dirty lines."""
        cells = self.size.width
        if y >= len(self._shown):
            return strip((), self.skin, cells)
        painted = self._shown[y]
        over = {"cursor": self.skin.cursor, "away": self.skin.away}.get(painted.tone)
        return strip(painted.line, self.skin, cells, over)

    def on_resize(self) -> None:
        self._shown = ()
        self.repaint()

    @property
    def shown_text(self) -> str:
        """What is on the screen now, as plain text."""
        return "\n".join("".join(span.text for span in one.line) for one in self._shown)


def _changed(before: Painted, after: Painted, cells: int) -> list[tuple[int, int]]:
    """The ranges of cells in which two lines differ; all of them under another tone."""
    if before.tone != after.tone:
        return [(0, cells)]
    return compare_lines(before.line, after.line)


class Pane(LinesWidget, can_focus=True):
    """A numbered box with a title rule, a fixed head, and a body that scrolls."""

    name_in_table: ClassVar[PaneName]
    number: ClassVar[str] = ""
    heading: ClassVar[str] = ""

    class Focused(Message):
        """The pane got the focus."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, skin: Skin, **options: Any) -> None:
        super().__init__(skin, **options)
        self.box = Box(0, 0, 0, 0)
        self.top = 0
        self.bare = False
        """Whether it stands without its title rule: the strip of stages."""

    # ------------------------------------------------------- what subclasses say
    def title(self) -> Line:
        """What the title says after number and heading."""
        return ()

    def head(self, cells: int) -> Sequence[Line]:
        """Lines between title and body that do not scroll."""
        return ()

    def length(self) -> int:
        """How many lines the body has."""
        return 0

    def body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        """The body's lines from `start` on."""
        return ()

    # ------------------------------------------------------------------ drawing
    @property
    def body_rows(self) -> int:
        """How many lines of the body are visible."""
        fixed = 0 if self.bare else 1
        return max(0, self.size.height - fixed - len(self.head(self.inner_cells)))

    @property
    def inner_cells(self) -> int:
        """Cells inside the right rule."""
        return max(0, self.size.width - (1 if self.box.right_rule else 0))

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        """Title, head and the visible part of the body."""
        inner = self.inner_cells
        self.top = max(0, min(self.top, self.length() - self.body_rows))
        painted = [Painted(one) for one in self.head(inner)]
        painted += self.body(self.top, self.body_rows, inner)
        if self.box.right_rule:
            painted += [Painted(())] * (rows - 1 - len(painted))
            painted = [self._ruled(one, inner) for one in painted]
        return painted if self.bare else [Painted(self._title(cells)), *painted]

    def _ruled(self, painted: Painted, inner: int) -> Painted:
        rule = Span("│", "rule")
        return Painted((*pad(painted.line, inner), rule), painted.tone)

    def _title(self, cells: int) -> Line:
        """`─ 2 Jobs  120 ───`; the focused one is heavier, not only brighter."""
        dash = "━" if self.has_focus else "─"
        number = f"{self.number} " if self.number else ""
        words = Span(f" {number}{self.heading}", self._title_role())
        rest = self.title()
        joint = self.box.joint if self.box.right_rule else ""
        gap = (Span("  "),) if width(rest) else ()
        room = cells - 3 - len(joint)
        content = cut((words, *gap, *rest), room)
        fill = max(0, cells - 2 - width(content) - len(joint))
        rule = Span(f"{dash * fill}{joint}", "rule")
        return (Span(dash, "rule"), *content, Span(" "), rule)

    def _title_role(self) -> Literal["focus", "title"]:
        return "focus" if self.has_focus else "title"

    def watch_has_focus(self, value: bool) -> None:  # noqa: FBT001 - Textual's
        super().watch_has_focus(value)
        self.repaint()
        if value:
            self.post_message(self.Focused(self))

    # ---------------------------------------------------------------- scrolling
    def scroll_lines(self, lines: int) -> None:
        """Move the body by `lines`, down when positive."""
        top = max(0, min(self.top + lines, self.length() - self.body_rows))
        if top != self.top:
            self.top = top
            self.repaint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

    def move(self, how: str) -> None:
        """Carry out a `move.*` command; panes with a cursor move that instead."""
        page = max(1, self.body_rows // 2)
        steps = {
            "down": 1,
            "up": -1,
            "half_down": page,
            "half_up": -page,
            "first": -self.length(),
            "last": self.length(),
        }
        if how in steps:
            self.scroll_lines(steps[how])
