"""The table of jobs: which columns it has at a width, and what stands in them.

WHY never goes. As the screen narrows the usual ones leave in a fixed order: executor
id, TREND, TIME; last the progress becomes a percentage. Parameters and metrics that
have no room are scrolled to; the other columns stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    fit,
    join,
    outside,
    render_sparkline,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import PlanWords, find_value
from autoexp_tui.cockpit.state.reasons import find_common_reason
from autoexp_tui.cockpit.state.rows import Column, Kind, is_falling, sort_by, sort_next
from autoexp_tui.cockpit.state.session import JobView, Look, SessionView, render_badge
from autoexp_tui.cockpit.widgets.pane import ListPane
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import short
from autoexp_tui.text.spelling import (
    format_elapsed,
    format_metric,
    format_percent,
    format_progress,
    plural,
)

GUTTER: Final = 3
"""Cells left of the first column: cursor, mark, gap."""
WHY_MINIMUM: Final = 16
_WHY_WANTED: Final = ((200, 36), (120, 18), (0, WHY_MINIMUM))
"""From a width of the screen on: the cells that WHY is given before others."""
_NARROWEST: Final = {"parameter": 6, "name": 20}
"""Columns that are narrowed for others, and how far."""
_DROPS: Final = {"id": 130, "trend": 110, "time": 100}
"""Of the usual columns: what goes, in this order, below which width of the screen."""
_WHY_LEAST: Final = 8
_GIVEN: Final[Sequence[tuple[Kind, int | None]]] = (
    ("id", None),
    ("trend", None),
    ("time", WHY_MINIMUM),
    ("parameter", WHY_MINIMUM),
    ("node", WHY_MINIMUM),
    ("attempt", WHY_MINIMUM),
    ("name", WHY_MINIMUM),
    ("stage", _WHY_LEAST),
    ("loss", _WHY_LEAST),
    ("progress", _WHY_LEAST),
)
"""What goes, in this order, where columns narrowed leave WHY less than these cells, or
(None) less than it wants; of those that scroll the third goes."""
_FEWEST_SCROLLING: Final = 2
_SCROLLING: Final = ("parameter", "metric")
_PERCENT_BELOW: Final = 76
"""Columns of the screen below which the progress is a percentage."""
_FEWER_BELOW: Final = 90
"""The same for two scrolling columns, not three, that others make room for."""
_LIVELY: Final = frozenset({Look.RUNNING, Look.STALLED, Look.FAILED})
"""Looks whose trend is worth a colour."""


_PLAIN: Final[Mapping[str, Column]] = {
    one.kind: one
    for one in (
        Column("state", "STATE", 11),
        Column("stage", "STAGE", 5),
        Column("name", "NAME", 8),
        Column("progress", "PROGRESS", 9, right=True, falling=True),
        Column("trend", "TREND", 8),
        Column("time", "TIME", 5, right=True, falling=True),
        Column("id", "ID", 10),
        Column("node", "NODE", 6),
        Column("attempt", "TRY", 3, right=True, falling=True),
    )
}
"""Columns that are the same in every plan."""
_WIDEST: Final = {"state": 14, "stage": 12, "name": 40, "node": 14}
"""Those that are as wide as what stands in them, and how wide at most."""


class Columns(NamedTuple):
    """The columns of a table."""

    shown: tuple[Column, ...]
    """Those that have room, WHY the last."""
    offered: tuple[Column, ...]
    """Those and what scrolling brings, in their order."""
    first: int
    """How many of the scrolling ones are left of the first that is shown."""
    hidden: int
    """How many have no room."""


def list_usual(session: SessionView, words: PlanWords) -> tuple[str, ...]:
    """Ids of the columns of a table of which nobody chose any."""
    stage = ("stage",) if any(job.stage for job in session.jobs) else ()
    swept = (f"parameter:{entry.key}" for entry in words.parameters)
    return (*stage, *swept, "progress", "loss", "trend", "time", "id")


def list_choosable(session: SessionView, words: PlanWords) -> tuple[str, ...]:
    """Ids of all columns that a table may have, the usual ones first."""
    metrics: dict[str, None] = {}
    for job in session.jobs:
        metrics |= dict.fromkeys(job.list_metrics())
    swept = (f"parameter:{key}" for key in words.swept)
    more = ("name", "node", "attempt", *swept, *(f"metric:{key}" for key in metrics))
    return tuple(dict.fromkeys((*list_usual(session, words), *more)))


def choose_columns(
    session: SessionView,
    words: PlanWords,
    screen_cells: int,
    table_cells: int,
    chosen: Sequence[str] = (),
    first: int = 0,
) -> Columns:
    """The columns for a table of `table_cells` on a screen of `screen_cells`: the
    `chosen`, else the usual ones; of those that scroll, `first` are skipped.

    Where there is too little for WHY, columns are narrowed, then they go.
    """
    wanted = next(cells for least, cells in _WHY_WANTED if screen_cells >= least)
    ids = chosen or [
        one for one in list_usual(session, words) if screen_cells >= _DROPS.get(one, 0)
    ]
    made = (build_column(one, session, words, screen_cells) for one in ("state", *ids))
    columns = [one for one in made if one is not None]
    moving = [one for one in columns if one.kind in _SCROLLING]
    fixed = [one for one in columns if one.kind not in _SCROLLING]
    first = max(0, min(first, len(moving) - 1))
    shown = moving[first : first + (2 if screen_cells < _FEWER_BELOW else 3)]
    narrowed, why = _narrow((*fixed, *shown), table_cells - GUTTER, wanted)
    for kind, least in _GIVEN:
        if why < (least or wanted):
            fixed = [one for one in fixed if one.kind != kind]
            if kind in _SCROLLING:
                shown = shown[:_FEWEST_SCROLLING]
            narrowed, why = _narrow((*fixed, *shown), table_cells - GUTTER, wanted)
    while why - wanted > 0 and len(shown) < len(moving):  # what is left over
        before = first > 0 and first + len(shown) == len(moving)
        more = moving[first - 1] if before else moving[first + len(shown)]
        if why - more.cells - 1 < wanted:
            break
        why -= more.cells + 1
        first -= before
        shown.insert(0 if before else len(shown), more)
        narrowed[more.id] = more
    table = [narrowed[one.id] for one in columns if one.id in narrowed]
    table.append(Column("why", "WHY", max(why, 1)))
    offered = [one for one in columns if one in moving or one.id in narrowed]
    wished = len(chosen) or len(list_usual(session, words))
    return Columns(tuple(table), (*offered, table[-1]), first, wished + 2 - len(table))


def _narrow(
    columns: Sequence[Column], room: int, wanted: int
) -> tuple[dict[str, Column], int]:
    """Columns by id, the widest narrowed until WHY has `wanted` cells or no more can
    be; and the cells of WHY."""
    found = {one.id: one for one in columns}
    why = room - sum(one.cells + 1 for one in columns)
    while why < wanted:
        able = [
            one
            for one in found.values()
            if one.cells > _NARROWEST.get(one.kind, one.cells)
        ]
        if not able:
            break
        widest = max(able, key=lambda one: one.cells)
        found[widest.id] = replace(widest, cells=widest.cells - 1)
        why += 1
    return found, why


def build_column(
    name: str, session: SessionView, words: PlanWords, screen_cells: int
) -> Column | None:
    """The column of an id, in the cells that it takes by itself; None for an id of
    nothing that is there."""
    kind, _, key = name.partition(":")
    usual = _PLAIN.get(kind)
    match kind:
        case "parameter" if key in words.swept:
            entry = words.swept[key]
            least = min(cell_len(entry.label), 10)
            cells = _find_widest({*entry.values, "-"}, least, 12)
            return Column("parameter", entry.label, cells, key=key, entry=entry)
        case "metric" if key:
            return _build_number_column("metric", outside(key), key=key)
        case "loss":
            return _build_result_column(session)
        case "progress" if usual and screen_cells < _PERCENT_BELOW:
            return replace(usual, title="DONE", cells=5)
        case "trend" if usual and screen_cells < _DROPS["id"]:
            return replace(usual, cells=6)
    if usual is not None and kind in _WIDEST:
        looks = (f"{look.glyph} {look}" for look in session.counts)
        texts = (
            looks if kind == "state" else (usual.find_text(one) for one in session.jobs)
        )
        return replace(usual, cells=_find_widest(texts, usual.cells, _WIDEST[kind]))
    return usual


def _build_number_column(kind: Kind, title: str, **more: Any) -> Column:
    cells = max(6, min(cell_len(title), 10))
    return Column(kind, shorten(title, cells, middle=True), cells, right=True, **more)


def _build_result_column(session: SessionView) -> Column:
    """Named by what the jobs' results are, where they are the same and no loss."""
    plan, names, modes = session.snapshot.plan, set(), set()
    if plan is not None:
        rules = [plan.rules_of(job.record.spec) for job in session.jobs]
        names = {one.result.metric or one.loss or "loss" for one in rules}
        modes = {one.result.mode for one in rules}
    title = "LOSS"
    if not all(name.endswith("loss") for name in names):
        title = names.pop().upper() if len(names) == 1 else "RESULT"
    return _build_number_column("loss", title, falling=modes == {"max"})


