"""Which columns the job table has at a width, and what stands in them.

WHY never goes. As the screen narrows the others leave in a fixed order: executor id,
TREND, TIME, the third parameter; last the progress becomes a percentage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    ELLIPSIS,
    Line,
    Role,
    Span,
    fit,
    fit_right,
    outside,
    render_sparkline,
    shorten_middle,
)
from autoexp_tui.cockpit.state.parameters import Parameter, find_value
from autoexp_tui.cockpit.state.reasons import find_common_reason, find_reason
from autoexp_tui.cockpit.state.rows import Column, Kind
from autoexp_tui.cockpit.state.session import measure_run
from autoexp_tui.cockpit.state.status import FACES, Look, badge
from autoexp_tui.text import spelling

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView


GUTTER: Final = 3
"""Cells left of the first column: cursor, mark, gap."""


WHY_MINIMUM: Final = 16


_WHY_WANTED: Final = ((200, 45), (120, 28))
"""From a width of the screen on: the cells that WHY is given before others."""


_GIVEN_FOR_WHY: Final = ("id", "trend")
"""What goes, in this order, where parameters shrunk are not enough for that."""


_PARAMETER_MINIMUM: Final = 6


_LETTERS_OF_A_TITLE: Final = 2
"""Of a parameter's name, below which they do not tell it."""


TREND_CELLS: Final = 8


_DROPS: Final = (("id", 130), ("trend", 110), ("time", 100), ("third", 90))


_PERCENT_BELOW: Final = 76


def choose_columns(
    session: SessionView,
    parameters: Sequence[Parameter],
    screen_cells: int,
    table_cells: int,
) -> tuple[Column, ...]:
    """The columns for a table of `table_cells` on a screen of `screen_cells`.

    Where long values leave too little for WHY, more columns go, in the same order.
    """
    dropped = [name for name, below in _DROPS if screen_cells < below]
    percent = screen_cells < _PERCENT_BELOW
    rest = [name for name, _ in _DROPS if name not in dropped]
    wanted = _why_wanted(screen_cells)
    while True:
        columns = _columns(session, parameters, dropped, percent=percent)
        columns = _shrunk(columns, wanted - _left_over(columns, table_cells))
        why = _left_over(columns, table_cells)
        if why < wanted and rest and rest[0] in _GIVEN_FOR_WHY:
            dropped.append(rest.pop(0))
        elif why >= WHY_MINIMUM or (not rest and percent):
            column = Column(kind="why", title="WHY", cells=max(why, 1))
            return (*columns, column)
        elif rest:
            dropped.append(rest.pop(0))
        else:
            percent = True


def _why_wanted(screen_cells: int) -> int:
    wanted = (cells for least, cells in _WHY_WANTED if screen_cells >= least)
    return next(wanted, WHY_MINIMUM)


def _left_over(columns: Sequence[Column], table_cells: int) -> int:
    return table_cells - GUTTER - sum(column.cells + 1 for column in columns)


def _shrunk(columns: list[Column], missing: int) -> list[Column]:
    """The columns with parameters narrower, the widest first, by up to `missing`."""
    found = list(columns)
    places = [place for place, one in enumerate(found) if one.kind == "parameter"]
    for _ in range(missing):
        widest = max(places, key=lambda place: found[place].cells, default=None)
        if widest is None or found[widest].cells <= _PARAMETER_MINIMUM:
            break
        found[widest] = replace(found[widest], cells=found[widest].cells - 1)
    return found


def _columns(
    session: SessionView,
    parameters: Sequence[Parameter],
    dropped: Sequence[str],
    *,
    percent: bool,
) -> list[Column]:
    jobs = session.jobs
    columns = [Column(kind="state", title="STATE", cells=11)]
    stages = {job.stage for job in jobs}
    if stages - {""}:
        columns.append(
            Column(kind="stage", title="STAGE", cells=_widest(stages, 5, 12))
        )
    shown = parameters[: 2 if "third" in dropped else 5 if "id" not in dropped else 3]
    columns += [_parameter_column(entry) for entry in shown]
    columns.append(
        Column(kind="progress", title="DONE", cells=5, right=True)
        if percent
        else Column(kind="progress", title="PROGRESS", cells=9, right=True)
    )
    columns.append(_result_column(session))
    if "trend" not in dropped:
        columns.append(Column(kind="trend", title="TREND", cells=TREND_CELLS))
    if "time" not in dropped:
        columns.append(Column(kind="time", title="TIME", cells=5, right=True))
    if "id" not in dropped:
        columns.append(Column(kind="id", title="ID", cells=10))
    return columns


def _result_column(session: SessionView) -> Column:
    """Named by what the jobs' results are, where they are the same and no loss."""
    names = _results(session)
    title = "LOSS"
    if not all(name.endswith("loss") for name in names):
        title = next(iter(names)).upper() if len(names) == 1 else "RESULT"
    cells = max(6, min(cell_len(title), 10))
    title = shorten_middle(title, cells)
    return Column(kind="loss", title=title, cells=cells, right=True)


def _results(session: SessionView) -> frozenset[str]:
    plan = session.snapshot.plan
    if plan is None:
        return frozenset()
    rules = {
        id(one): one for one in (plan.rules_of(j.record.spec) for j in session.jobs)
    }
    return frozenset(one.result.metric or one.loss or "loss" for one in rules.values())


