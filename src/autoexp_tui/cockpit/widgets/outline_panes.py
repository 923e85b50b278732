"""The panes of modes 6 and 7. All of them draw from one outline, which the screen makes
of the newest snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.outline import Outline
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.widgets.pane import ListPane, TextPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView


class OutlinePane(ListPane):
    """The rows."""

    always_points = True
    outline: Outline | None = None

    def renew(self) -> None:
        self.set_keys(self.outline.keys if self.outline else ())

    def build_title(self) -> Line:
        return self.outline.build_title() if self.outline else ()

    def build_head(self, cells: int) -> Sequence[Line]:
        return self.outline.build_head(cells) if self.outline else ()

    def row(self, place: int, cells: int) -> Line:
        return self.outline.build_row(place, cells) if self.outline else ()

    def find_jobs(self) -> tuple[JobView, ...]:
        return self.outline.find_jobs(self.key) if self.outline else ()

    def copy_text(self) -> str:
        """Where the row's files are."""
        return self.outline.find_files(self.key) if self.outline else ""


class DetailPane(TextPane):
    """All that is known of one row."""

    heading = "Detail"
    outline: Outline | None = None
    key: str = ""
    records: object = None
    """What its files say; None: they were not read."""

    def build_title(self) -> Line:
        return line(outside(self.outline.name_row(self.key))) if self.outline else ()

    def show(self, key: str) -> None:
        """Show a row; another one from its beginning."""
        is_other = key != self.key
        self.key = key
        if is_other:
            self.records = None
        self.renew(to_top=is_other)

    def take_records(self, key: str, records: object) -> None:
        """Show what the files of a row say, if it is still the one that is shown."""
        if self.key == key and records != self.records:
            self.records = records
            self.renew()

    def build_lines(self, cells: int) -> Sequence[Line]:
        if self.outline is None or self.key not in self.outline.keys:
            return ()
        return self.outline.build_detail(self.key, self.records, cells)


class LowerPane(TextPane):
    """What comes of it; one line where the screen is low."""

    can_focus = False
    outline: Outline | None = None
    about: str = ""
    """What stands in it, for its title."""

    def build_title(self) -> Line:
        return line(Span(self.about, "muted"))

    def build_lines(self, cells: int) -> Sequence[Line]:
        rows = self.size.height - (not self.bare)
        return self.outline.build_below(cells, rows) if self.outline else ()
