"""The table of jobs: which columns it has at a width, and what stands in them.

WHY never goes. As the screen narrows the others leave in a fixed order: executor id,
TREND, TIME, the third parameter; last the progress becomes a percentage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    ELLIPSIS,
    Line,
    Span,
    fit,
    join,
    outside,
    render_sparkline,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import Parameter, find_value
from autoexp_tui.cockpit.state.reasons import find_common_reason
from autoexp_tui.cockpit.state.rows import Column, is_falling, sort_next
from autoexp_tui.cockpit.state.session import JobView, Look, SessionView, render_badge
from autoexp_tui.cockpit.widgets.pane import ListPane
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
_WHY_WANTED: Final = ((200, 42), (120, 25), (0, WHY_MINIMUM))
"""From a width of the screen on: the cells that WHY is given before others."""
_PARAMETER_MINIMUM: Final = 6
_LETTERS_OF_A_TITLE: Final = 2
"""Of a parameter's name, below which they do not tell it."""
_DROPS: Final = {"id": 130, "trend": 110, "time": 100, "third": 90, "steps": 76}
"""What goes, in this order, below which width of the screen."""
_GIVEN_FOR_WHY: Final = 2
"""How many of them go where parameters shrunk are not enough for what WHY is given; the
others only for its minimum."""
_LIVELY: Final = frozenset({Look.RUNNING, Look.STALLED, Look.FAILED})
"""Looks whose trend is worth a colour."""


def choose_columns(
    session: SessionView,
    parameters: Sequence[Parameter],
    screen_cells: int,
    table_cells: int,
) -> tuple[Column, ...]:
    """The columns for a table of `table_cells` on a screen of `screen_cells`.

    Where long values leave too little for WHY, more columns go, in the same order.
    """
    wanted = next(cells for least, cells in _WHY_WANTED if screen_cells >= least)
    gone = sum(screen_cells < below for below in _DROPS.values())
    while True:
        columns = _build_columns(session, parameters, [*_DROPS][:gone])
        left = table_cells - GUTTER - sum(column.cells + 1 for column in columns)
        why = left + _shrink_parameters(columns, wanted - left)
        enough = wanted if gone < _GIVEN_FOR_WHY else WHY_MINIMUM
        if why >= enough or gone == len(_DROPS):
            return (*columns, Column(kind="why", title="WHY", cells=max(why, 1)))
        gone += 1


def _shrink_parameters(columns: list[Column], missing: int) -> int:
    """Narrow parameters, the widest first; by how many cells, up to `missing`."""
    places = [place for place, one in enumerate(columns) if one.kind == "parameter"]
    for given in range(missing):
        widest = max(places, key=lambda place: columns[place].cells, default=None)
        if widest is None or columns[widest].cells <= _PARAMETER_MINIMUM:
            return given
        columns[widest] = replace(columns[widest], cells=columns[widest].cells - 1)
    return max(missing, 0)


def _build_columns(
    session: SessionView,
    parameters: Sequence[Parameter],
    dropped: Sequence[str],
) -> list[Column]:
    cells = _find_widest((f"{look.glyph} {look}" for look in session.counts), 11, 14)
    columns = [Column(kind="state", title="STATE", cells=cells)]
    stages = {job.stage for job in session.jobs}
    if stages - {""}:
        cells = _find_widest(stages, 5, 12)
        columns.append(Column(kind="stage", title="STAGE", cells=cells))
    shown = parameters[: 2 if "third" in dropped else 5 if "id" not in dropped else 3]
    for entry in shown:
        least = min(cell_len(entry.label), 10)
        cells = _find_widest({*entry.values, "-"}, least, 12)
        columns.append(
            Column(kind="parameter", title=entry.label, cells=cells, key=entry.key)
        )
    title, cells = ("DONE", 5) if "steps" in dropped else ("PROGRESS", 9)
    rest = (
        Column(kind="progress", title=title, cells=cells, right=True),
        _build_result_column(session),
        Column(kind="trend", title="TREND", cells=8),
        Column(kind="time", title="TIME", cells=5, right=True),
        Column(kind="id", title="ID", cells=10),
    )
    return [*columns, *(one for one in rest if one.kind not in dropped)]


def _build_result_column(session: SessionView) -> Column:
    """Named by what the jobs' results are, where they are the same and no loss."""
    plan, names = session.snapshot.plan, set()
    if plan is not None:
        rules = (plan.rules_of(job.record.spec) for job in session.jobs)
        names = {one.result.metric or one.loss or "loss" for one in rules}
    title = "LOSS"
    if not all(name.endswith("loss") for name in names):
        title = names.pop().upper() if len(names) == 1 else "RESULT"
    cells = max(6, min(cell_len(title), 10))
    title = shorten(title, cells, middle=True)
    return Column(kind="loss", title=title, cells=cells, right=True)


def _find_widest(values: Iterable[str], least: int, most: int) -> int:
    widest = max((cell_len(outside(value)) for value in values), default=0)
    return max(least, min(widest, most))


def render_titles(
    columns: Sequence[Column], sorted_by: str = "", glyph: str = ""
) -> Line:
    """The line of column titles, gutter included; `glyph` marks the one sorted by."""
    titles: list[Line] = []
    for column in columns:
        title = Span(column.title, "muted")
        if column.title == sorted_by:
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


