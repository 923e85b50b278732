"""The grid of a plan as lines: values at the left, a column a stage.

A cell is a job's glyph and word, or how many jobs look how, or the number of the
filter that emptied it. The cell under the cursor stands in brackets: a row's tone
alone would not say which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.render.why import WhyText
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    cut,
    fit,
    line,
    outside,
    pad,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import CHANGED
from autoexp_tui.cockpit.state.stages import UNSTAGED
from autoexp_tui.cockpit.state.status import FACES, glyph
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.planning.grid import Grid, Row


_WIDEST_VALUE: Final = 12


_WIDEST_STAGE: Final = 14


_NARROWEST_STAGE: Final = 6
"""With a bracket at each side."""


_WORD_FROM: Final = 12
"""Cells of a column from which a look's word stands beside its glyph."""


_MOST_FILTERS: Final = 40


@dataclass(frozen=True, slots=True)
class Columns:
    """What of a grid stands beside each other at a width."""

    axes: tuple[int, ...]
    """Cells of each axis that has room; the others are told below."""
    stages: tuple[int, ...]
    """Places of the stages that are on the screen."""
    width: int
    """Cells of a stage's column."""
    hidden: int
    """Axes without room."""
    before: bool
    """Whether stages stand left of these."""
    after: bool
    """Whether stages stand right of these."""


