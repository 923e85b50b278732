"""Which columns the job table has at a width, and what stands in them.

WHY never goes. As the screen narrows the others leave in a fixed order: executor id,
TREND, TIME, the third parameter; last the progress becomes a percentage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    ELLIPSIS,
    Line,
    Role,
    Span,
    fit,
    fit_right,
    join,
    outside,
    render_sparkline,
    shorten_middle,
)
from autoexp_tui.cockpit.state.parameters import Parameter, find_value
from autoexp_tui.cockpit.state.reasons import find_common_reason, find_reason
from autoexp_tui.cockpit.state.rows import Column
from autoexp_tui.cockpit.state.status import Look, render_badge
from autoexp_tui.text.spelling import (
    format_elapsed,
    format_metric,
    format_percent,
    format_progress,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView

GUTTER: Final = 3
"""Cells left of the first column: cursor, mark, gap."""
WHY_MINIMUM: Final = 16
_WHY_WANTED: Final = ((200, 45), (120, 28), (0, WHY_MINIMUM))
"""From a width of the screen on: the cells that WHY is given before others."""
_GIVEN_FOR_WHY: Final = ("id", "trend")
"""What goes, in this order, where parameters shrunk are not enough for that."""
_PARAMETER_MINIMUM: Final = 6
_LETTERS_OF_A_TITLE: Final = 2
"""Of a parameter's name, below which they do not tell it."""
TREND_CELLS: Final = 8
_DROPS: Final = (("id", 130), ("trend", 110), ("time", 100), ("third", 90))
_PERCENT_BELOW: Final = 76
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
    dropped = [name for name, below in _DROPS if screen_cells < below]
    percent = screen_cells < _PERCENT_BELOW
    rest = [name for name, _ in _DROPS if name not in dropped]
    wanted = next(cells for least, cells in _WHY_WANTED if screen_cells >= least)
    while True:
        columns = _build_columns(session, parameters, dropped, percent=percent)
        left = table_cells - GUTTER - sum(column.cells + 1 for column in columns)
        why = left + _shrink_parameters(columns, wanted - left)
        if why < wanted and rest and rest[0] in _GIVEN_FOR_WHY:
            dropped.append(rest.pop(0))
        elif why >= WHY_MINIMUM or (not rest and percent):
            return (*columns, Column(kind="why", title="WHY", cells=max(why, 1)))
        elif rest:
            dropped.append(rest.pop(0))
        else:
            percent = True


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
    *,
    percent: bool,
) -> list[Column]:
    columns = [Column(kind="state", title="STATE", cells=11)]
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
    title, cells = ("DONE", 5) if percent else ("PROGRESS", 9)
    columns.append(Column(kind="progress", title=title, cells=cells, right=True))
    columns.append(_build_result_column(session))
    if "trend" not in dropped:
        columns.append(Column(kind="trend", title="TREND", cells=TREND_CELLS))
    if "time" not in dropped:
        columns.append(Column(kind="time", title="TIME", cells=5, right=True))
    if "id" not in dropped:
        columns.append(Column(kind="id", title="ID", cells=10))
    return columns


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
    title = shorten_middle(title, cells)
    return Column(kind="loss", title=title, cells=cells, right=True)


def _find_widest(values: Iterable[str], least: int, most: int) -> int:
    widest = max((cell_len(outside(value)) for value in values), default=0)
    return max(least, min(widest, most))


def render_titles(
    columns: Sequence[Column], sorted_by: str = "", glyph: str = ""
) -> Line:
    """The line of column titles, gutter included; `glyph` marks the one sorted by."""
    spans = []
    for column in columns:
        if column.title == sorted_by:
            title = fit(column.title, column.cells - len(glyph)).rstrip() + glyph
            spans.append(_format_cell(column, Span(title, "accent")))
        else:
            spans.append(_format_cell(column, Span(column.title, "muted")))
    titles = join(((one,) for one in spans), " ", "muted")
    return (Span(" " * GUTTER, "muted"), *titles)


def render_row(
    jobs: Sequence[JobView], columns: Sequence[Column], session: SessionView
) -> Line:
    """The line of a job, or of several folded into one, gutter left out."""
    build = _build_group_cell if len(jobs) > 1 else _build_job_cell
    cells = (_format_cell(one, build(jobs, one, session)) for one in columns)
    return join(((one,) for one in cells), " ")


def _format_cell(column: Column, content: Span) -> Span:
    aligned = fit_right if column.right else fit
    return Span(aligned(content.text, column.cells), content.role)


def _build_group_cell(
    jobs: Sequence[JobView], column: Column, session: SessionView
) -> Span:
    """State, stage, values, how many, why."""
    match column.kind:
        case "state" | "stage":
            return _build_job_cell(jobs, column, session)
        case "parameter":
            return Span(_count_values(jobs, column), "muted")
        case "why":
            text = f"{len(jobs)}x {find_common_reason(jobs, session)}"
            return Span(text, _find_why_role(jobs[0]))
    return Span("", "muted")


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


def _build_job_cell(
    jobs: Sequence[JobView], column: Column, session: SessionView
) -> Span:
    job, cells = jobs[0], column.cells
    match column.kind:
        case "state":
            # From the second attempt on with its number, where there is room.
            look, number = render_badge(job.look), len(job.record.attempts)
            for text in (f"{look.text} #{number}", f"{look.text}#{number}"):
                if number > 1 and cell_len(text) <= cells:
                    return Span(text, look.role)
            return look
        case "stage":
            return Span(shorten_middle(outside(job.stage), cells))
        case "parameter":
            return Span(shorten_middle(find_value(job.record.spec, column.key), cells))
        case "progress":
            spell = format_percent if column.title == "DONE" else format_progress
            return _mute_dash(spell(job.step, job.total))
        case "loss":
            text = format_metric(session.find_result(job))
            ill = text in ("nan", "inf", "-inf")
            return Span(text, "failed") if ill else _mute_dash(text)
        case "trend":
            values = job.live.trend if job.live else ()
            role = job.look.role if job.look in _LIVELY else "muted"
            return Span(render_sparkline(values, cells), role)
        case "time":
            return Span(format_elapsed(job.measure_run(session.now)), "muted")
        case "id":
            text = outside(job.attempt.executor_id) if job.attempt else ""
            return Span(shorten_middle(text or "-", cells), "muted")
    return Span(find_reason(job, session), _find_why_role(job))


def _mute_dash(text: str) -> Span:
    return Span(text, "muted" if text == "-" else "text")


def _find_why_role(job: JobView) -> Role:
    return job.look.role if job.is_needy else "muted"
