"""The table of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.render import columns as table
from autoexp_tui.cockpit.spans import Line, Span, join, outside
from autoexp_tui.cockpit.state.rows import Column, is_falling
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin


_key = itemgetter(0)
"""Of a row, for ten thousand of them."""


class JobsPane(ListPane):
    """The table of jobs."""

    name_in_table = "jobs"
    number = "2"
    heading = "Jobs"
    lead = table.GUTTER
    always_points = True

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.columns: tuple[Column, ...] = ()
        self._columns_for: tuple[object, ...] = ()
        self._keys_for: object = None

    def renew(self) -> None:
        """Take the model's newest rows."""
        self._choose_columns()
        if self._keys_for is not self.model.rows:
            self._keys_for = self.model.rows
            keys = tuple(map(_key, self.model.rows))
            self.set_keys(self.keys if keys == self.keys else keys)
        else:
            self.update_lines()

    def _choose_columns(self) -> None:
        words, screen = self.model.words, self.screen.size.width
        wish = (words, screen, self.cells)
        if self.cells and wish != self._columns_for:
            self._columns_for = wish
            self.columns = table.choose_columns(
                self.model.session, words.parameters, screen, self.cells
            )

    def build_head(self, cells: int) -> Sequence[Line]:
        wanted = self.model.arrangement
        if not self.columns:
            return ()
        if wanted.order != "column":
            return (table.render_titles(self.columns),)
        glyph = "▾" if is_falling(self.columns, wanted) else "▴"
        return (table.render_titles(self.columns, wanted.column, glyph),)

    def is_marked(self, key: str) -> bool:
        row = self.model.row(key) if key not in self.model.session.index else None
        if row is None:
            return key in self.model.marks
        return any(job.name in self.model.marks for job in self.model.find_jobs(row))

    def row(self, place: int, cells: int) -> Line:
        jobs = self.model.find_jobs(self.model.rows[place])
        return table.render_row(jobs, self.columns, self.model.session)

    def describe_nothing(self) -> str:
        wanted = self.model.arrangement
        total = len(self.model.session.jobs)
        doing = self.model.session.snapshot.engine.doing
        if doing and not total:
            return f" {outside(doing)}{' failed' if self.model.failed else ''}"
        if wanted.filter is not None:
            return f" No job matches {wanted.filter.text}. esc shows all {total}."
        return " This plan has no jobs."

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the row under the cursor."""
        if self.cursor >= len(self.model.rows):
            return ()
        return self.model.find_jobs(self.model.rows[self.cursor])

    def describe_row(self) -> str:
        """What a folded row under the cursor is called."""
        jobs = self.find_jobs()
        return f"{jobs[0].stage} {jobs[0].look}" if len(jobs) > 1 else ""

    def build_title(self) -> Line:
        model, wanted = self.model, self.model.arrangement
        total, rows = len(model.session.jobs), len(model.rows)
        shown = sum(len(row.jobs) for row in model.rows) if wanted.fold else rows
        if wanted.fold and rows < shown:
            text = f"{plural(rows, 'row')} of {shown} jobs, folded (enter)"
        else:
            text = f"{shown} of {total}" if shown != total else f"{total}"
        parts = [Span(text, "muted")]
        if wanted.only is not None:
            parts.append(Span(f"only {wanted.only[0]} (esc)", "accent"))
        if wanted.filter is not None:
            parts.append(Span(f"/{wanted.filter.text} (esc)", "accent"))
        if model.marks:
            parts.append(Span(f"{len(model.marks)} marked", "accent"))
        if model.range_from:
            parts.append(Span("range open (v ends it)", "accent"))
        if wanted.order == "needs":
            parts.append(Span("needs you first (. plan order)", "muted"))
        elif wanted.order == "column":
            again = ", plan order" if wanted.reversed else ", reverses"
            text = f"by {wanted.column} ({again}   h l column)"
            parts.append(Span(text, "muted"))
        if len(self.keys) > self.rows_in_body > 0:
            last = min(self.top + self.rows_in_body, len(self.keys))
            parts.append(Span(f"rows {self.top + 1}-{last}", "muted"))
        return join(((part,) for part in parts), "   ")

    def on_resize(self) -> None:
        self._choose_columns()
        super().on_resize()