def _find_widest(values: Iterable[str], least: int, most: int) -> int:
    widest = max((cell_len(outside(value)) for value in values), default=0)
    return max(least, min(widest, most))


def render_titles(
    columns: Sequence[Column], sorted_by: str = "", glyph: str = ""
) -> Line:
    """The line of column titles, gutter included; `glyph` marks the one sorted by, of
    that id."""
    titles: list[Line] = []
    for column in columns:
        title = Span(column.title, "muted")
        if column.id == sorted_by:
            text = fit(column.title, column.cells - len(glyph)).rstrip() + glyph
            title = Span(text, "accent")
        titles.append((_format_cell(column, title),))
    return (Span(" " * GUTTER, "muted"), *join(titles, " ", "muted"))


def render_row(
    jobs: Sequence[JobView], columns: Sequence[Column], session: SessionView
) -> Line:
    """The line of a job, or of several folded into one, gutter left out."""
    cells = (_format_cell(one, _build_cell(jobs, one, session)) for one in columns)
    return join(cells, " ")


def _format_cell(column: Column, content: Span) -> Span:
    return Span(fit(content.text, column.cells, right=column.right), content.role)


def _build_cell(jobs: Sequence[JobView], column: Column, session: SessionView) -> Span:
    """Of several jobs state, stage, values, how many, why."""
    job, cells, number = jobs[0], column.cells, len(jobs)
    match column.kind:
        case "why":
            role = job.look.role if job.is_needy else "muted"
            reason = find_common_reason(jobs, session)
            return Span(reason if number == 1 else f"{number}x {reason}", role)
        case "parameter" if number > 1 and column.entry:
            values = {find_value(one.record.spec, column.entry) for one in jobs}
            return Span(
                values.pop() if len(values) == 1 else f"({len(values)})", "muted"
            )
        case "state":
            # From the second attempt on with its number, where there is room.
            look, attempts = render_badge(job.look), len(job.record.attempts)
            for text in (f"{look.text} #{attempts}", f"{look.text}#{attempts}"):
                if attempts > 1 and cell_len(text) <= cells:
                    return Span(text, look.role)
            return look
        case "stage" | "name" if column.kind == "stage" or number == 1:
            return Span(shorten(outside(column.find_text(job)), cells, middle=True))
        case _ if number > 1:
            return Span("", "muted")
        case "parameter" if column.entry:
            value = find_value(job.record.spec, column.entry)
            return Span(shorten(value, cells, middle=True))
        case "progress":
            spell = format_percent if column.title == "DONE" else format_progress
            return _mute_dash(spell(job.step, job.total))
        case "loss":
            return _build_number(session.find_result(job))
        case "metric":
            return _build_number(job.find_metric(column.key))
        case "trend":
            role = job.look.role if job.look in _LIVELY else "muted"
            return Span(render_sparkline(job.live.trend, cells), role)
        case "time":
            return Span(format_elapsed(job.measure_run(session.now)), "muted")
        case "id" | "node":
            text = outside(column.find_text(job)) or "-"
            return Span(shorten(text, cells, middle=True), "muted")
        case "attempt":
            return _mute_dash(str(job.attempt.number) if job.attempt else "-")
    return Span("")