def choose_columns(grid: Grid, cells: int, at: int) -> Columns:
    """What has room in `cells`, the stage at place `at` among it."""
    wanted = [
        min(_WIDEST_VALUE, max(map(cell_len, (one.label, *one.values)), default=1))
        for one in grid.axes
    ]
    axes: list[int] = []
    for width in wanted:
        if sum(axes) + 2 * len(axes) + width + 2 > cells * 45 // 100:
            break
        axes.append(width)
    hidden = len(wanted) - len(axes)
    left = cells - sum(axes) - 2 * len(axes) - (4 if hidden else 0)
    names = [cell_len(name_stage(one)) + 2 for one in grid.stages]
    number = len(grid.stages)
    width = max(_NARROWEST_STAGE, min(_WIDEST_STAGE, max(names, default=6)))
    if width < _WORD_FROM <= left // max(1, number):
        width = _WORD_FROM
    fitting = max(1, min(number, (left - 2) // width))
    first = max(0, min(at - fitting // 2, number - fitting))
    return Columns(
        axes=tuple(axes),
        stages=tuple(range(first, first + fitting)),
        width=width,
        hidden=hidden,
        before=first > 0,
        after=first + fitting < number,
    )


def name_stage(stage: str) -> str:
    """A stage's name for people."""
    return outside(stage) or UNSTAGED


def render_heads(grid: Grid, shown: Columns, at: int) -> Line:
    """Labels of axes and stages; `at` is the stage under the cursor."""
    parts = [
        Span(f"{fit(grid.axes[place].label, width)}  ", "muted")
        for place, width in enumerate(shown.axes)
    ]
    if shown.hidden:
        parts.append(Span(f"+{shown.hidden}".ljust(4), "muted"))
    parts.append(Span("<" if shown.before else " ", "muted"))
    for place in shown.stages:
        name = fit(f" {name_stage(grid.stages[place])}", shown.width)
        parts.append(Span(name, "strong" if place == at else "muted"))
    parts.append(Span(">" if shown.after else "", "muted"))
    return line(*parts)


def render_row(
    grid: Grid, row: Row, shown: Columns, session: SessionView, at: int | None
) -> Line:
    """A row; `at` is the stage under the cursor, None in other rows."""
    parts: list[Span] = [
        Span(f"{fit(grid.value(row, place), width)}  ")
        for place, width in enumerate(shown.axes)
    ]
    if shown.hidden:
        parts.append(Span("    "))
    parts.append(Span(" "))
    for place in shown.stages:
        content = _cell(grid, row, grid.stages[place], session, shown.width - 2)
        marks = "[]" if place == at else "  "
        parts += [Span(marks[0], "key"), *pad(content, shown.width - 2)]
        parts.append(Span(marks[1], "key"))
    return line(*parts)


def _cell(grid: Grid, row: Row, stage: str, session: SessionView, cells: int) -> Line:
    jobs = find_jobs(grid, row, stage, session)
    if len(jobs) == 1:
        look = jobs[0].look
        word = f" {look}" if cells >= _WORD_FROM - 2 else ""
        changed = Span(CHANGED if jobs[0].record.spec.own_values else "", "strong")
        return cut(line(glyph(look), changed, Span(word, FACES[look].role)), cells)
    if jobs:
        counts = Counter(job.look for job in jobs)
        tallies = [
            Span(f"{FACES[look].glyph}{counts[look]}", FACES[look].role)
            for look in FACES
            if look in counts
        ]
        return cut(tuple(tallies), cells)
    hole = grid.holes.get((row, stage))
    return () if hole is None else (Span(format_filter(hole), "skipped"),)


def find_jobs(
    grid: Grid, row: Row, stage: str, session: SessionView
) -> tuple[JobView, ...]:
    """The jobs of a cell."""
    places = grid.jobs.get((row, stage), ())
    return tuple(session.jobs[at] for at in places if at < len(session.jobs))


def format_filter(place: int) -> str:
    """`f1`: what the holes of the first filter are called."""
    return f"f{place + 1}"


def describe_grid(grid: Grid) -> str:
    """`12 rows x 3 stages, 4 holes by 1 filter`."""
    holes = sum(grid.counts.values())
    size = f"{plural(len(grid.rows), 'row')} x {plural(len(grid.stages), 'stage')}"
    if not holes:
        return f"{size}, no holes"
    by = plural(len(grid.counts), "filter")
    return f"{size}, {plural(holes, 'hole')} by {by}"


# -------------------------------------------------------------------------- the rest
def explain_cell(grid: Grid, row: Row, stage: str) -> WhyText:
    """About a cell that has no job: what emptied it, and what else was emptied."""
    where = f"{grid.describe_row(row)}, {name_stage(stage)}".lstrip(", ")
    hole = grid.holes.get((row, stage))
    lines: list[Line] = []
    if hole is not None:
        name = format_filter(hole)
        lines.append(
            line(
                Span(" No job", "strong"),
                Span(f": the filter {name} took it, and "),
                Span(f"{plural(grid.counts[hole], 'cell')} in all."),
            )
        )
        lines.append(_filter_line(grid, hole))
    else:
        lines.append((Span(" No job: the sweep does not make this combination."),))
    if grid.more:
        more = plural(grid.more, "more combination")
        verb = "has" if grid.more == 1 else "have"
        text = f"   {more} that filters took {verb} no row here."
        lines.append((Span(text, "muted"),))
    return WhyText(where, (*lines, *_others(grid, hole)))


def _others(grid: Grid, told: int | None) -> Sequence[Line]:
    others = [at for at in sorted(grid.counts) if at != told]
    if not others:
        return ()
    lines = [_filter_line(grid, at) for at in others[:_MOST_FILTERS]]
    return ((), (Span(" Other filters that made holes", "title"),), *lines)


def _filter_line(grid: Grid, at: int) -> Line:
    text, where = grid.filters[at]
    return line(
        Span(f"   {format_filter(at)}  ", "accent"),
        Span(shorten(outside(text, 2000), 1500)),
        Span(f"   at {outside(where)}", "muted"),
    )


def render_lead(grid: Grid, row: Row, stage: str, jobs: Sequence[JobView]) -> Line:
    """Which cell is told about, and that its first job stands for several."""
    where = f" {grid.describe_row(row)}".rstrip()
    if len(jobs) == 1:
        return (Span(where, "muted"),) if where else ()
    alike = f"{plural(len(jobs), 'job')} of {name_stage(stage)} are here, the first:"
    return (Span(f"{where}  {alike}", "muted"),)
