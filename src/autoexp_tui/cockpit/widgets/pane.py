"""The base of every pane: lines in a box, repainted only where they changed.

Of lists only visible rows are worked out. The cursor belongs to a row's key, not to a
place: when rows come, go or change order, it stays on its row, and that row stays where
it is on the screen.

`draw_strip` is the one door through which text reaches the screen: every span is
cleaned there and becomes a segment with a style, never markup or an escape sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    cast,
)

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from autoexp_tui.cockpit.render.layout import Box
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    line,
    outside,
    pad,
    plain,
    width,
)
from autoexp_tui.cockpit.state.session import JobView, Look
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext, ScreenContext
    from autoexp_tui.cockpit.keymap import Pane as PaneName
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.themes import Skin

Tone: TypeAlias = Literal["", "cursor", "away"]

HEADER_ROWS: Final = 2
"""Of a screen that is not low: only such a one has panes side by side."""

_TWINS: Final = str.maketrans(
    {
        **{look.glyph: look.twin for look in Look},
        **dict.fromkeys("┬┤├┼┴└┌┐┘", "+"),
        **dict(zip("…─━│▾▴▹█░▒╌", "~-=|v^>#.=-", strict=True)),
        **dict(zip("▁▂▃▄▅▆▇★●○é▓±▴→↓", "__--==^**oe%~^>v", strict=True)),
    }
)


def to_ascii(text: str) -> str:
    """`text` in ASCII, each character by as many cells as it took."""
    if text.isascii():
        return text
    found = []
    for character in text.translate(_TWINS):
        if character.isascii():
            found.append(character)
        elif "\u2800" <= character <= "\u28ff":
            found.append("*" if character != "\u2800" else " ")
        else:
            found.append("?" * cell_len(character))
    return "".join(found)


def draw_strip(
    content: Line, skin: Skin, cells: int, over: Style | None = None
) -> Strip:
    """The line as a strip of exactly `cells` cells; `over` is laid over every span."""
    segments: list[Segment] = []
    left = cells
    is_reverse = over is not None and bool(over.reverse)
    ground = skin.base + over if over is not None else skin.base
    for span in content:
        text = span.text
        if not (text.isascii() and text.isprintable()):
            text = clean(text)
            text = to_ascii(text) if skin.ascii else text
        size = cell_len(text)
        if size > left:
            text, size = set_cell_size(text, left), left
        style = skin.base if is_reverse else skin.roles.get(span.role, skin.base)
        segments.append(Segment(text, style + over if over is not None else style))
        left -= size
        if left <= 0:
            break
    if left > 0:
        segments.append(Segment(" " * left, ground))
    return Strip(segments, cells)


class Painted(NamedTuple):
    """A line as drawn, and what is laid over it."""

    line: Line
    tone: Tone = ""


class LinesWidget(Widget, can_focus=False, inherit_css=False):
    """Draws lines; subclasses say which in `compose_lines`."""

    ALLOW_SELECT = False
    _lines_shown: tuple[Painted, ...] = ()

    def __init__(self, context: ScreenContext, **options: Any) -> None:
        """A widget outside of a session reads only how screens look, and the time."""
        super().__init__(**options)
        self.context = cast("CockpitContext", context)

    @property
    def skin(self) -> Skin:
        return self.context.skin

    @property
    def model(self) -> SessionModel:
        return self.context.model

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        """The visible lines, at most `rows` of them, at most `cells` wide."""
        raise NotImplementedError

    def update_lines(self) -> None:
        """Work the lines out again and draw those that changed."""
        cells, rows = self.size
        if not rows or not self.is_attached:
            return
        fresh = tuple(
            Painted(pad(one.line, cells), one.tone)
            for one in self.compose_lines(cells, rows)[:rows]
        )
        fresh += (Painted(pad((), cells)),) * (rows - len(fresh))
        old, self._lines_shown = self._lines_shown, fresh
        if len(old) != len(fresh):
            self.refresh()
            return
        regions = []
        for y, (before, after) in enumerate(zip(old, fresh, strict=True)):
            if before != after:
                start, end = _find_change(before, after, cells)
                regions.append(Region(start, y, end - start, 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One line as a strip: called by the compositor for dirty lines."""
        cells = self.size.width
        if y >= len(self._lines_shown):
            return draw_strip((), self.skin, cells)
        painted = self._lines_shown[y]
        over = {"cursor": self.skin.cursor, "away": self.skin.away}.get(painted.tone)
        return draw_strip(painted.line, self.skin, cells, over)

    def on_resize(self) -> None:
        self._lines_shown = ()
        self.update_lines()

    def watch_has_focus(self, value: bool) -> None:  # noqa: FBT001 - Textual's
        super().watch_has_focus(value)
        self.update_lines()

    def scroll_lines(self, lines: int) -> None:
        """Move the lines, down when positive."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)


def _find_change(before: Painted, after: Painted, cells: int) -> tuple[int, int]:
    """From where on, and up to where, two lines of `cells` cells differ."""
    if before.tone != after.tone:
        return 0, cells
    old, new = before.line, after.line
    first = _count_equal(old, new)
    last = _count_equal(old[:first:-1], new[:first:-1])
    return width(new[:first]), cells - width(new[len(new) - last :])


def _count_equal(old: Sequence[Span], new: Sequence[Span]) -> int:
    """How many spans are equal before the first that differs."""
    pairs = enumerate(zip(old, new, strict=False))
    shorter = min(len(old), len(new))
    return next((place for place, (was, now) in pairs if was != now), shorter)


def set_place(widget: Widget, box: Box) -> None:
    widget.styles.offset = (box.x, box.y)
    widget.styles.width = box.width
    widget.styles.height = box.height


def count_lines_moved(how: str, page: int, most: int) -> int:
    """Lines down for a `move.*` command, by half a `page`, or by all of `most`."""
    steps = {"down": 1, "half_down": page, "last": most}
    back = {"up": 1, "half_up": page, "first": most}
    return steps.get(how, 0) - back.get(how, 0)


class Pane(LinesWidget, can_focus=True):
    """A numbered box with a title rule, a fixed head, and a body that scrolls."""

    name_in_table: PaneName
    number: str = ""
    heading: str = ""
    bare: bool = False
    """Whether it stands without its title rule: the strip of stages."""

    top: int = 0
    """The first line of the body that is visible."""
    _joint: str = ""
    """Where the title meets a line at the right edge; empty: there is none."""

    def build_title(self) -> Line:
        """What the title says after number and heading."""
        return ()

    def build_head(self, cells: int) -> Sequence[Line]:
        """Lines between title and body that do not scroll."""
        return ()

    def count_lines(self) -> int:
        """How many lines the body has."""
        return 0

    def build_body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        """The body's lines from `start` on."""
        return ()

    @property
    def rows_in_body(self) -> int:
        """How many lines of the body are visible."""
        fixed = 0 if self.bare else 1
        return max(0, self.size.height - fixed - len(self.build_head(self.cells)))

    @property
    def cells(self) -> int:
        """Cells inside the right rule."""
        return max(0, self.size.width - len(self._joint))

    def set_box(self, box: Box) -> None:
        """Stand where a box of the screen is; another pane may stand beside it."""
        joint = "┬" if box.y <= HEADER_ROWS else "┤"
        self._joint = joint if box.right < self.screen.size.width else ""
        set_place(self, box)

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        """Title, head and the visible part of the body."""
        inner = self.cells
        self.top = max(0, min(self.top, self.count_lines() - self.rows_in_body))
        painted = [Painted(one) for one in self.build_head(inner)]
        painted += self.build_body(self.top, self.rows_in_body, inner)
        if self._joint:
            painted += [Painted(())] * (rows - 1 - len(painted))
            rule = Span("│", "rule")
            painted = [
                Painted((*pad(one.line, inner), rule), one.tone) for one in painted
            ]
        return painted if self.bare else [Painted(self._build_rule(cells)), *painted]

    def _build_rule(self, cells: int) -> Line:
        """`─ 2 Jobs  120 ───`; the focused one is heavier, not only brighter."""
        number = f"{self.number} " if self.number else ""
        dash = "━" if self.has_focus else "─"
        role: Role = "focus" if self.has_focus else "title"
        words = Span(f" {number}{self.heading}", role)
        rest = self.build_title()
        gap = (Span("  "),) if width(rest) else ()
        content = cut((words, *gap, *rest), cells - 3 - len(self._joint))
        fill = max(0, cells - 2 - width(content) - len(self._joint))
        rule = Span(f"{dash * fill}{self._joint}", "rule")
        return (Span(dash, "rule"), *content, Span(" "), rule)

    def scroll_lines(self, lines: int) -> None:
        top = max(0, min(self.top + lines, self.count_lines() - self.rows_in_body))
        if top != self.top:
            self.top = top
            self.update_lines()

    def move(self, how: str) -> None:
        """Carry out a `move.*` command; panes with a cursor move that instead."""
        page = max(1, self.rows_in_body // 2)
        self.scroll_lines(count_lines_moved(how, page, self.count_lines()))

    def renew(self) -> None:
        """Show the newest snapshot."""
        self.update_lines()

    def copy_text(self) -> str:
        """What is under the cursor, or all, to be copied."""
        return ""


class TextPane(Pane):
    """Lines that a subclass makes for the pane's width; nothing is under a cursor."""

    _lines: Sequence[Line] = ()
    _lines_width: int = -1
    _about: object = None
    """What they are about; about another thing they are shown from the top."""

    def build_lines(self, cells: int) -> Sequence[Line]:
        """All lines, none wider than `cells`."""
        raise NotImplementedError

    def renew(self, about: object = None) -> None:
        """Make the lines again and draw what changed."""
        self._lines_width = -1
        if about != self._about:
            self.top, self._about = 0, about
        self.update_lines()

    def find_lines(self) -> Sequence[Line]:
        if self._lines_width != self.cells:
            self._lines_width = self.cells
            self._lines = self.build_lines(self.cells)
        return self._lines

    def count_lines(self) -> int:
        return len(self.find_lines())

    def build_body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        return [Painted(one) for one in self.find_lines()[start : start + count]]

    def copy_text(self) -> str:
        return "\n".join(plain(one).rstrip() for one in self.find_lines())


class ListPane(Pane):
    """Rows with keys; a row may be several lines, which share its key."""

    class CursorMoved(Message):
        """The cursor is on another row."""

        def __init__(self, pane: ListPane) -> None:
            super().__init__()
            self.pane = pane

    lead: ClassVar[int] = 2
    """Cells before a row: the cursor, the mark, a gap."""
    always_points: ClassVar[bool] = False
    """Whether the cursor is shown while the focus is elsewhere."""
    nothing: str = ""
    """What stands where there are no rows, whatever the reason."""
    keys: tuple[str, ...] = ()
    """The key of every line, in order."""
    cursor: int = 0
    """The line under the cursor: the first of its row."""
    _places: Mapping[str, int] = MappingProxyType({})

    def row(self, place: int, cells: int) -> Line:
        """The line at `place`, gutter left out."""
        raise NotImplementedError

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the row under the cursor."""
        return ()

    def describe_row(self) -> str:
        """What that row is called, where it is more than one job; not cleaned."""
        return ""

    def copy_text(self) -> str:
        return "\n".join(outside(job.name, 2000) for job in self.find_jobs())

    def is_marked(self, key: str) -> bool:
        """Whether the row has a person's mark."""
        return False

    def describe_nothing(self) -> str:
        """What stands where there are no rows."""
        return self.nothing

    def set_keys(self, keys: Iterable[str]) -> None:
        """Take new rows; the cursor's row keeps its place on the screen."""
        if (fresh := tuple(keys)) != self.keys:
            kept, self.keys = self.key, fresh
            places = range(len(fresh))
            self._places = dict(zip(reversed(fresh), reversed(places), strict=True))
            place = self._places.get(kept, min(self.cursor, len(fresh) - 1))
            self.top += place - self.cursor
            self.cursor = max(0, place)
        self.update_lines()

    @property
    def key(self) -> str:
        """The key under the cursor, empty without rows."""
        return self.keys[self.cursor] if self.cursor < len(self.keys) else ""

    def count_lines(self) -> int:
        return len(self.keys)

    def build_body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        if not self.keys:
            return [Painted(line(Span(self.describe_nothing(), "muted")))]
        end = min(start + count, len(self.keys))
        painted = []
        for place in range(start, end):
            key = self.keys[place]
            is_first = place == 0 or self.keys[place - 1] != key
            is_here = key == self.key and (self.always_points or self.has_focus)
            cursor = ">" if is_here and is_first else " "
            mark = "*" if self.lead > 2 and is_first and self.is_marked(key) else ""
            gutter = Span(f"{cursor}{mark}".ljust(self.lead), "accent")
            content = (gutter, *self.row(place, cells - self.lead))
            tone: Tone = "" if not is_here else "cursor" if self.has_focus else "away"
            painted.append(Painted(content, tone))
        return painted

    def move(self, how: str) -> None:
        page = max(1, self.rows_in_body // 2)
        lines = count_lines_moved(how, page, len(self.keys))
        # down from the last line of the row: the next one has another key
        start = self._find_last_line() if how == "down" else self.cursor
        self.move_to(start + lines)

    def _find_last_line(self) -> int:
        last = self.cursor
        while last + 1 < len(self.keys) and self.keys[last + 1] == self.key:
            last += 1
        return last

    def move_to(self, place: int, *, amid: bool = False) -> None:
        """Put the cursor on the row of a line, and show it (`amid` its neighbours)."""
        if not self.keys:
            return
        bounded = max(0, min(place, len(self.keys) - 1))
        target = self._places[self.keys[bounded]]
        moved = target != self.cursor
        self.cursor = target
        self._show_cursor(amid=amid)
        self.update_lines()
        if moved:
            self.post_message(self.CursorMoved(self))

    def move_to_key(self, key: str) -> bool:
        """Put the cursor on a row by key; False when it is not shown."""
        place = self._places.get(key)
        if place is not None:
            self.move_to(place, amid=True)
        return place is not None

    def _show_cursor(self, *, amid: bool = False) -> None:
        rows = max(1, self.rows_in_body)
        if amid and not self.top <= self.cursor < self.top + rows:
            self.top = self.cursor - rows // 2
        self.top = min(self.top, self.cursor)
        last = self._find_last_line()
        self.top = max(self.top, min(last - rows + 1, self.cursor))

    def scroll_lines(self, lines: int) -> None:
        """The wheel moves the view; the cursor follows to stay in it."""
        rows = max(1, self.rows_in_body)
        self.top = max(0, min(self.top + lines, len(self.keys) - rows))
        inside = min(max(self.cursor, self.top), self.top + rows - 1)
        if inside != self.cursor and self.keys:
            self.cursor = self._places[self.keys[min(inside, len(self.keys) - 1)]]
            self.post_message(self.CursorMoved(self))
        self.update_lines()

    def on_click(self, event: events.Click) -> None:
        above = (0 if self.bare else 1) + len(self.build_head(self.cells))
        place = self.top + event.y - above
        if event.y >= above and place < len(self.keys):
            self.move_to(place)
        elif not self.bare and 0 < event.y < above:
            self.click_head(event.x)

    def click_head(self, cell: int) -> None:
        """What a click on the head does, in a cell from the left."""

    def on_resize(self) -> None:
        self._show_cursor()
        super().on_resize()


class FieldsPane(ListPane):
    """Rows of fields; `left` and `right` choose the column under the cursor."""

    column: int = 0

    def count_columns(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def move(self, how: str) -> None:
        step = {"right": 1, "left": -1}.get(how, 0)
        if not step:
            super().move(how)
            return
        self.column = max(0, min(self.column + step, self.count_columns() - 1))
        self.update_lines()
        self.post_message(self.CursorMoved(self))

    def open_row(self) -> tuple[JobView, ...]:
        return self.find_jobs()

    def go_back(self) -> bool:
        """One level back within the pane; False: there is none."""
        return False


def find_fitting(number: int, most: int, at: int) -> range:
    """Of some columns those that are shown, where `most` have room: about one of them;
    at least one."""
    fitting = max(1, min(number, most))
    first = max(0, min(at - fitting // 2, number - fitting))
    return range(first, first + fitting)