def _build_number(value: float | None) -> Span:
    text = format_metric(value)
    ill = text in ("nan", "inf", "-inf")
    return Span(text, "failed") if ill else _mute_dash(text)


def _mute_dash(text: str) -> Span:
    return Span(text, "muted" if text == "-" else "text")


class JobsPane(ListPane):
    """A row a job, or several jobs folded into one."""

    name_in_table = "jobs"
    number = "2"
    heading = "Jobs"
    lead = GUTTER
    always_points = True
    table = Columns((), (), 0, 0)
    _first: int = 0
    """Of the scrolling columns the first that is wanted."""
    _columns_for: tuple[object, ...] = ()

    def renew(self) -> None:
        self._choose_columns()
        self.set_keys(row.key for row in self.model.rows)

    def _choose_columns(self) -> None:
        words, screen = self.model.words, self.screen.size.width
        never = Look.DOOMED in self.model.session.counts  # the widest state
        chosen = self.model.columns
        wish = (words, screen, self.cells, never, chosen, self._first)
        if self.cells and wish != self._columns_for:
            self._columns_for = wish
            self.table = choose_columns(
                self.model.session, words, screen, self.cells, chosen, self._first
            )

    def build_head(self, cells: int) -> Sequence[Line]:
        wanted = self.model.arrangement
        if not self.table.shown:
            return ()
        if wanted.order != "column" or wanted.column is None:
            return (render_titles(self.table.shown),)
        glyph = "▾" if is_falling(wanted) else "▴"
        return (render_titles(self.table.shown, wanted.column.id, glyph),)

    def is_marked(self, key: str) -> bool:
        row = self.model.find_row(key) if key not in self.model.session.index else None
        if row is None:
            return key in self.model.marks
        return any(job.name in self.model.marks for job in self.model.find_jobs(row))

    def row(self, place: int, cells: int) -> Line:
        jobs = self.model.find_jobs(self.model.rows[place])
        return render_row(jobs, self.table.shown, self.model.session)

    def describe_nothing(self) -> str:
        wanted = self.model.arrangement
        total = len(self.model.session.jobs)
        doing = self.model.session.snapshot.engine.doing
        if doing and not total:
            return f" {outside(doing)}{' failed' if self.model.failed else ''}"
        if wanted.filter is not None:
            return f" No job matches {wanted.filter.text}. esc shows all {total}."
        snapshot = self.model.session.snapshot
        names = {"tree": "The search", "research": "The research"}
        kind = next((one for one in names if getattr(snapshot.plan, one, {})), "")
        stopped: Why | None = getattr(snapshot.parts.get(kind), "stopped", None)
        if stopped is None:
            return f" {names.get(kind, 'This plan')} has no jobs."
        key, told = self.context.keymap.key(f"mode.{kind}"), outside(short(stopped))
        return f" {names[kind]} has ended: {told}; {key} tells all of it."

    def move(self, how: str) -> None:
        model, step = self.model, {"right": 1, "left": -1}.get(how, 0)
        if not step:
            super().move(how)
        elif model.arrangement.order == "column" and self.table.shown:
            self.sort(step)
        elif 0 <= self.table.first + step <= self._count_scrolling():
            self._first = self.table.first + step
            self.renew()

    def sort(self, step: int = 0) -> None:
        """Sort by the next column, `step` places to the right, and show it."""
        model, offered = self.model, self.table.offered
        if not offered:
            return
        wanted = sort_next(
            model.session, offered, model.arrangement, step, stale=model.is_stale
        )
        model.update_arrangement(wanted)
        ids = [one.id for one in offered if one.kind in _SCROLLING]
        name = wanted.column.id if wanted.column is not None else ""
        place = ids.index(name) if name in ids else -1
        for first in range(min(place, self.table.first), place + 1):
            if name not in [one.id for one in self.table.shown]:
                self._first = first
                self._choose_columns()
        self.renew()

    def _count_scrolling(self) -> int:
        """How far the scrolling columns can be scrolled."""
        shown = {one.id for one in self.table.shown}
        hidden = (one for one in self.table.offered if one.id not in shown)
        return sum(one.kind in _SCROLLING for one in hidden)

    def find_jobs(self) -> tuple[JobView, ...]:
        if self.cursor >= len(self.model.rows):
            return ()
        return self.model.find_jobs(self.model.rows[self.cursor])

    def describe_row(self) -> str:
        jobs = self.find_jobs()
        return f"{jobs[0].stage} {jobs[0].look}" if len(jobs) > 1 else ""

    def build_title(self) -> Line:
        model, wanted = self.model, self.model.arrangement
        title = wanted.column.title if wanted.column is not None else ""
        role: Role
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
        if self.table.hidden and total:
            parts.append(Span(self._describe_hidden(), "muted"))
        if wanted.order == "needs":
            parts.append(Span("needs you first (. plan order)", "muted"))
        elif wanted.order == "column":
            again = "plan order" if wanted.reversed else "reverses"
            text, role = f"by {title} (, {again}   h l column)", "muted"
            if model.is_stale:
                text, role = f"by {title}, values changed (, sorts again)", "warning"
            parts.append(Span(text, role))
        if len(self.keys) > self.rows_in_body > 0:
            last = min(self.top + self.rows_in_body, len(self.keys))
            parts.append(Span(f"rows {self.top + 1}-{last}", "muted"))
        return join(parts, "   ")

    def _describe_hidden(self) -> str:
        """`+2 hidden`, and the key that brings them: one that scrolls, or else the
        choice of columns."""
        hides_right = self.table.first < self._count_scrolling()
        way = "move.right" if hides_right else "move.left"
        if not (hides_right or self.table.first):
            way = "rows.columns"
        return f"+{self.table.hidden} hidden ({self.context.keymap.key(way)})"

    def click_head(self, cell: int) -> None:
        """Sort by the column whose title was clicked on."""
        left = cell - GUTTER
        for column in self.table.shown if left >= 0 else ():
            left -= column.cells + 1
            if left < 0:
                self.sort_by(column)
                return

    def sort_by(self, column: Column) -> None:
        """Sort by a column; by the one sorted by the other way round."""
        model, wanted = self.model, self.model.arrangement
        last = wanted.column.id if wanted.column and wanted.order == "column" else ""
        is_same = column.id == last
        back = wanted.reversed == model.is_stale if is_same else False
        model.update_arrangement(sort_by(model.session, column, wanted, back=back))
        self.renew()

    def on_resize(self) -> None:
        self._choose_columns()
        super().on_resize()
