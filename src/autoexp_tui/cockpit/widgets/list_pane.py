"""Panes with rows and a cursor, for any number of rows.

Only visible rows are worked out. The cursor belongs to a row's key, not to a place:
when rows come, go or change order, it stays on its row, and that row stays where it is
on the screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.message import Message

from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.widgets.pane import Painted, Pane, Tone, count_lines_moved

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView


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
    nothing: ClassVar[str] = ""
    """What stands where there are no rows, whatever the reason."""
    keys: tuple[str, ...] = ()
    """The key of every line, in order."""
    cursor: int = 0
    """The line under the cursor: the first of its row."""
    _places: Mapping[str, int] = MappingProxyType({})

    def renew(self) -> None:
        """Take the rows of the newest snapshot."""
        raise NotImplementedError

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
        """The last line of the row under the cursor."""
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

    def on_resize(self) -> None:
        self._show_cursor()
        super().on_resize()
