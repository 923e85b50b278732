"""The panes that list: stages, jobs, and what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.render import columns as table
from autoexp_tui.cockpit.render.layout import Box
from autoexp_tui.cockpit.render.lists import (
    has_after,
    measure_labels,
    render_after,
    render_below,
    render_cause,
    render_compact,
    render_counts,
    render_evidence,
    render_family,
    render_stage,
    render_waits,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, join, outside
from autoexp_tui.cockpit.state.causes import CauseGroup
from autoexp_tui.cockpit.state.rows import Column, is_falling
from autoexp_tui.cockpit.state.stages import FamilyView, StageView, build_families
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin


_key = itemgetter(0)
"""Of a row, for ten thousand of them."""


class StagesPane(ListPane):
    """The stages with their counts; unfolded, their families."""

    name_in_table = "stages"
    number = "1"
    heading = "Stages"

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.open: set[str] = set()
        self._lines: list[tuple[str, StageView | FamilyView, str]] = []

    def renew(self) -> None:
        """Take the model's newest stages."""
        self._lines = [
            entry for stage in self.model.stages for entry in self._list_stage(stage)
        ]
        keys = tuple(key for key, _, _ in self._lines)
        self.set_keys(self.keys if keys == self.keys else keys)

    def _list_stage(
        self, stage: StageView
    ) -> list[tuple[str, StageView | FamilyView, str]]:
        key = f"stage:{stage.name}"
        if self.bare:
            return [(key, stage, "compact")]
        lines: list[tuple[str, StageView | FamilyView, str]]
        lines = [(key, stage, "head"), (key, stage, "counts")]
        if has_after(stage, self.cells - self.lead):
            lines.append((key, stage, "after"))
        if stage.is_waiting:
            lines.append((key, stage, "waits"))
        if stage.name in self.open:
            parameters = self.model.words.of_families
            lines += [
                (f"family:{one.name}", one, "family")
                for one in build_families(stage, self.model.session, parameters)
            ]
        return lines

    def row(self, place: int, cells: int) -> Line:
        _, entry, kind = self._lines[place]
        if isinstance(entry, FamilyView):
            return render_family(entry, cells)
        room = cells if kind == "compact" else cells - 1
        labels = measure_labels(self.model.stages, room, self._find_name_width())
        match kind:
            case "compact":
                return render_compact(entry, cells, labels, apart=self.skin.ascii)
            case "counts":
                now = self.model.session.now
                room = cells - 1 - len(entry.rails.below)
                told = render_counts(entry, room, now, apart=self.skin.ascii)
                return render_below(entry, told, cells - 1)
            case "after":
                room = cells - 1 - len(entry.rails.below)
                return render_below(entry, render_after(entry, room), cells - 1)
            case "waits":
                room = cells - 1 - len(entry.rails.below)
                return render_below(entry, render_waits(entry, room), cells - 1)
        mark = "▾" if entry.name in self.open else "▹"
        return render_stage(entry, room, labels, mark)

    def _find_name_width(self) -> int:
        """How wide names may be: an enlarged pane shows them whole."""
        if self.cells > 60 and not self.bare:
            return 40
        return 14 if self.bare else 9

    def on_resize(self) -> None:
        self.renew()
        super().on_resize()

    def move(self, how: str) -> None:
        """`last_stage`: what `last` is in other lists, whose key is the grid's here."""
        super().move("last" if how == "last_stage" else how)

    def set_open(self, *, on: bool) -> bool:
        """Show, or hide, the families of the stage under the cursor."""
        stage = self.find_stage()
        if stage is None or self.bare or (stage.name in self.open) == on:
            return False
        (self.open.add if on else self.open.discard)(stage.name)
        self.renew()
        return True

    def find_stage(self) -> StageView | None:
        """The stage under the cursor."""
        entry = self._lines[self.cursor][1] if self._lines else None
        return entry if isinstance(entry, StageView) else None

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the stage, or family, under the cursor."""
        return self._lines[self.cursor][1].jobs if self._lines else ()

    def describe_row(self) -> str:
        """What the row under the cursor is called."""
        if not self._lines:
            return ""
        entry = self._lines[self.cursor][1]
        if isinstance(entry, FamilyView):
            return f"family {entry.label}"
        return f"stage {entry.name}"


class NeedsPane(ListPane):
    """What needs a person, by cause."""

    name_in_table = "needs"
    number = "5"
    heading = "Needs you"

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.with_evidence = False
        self._lines: list[tuple[CauseGroup, Line | None]] = []

    def set_box(self, box: Box) -> None:
        self.with_evidence = box.width > 50
        super().set_box(box)

    def renew(self) -> None:
        """Take the model's newest causes."""
        self._lines = []
        for group in self.model.groups:
            self._lines.append((group, None))
            if self.with_evidence:
                self._lines += [
                    (group, one) for one in list(render_evidence(group))[:6]
                ]
        keys = tuple(group.key for group, _ in self._lines)
        self.set_keys(self.keys if keys == self.keys else keys)

    def build_title(self) -> Line:
        return (Span("by cause", "muted"),)

    def describe_nothing(self) -> Line:
        return (
            Span(f" {self.model.describe_opening() or 'nobody is needed'}", "muted"),
        )

    def row(self, place: int, cells: int) -> Line:
        group, evidence = self._lines[place]
        if evidence is None:
            return render_cause(group, cells - 1, apart=self.skin.ascii)
        return cut((Span("     "), *evidence), cells - 1)

    def find_group(self) -> CauseGroup | None:
        """The cause under the cursor."""
        return self._lines[self.cursor][0] if self._lines else None

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the cause under the cursor."""
        group = self.find_group()
        return group.jobs if group is not None else ()

    def describe_row(self) -> str:
        """What the cause under the cursor is called."""
        group = self.find_group()
        return group.title if group is not None else ""


class JobsPane(ListPane):
    """The table of jobs."""

    name_in_table = "jobs"
    number = "2"
    heading = "Jobs"
    lead = table.GUTTER

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
        words = self.model.words
        screen = self.screen.size.width
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
        row = self.model.rows[place]
        jobs = self.model.find_jobs(row)
        if row.folded:
            return table.render_group(jobs, self.columns, self.model.session)
        return table.render_job(jobs[0], self.columns, self.model.session)

    def describe_nothing(self) -> Line:
        wanted = self.model.arrangement
        total = len(self.model.session.jobs)
        doing = self.model.session.snapshot.engine.doing
        if doing and not total:
            text = f" {outside(doing)}{' failed' if self.model.failed else ''}"
        elif wanted.filter is not None:
            text = f" No job matches {wanted.filter.text}. esc shows all {total}."
        else:
            text = " This plan has no jobs."
        return (Span(text, "muted"),)

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs of the row under the cursor."""
        if self.cursor >= len(self.model.rows):
            return ()
        return self.model.find_jobs(self.model.rows[self.cursor])

    def describe_row(self) -> str:
        """What a folded row under the cursor is called."""
        jobs = self.find_jobs()
        return f"{jobs[0].stage} {jobs[0].look}" if len(jobs) > 1 else ""

    @property
    def is_pointed(self) -> bool:
        return True

    def build_title(self) -> Line:
        parts: list[Line] = [
            self._count_rows(),
            *self._describe_filter(),
            *self._describe_marks(),
            *self._describe_order(),
        ]
        if len(self.keys) > self.rows_in_body > 0:
            last = min(self.top + self.rows_in_body, len(self.keys))
            parts.append((Span(f"rows {self.top + 1}-{last}", "muted"),))
        return join(parts, "   ")

    def _count_rows(self) -> Line:
        wanted = self.model.arrangement
        total = len(self.model.session.jobs)
        rows = len(self.model.rows)
        shown = self.model.count_shown()
        if wanted.fold and rows < shown:
            text = f"{plural(rows, 'row')} of {shown} jobs, folded (enter)"
            return (Span(text, "muted"),)
        return (Span(f"{shown} of {total}" if shown != total else f"{total}", "muted"),)

    def _describe_filter(self) -> Sequence[Line]:
        wanted = self.model.arrangement
        parts: list[Line] = []
        if wanted.only is not None:
            parts.append((Span(f"only {wanted.only[0]} (esc)", "accent"),))
        if wanted.filter is not None:
            parts.append((Span(f"/{wanted.filter.text} (esc)", "accent"),))
        return parts

    def _describe_order(self) -> Sequence[Line]:
        wanted = self.model.arrangement
        parts: list[Line] = []
        if wanted.order == "needs":
            parts.append((Span("needs you first (. plan order)", "muted"),))
        elif wanted.order == "column":
            parts.append(
                (Span(f"by {wanted.column} ({self._describe_sort_keys()})", "muted"),)
            )
        return parts

    def _describe_sort_keys(self) -> str:
        back = ", plan order" if self.model.arrangement.reversed else ", reverses"
        return f"{back}   h l column"

    def _describe_marks(self) -> Sequence[Line]:
        marks = len(self.model.marks)
        parts: list[Line] = []
        if marks:
            parts.append((Span(f"{marks} marked", "accent"),))
        if self.model.range_from:
            parts.append((Span("range open (v ends it)", "accent"),))
        return parts

    def on_resize(self) -> None:
        self._choose_columns()
        super().on_resize()