def _parameter_column(entry: Parameter) -> Column:
    return Column(
        kind="parameter",
        title=entry.label,
        cells=_widest({*entry.values, "-"}, min(cell_len(entry.label), 10), 12),
        key=entry.key,
    )


def _widest(values: set[str], least: int, most: int) -> int:
    widest = max((cell_len(outside(value)) for value in values), default=0)
    return max(least, min(widest, most))


def render_titles(
    columns: Sequence[Column], sorted_by: str = "", glyph: str = ""
) -> Line:
    """The line of column titles, gutter included; `glyph` marks the one sorted by."""
    spans = [Span(" " * GUTTER, "muted")]
    for column in columns:
        if column.title == sorted_by:
            title = fit(column.title, column.cells - len(glyph)).rstrip() + glyph
            spans.append(Span(_align(column, title), "accent"))
        else:
            spans.append(Span(_align(column, column.title), "muted"))
        spans.append(Span(" ", "muted"))
    return tuple(spans[:-1])


def render_job(job: JobView, columns: Sequence[Column], session: SessionView) -> Line:
    """One job's line, gutter left out."""
    spans: list[Span] = []
    for column in columns:
        content = _CELLS[column.kind](job, column, session)
        if spans:
            spans.append(Span(" "))
        spans.append(Span(_align(column, content.text), content.role))
    return tuple(spans)


def render_group(
    jobs: Sequence[JobView], columns: Sequence[Column], session: SessionView
) -> Line:
    """The line of several jobs folded into one: state, stage, values, count, why."""
    first = jobs[0]
    spans: list[Span] = []
    for column in columns:
        text, role = _group_cell(jobs, first, column, session)
        if spans:
            spans.append(Span(" "))
        spans.append(Span(_align(column, text), role))
    return tuple(spans)


def _group_cell(
    jobs: Sequence[JobView], first: JobView, column: Column, session: SessionView
) -> tuple[str, Role]:
    if column.kind in ("state", "stage"):
        content = _CELLS[column.kind](first, column, session)
        return content.text, content.role
    if column.kind == "parameter":
        return _several_values(jobs, column), "muted"
    if column.kind == "why":
        role = _CELLS["why"](first, column, session).role
        return f"{len(jobs)}x {find_common_reason(jobs, session)}", role
    return "", "muted"


def _several_values(jobs: Sequence[JobView], column: Column) -> str:
    """The one value, or how many there are: `4 lr`."""
    values = {find_value(job.record.spec, column.key) for job in jobs}
    if len(values) == 1:
        return values.pop()
    told = f"{len(values)} {column.title}"
    if cell_len(told) <= column.cells:
        return told
    told = told[: column.cells].rstrip()
    letters = len(told.partition(" ")[2])
    return told if letters >= _LETTERS_OF_A_TITLE else f"{len(values)} {ELLIPSIS}"


def _align(column: Column, text: str) -> str:
    if column.right:
        return fit_right(text, column.cells)
    return fit(text, column.cells)


_LIVELY: Final = frozenset({Look.RUNNING, Look.STALLED, Look.FAILED})
"""Looks whose trend is worth a colour."""


def _state(job: JobView, column: Column, session: SessionView) -> Span:
    """The look; from the second attempt on with its number, where there is room."""
    look, number = badge(job.look), len(job.record.attempts)
    if number > 1:
        for text in (f"{look.text} #{number}", f"{look.text}#{number}"):
            if cell_len(text) <= column.cells:
                return Span(text, look.role)
    return look


def _stage(job: JobView, column: Column, session: SessionView) -> Span:
    return Span(shorten_middle(outside(job.stage), column.cells))


def _parameter(job: JobView, column: Column, session: SessionView) -> Span:
    return Span(shorten_middle(find_value(job.record.spec, column.key), column.cells))


def _progress(job: JobView, column: Column, session: SessionView) -> Span:
    spelled = (
        spelling.format_percent if column.title == "DONE" else spelling.format_progress
    )
    text = spelled(job.step, job.total)
    return Span(text, "muted" if text == "-" else "text")


def _loss(job: JobView, column: Column, session: SessionView) -> Span:
    text = spelling.format_metric(session.result_of(job))
    ill = text in ("nan", "inf", "-inf")
    return Span(text, "failed" if ill else "muted" if text == "-" else "text")


def _trend(job: JobView, column: Column, session: SessionView) -> Span:
    values = job.live.trend if job.live else ()
    role = FACES[job.look].role if job.look in _LIVELY else "muted"
    return Span(render_sparkline(values, column.cells), role)


def _time(job: JobView, column: Column, session: SessionView) -> Span:
    text = spelling.format_elapsed(measure_run(job, session.now))
    return Span(text, "muted")


def _id(job: JobView, column: Column, session: SessionView) -> Span:
    attempt = job.attempt
    text = outside(attempt.executor_id) if attempt else ""
    return Span(shorten_middle(text or "-", column.cells), "muted")


def _why(job: JobView, column: Column, session: SessionView) -> Span:
    role: Role = FACES[job.look].role if job.needs_you else "muted"
    return Span(find_reason(job, session), role)


_CELLS: Final[Mapping[Kind, Callable[[JobView, Column, SessionView], Span]]] = (
    MappingProxyType(
        {
            "state": _state,
            "stage": _stage,
            "parameter": _parameter,
            "progress": _progress,
            "loss": _loss,
            "trend": _trend,
            "time": _time,
            "id": _id,
            "why": _why,
        }
    )
)