def _count_values(jobs: Sequence[JobView], column: Column) -> str:
    """The one value, or how many there are: `4 lr`."""
    values = {find_value(job.record.spec, column.key) for job in jobs}
    if len(values) == 1:
        return values.pop()
    text = f"{len(values)} {column.title}"
    if cell_len(text) <= column.cells:
        return text
    text = text[: column.cells].rstrip()
    letters = len(text.partition(" ")[2])
    return text if letters >= _LETTERS_OF_A_TITLE else f"{len(values)} {ELLIPSIS}"


def _build_cell(jobs: Sequence[JobView], column: Column, session: SessionView) -> Span:
    """Of several jobs state, stage, values, how many, why."""
    job, cells, number = jobs[0], column.cells, len(jobs)
    match column.kind:
        case "why":
            role = job.look.role if job.is_needy else "muted"
            reason = find_common_reason(jobs, session)
            return Span(reason if number == 1 else f"{number}x {reason}", role)
        case "parameter" if number > 1:
            return Span(_count_values(jobs, column), "muted")
        case "state":
            # From the second attempt on with its number, where there is room.
            look, attempts = render_badge(job.look), len(job.record.attempts)
            for text in (f"{look.text} #{attempts}", f"{look.text}#{attempts}"):
                if attempts > 1 and cell_len(text) <= cells:
                    return Span(text, look.role)
            return look
        case "stage":
            return Span(shorten(outside(job.stage), cells, middle=True))
        case _ if number > 1:
            return Span("", "muted")
        case "parameter":
            value = find_value(job.record.spec, column.key)
            return Span(shorten(value, cells, middle=True))
        case "progress":
            spell = format_percent if column.title == "DONE" else format_progress
            return _mute_dash(spell(job.step, job.total))
        case "loss":
            text = format_metric(session.find_result(job))
            ill = text in ("nan", "inf", "-inf")
            return Span(text, "failed") if ill else _mute_dash(text)
        case "trend":
            role = job.look.role if job.look in _LIVELY else "muted"
            return Span(render_sparkline(job.live.trend, cells), role)
        case "time":
            return Span(format_elapsed(job.measure_run(session.now)), "muted")
        case "id":
            text = outside(job.attempt.executor_id) if job.attempt else ""
            return Span(shorten(text or "-", cells, middle=True), "muted")


def _mute_dash(text: str) -> Span:
    return Span(text, "muted" if text == "-" else "text")


class JobsPane(ListPane):
    """A row a job, or several jobs folded into one."""

    name_in_table = "jobs"
    number = "2"
    heading = "Jobs"
    lead = GUTTER
    always_points = True
    columns: tuple[Column, ...] = ()
    _columns_for: tuple[object, ...] = ()

    def renew(self) -> None:
        self._choose_columns()
        self.set_keys(row.key for row in self.model.rows)

    def _choose_columns(self) -> None:
        words, screen = self.model.words, self.screen.size.width
        never = Look.DOOMED in self.model.session.counts  # the widest state
        wish = (words, screen, self.cells, never)
        if self.cells and wish != self._columns_for:
            self._columns_for = wish
            self.columns = choose_columns(
                self.model.session, words.parameters, screen, self.cells
            )

    def build_head(self, cells: int) -> Sequence[Line]:
        wanted = self.model.arrangement
        if not self.columns:
            return ()
        if wanted.order != "column":
            return (render_titles(self.columns),)
        glyph = "▾" if is_falling(self.columns, wanted) else "▴"
        return (render_titles(self.columns, wanted.column, glyph),)

    def is_marked(self, key: str) -> bool:
        row = self.model.find_row(key) if key not in self.model.session.index else None
        if row is None:
            return key in self.model.marks
        return any(job.name in self.model.marks for job in self.model.find_jobs(row))

    def row(self, place: int, cells: int) -> Line:
        jobs = self.model.find_jobs(self.model.rows[place])
        return render_row(jobs, self.columns, self.model.session)

    def describe_nothing(self) -> str:
        wanted = self.model.arrangement
        total = len(self.model.session.jobs)
        doing = self.model.session.snapshot.engine.doing
        if doing and not total:
            return f" {outside(doing)}{' failed' if self.model.failed else ''}"
        if wanted.filter is not None:
            return f" No job matches {wanted.filter.text}. esc shows all {total}."
        return " This plan has no jobs."

    def move(self, how: str) -> None:
        model, step = self.model, {"right": 1, "left": -1}.get(how, 0)
        if not step:
            super().move(how)
        elif model.arrangement.order == "column" and self.columns:
            model.update_arrangement(
                sort_next(model.session, self.columns, model.arrangement, step)
            )
            self.renew()

    def find_jobs(self) -> tuple[JobView, ...]:
        if self.cursor >= len(self.model.rows):
            return ()
        return self.model.find_jobs(self.model.rows[self.cursor])

    def describe_row(self) -> str:
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
        return join(parts, "   ")

    def on_resize(self) -> None:
        self._choose_columns()
        super().on_resize()
