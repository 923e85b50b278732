"""The results: a row a run group, its swept values beside its metrics, the best first.

Rows stay where they are until they are sorted anew. Of the metrics only what is visible
is worked out. The other face is a heat map: the best result of each pair of values of
two parameters, with a shade and its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from rich.cells import cell_len

from autoexp_tui.cockpit.render.why import NO_JOB_SHOWN, WhyText
from autoexp_tui.cockpit.session_model import MANY
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    pad,
    plain,
)
from autoexp_tui.cockpit.state.parameters import CHANGED
from autoexp_tui.cockpit.state.session import (
    JobView,
    SessionView,
    count_looks,
    render_badge,
    render_tallies,
)
from autoexp_tui.cockpit.state.stages import name_stage
from autoexp_tui.cockpit.widgets.pane import FieldsPane, find_fitting
from autoexp_tui.telemetry.results import (
    DIGITS,
    Groups,
    HeatMap,
    Measure,
    ResultTable,
    Source,
    build_heat_map,
    group_runs,
)
from autoexp_tui.text.spelling import clock_time, format_metric, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.keymap import Pane as PaneName

_SHADES: Final = "░▒▓█"
"""From the worst to the best."""
_WIDEST_VALUE: Final = 14
_RUNS: Final = 10
"""Cells of the column that counts how the runs stand."""
_VALUE: Final = 9
"""Cells of a number, and of what stands beside it."""
_FIELD: Final = 12
_WIDEST_FIELD: Final = 22
_MOST_RUNS_TOLD: Final = 60
_HOWS: Final = ("last", "min", "max")


_NO_GROUPS: Final = Groups(
    *("", (), (), {}, (), False, (), False, ()), result=Measure("", "last")
)
NO_TABLE: Final = ResultTable((), _NO_GROUPS, ())
"""While one is worked out."""


class Shown(NamedTuple):
    """A column on the screen: its place among the table's heads, and its cells."""

    place: int
    """-1: how the runs stand."""
    cells: int


def choose_columns(
    table: ResultTable, cells: int, at: int
) -> tuple[Sequence[Shown], int]:
    """What stands beside each other, and how many columns do not: the first parameters
    stay, of the rest so many as fit about the cursor's at place `at`."""
    compares = table.baseline is not None
    return _choose_columns(table.groups, table.measures, compares, cells, at)


@lru_cache(maxsize=1)  # once for all rows
def _choose_columns(
    groups: Groups,
    measures: Sequence[Measure],
    compares: bool,  # noqa: FBT001 - a key of the cache
    cells: int,
    column: int,
) -> tuple[Sequence[Shown], int]:
    usual = _VALUE + (_VALUE + 4) * groups.is_averaged + (_VALUE + 2) * compares
    widths, axes = {-1: _RUNS}, len(groups.axes)
    for place, axis in enumerate(groups.axes):
        widest = max(map(cell_len, (axis.label, *axis.shown[:200])))
        widths[place] = min(_WIDEST_VALUE, widest + 2)
    for place, measure in enumerate(measures, axes):
        needed = usual + _VALUE * (measure.how != "last")
        widths[place] = max(needed, cell_len(str(measure)) + 2)
    pinned, left = 0, cells
    while pinned < axes and cells - left + widths[pinned] <= cells * 45 // 100:
        left -= widths[pinned] + 2
        pinned += 1
    rest = [*range(pinned, axes), -1, *range(axes, axes + len(measures))]
    at = rest.index(column) if column in rest else len(rest) - 1
    if column < axes and column not in rest:
        at = 0
    shown = [at]
    while True:
        before, after = shown[0] - 1, shown[-1] + 1
        used = sum(widths[rest[one]] + 2 for one in shown)
        if before >= 0 and used + widths[rest[before]] <= left:
            shown.insert(0, before)
        elif after < len(rest) and used + widths[rest[after]] <= left:
            shown.append(after)
        else:
            break
    places = (*range(pinned), *(rest[one] for one in shown))
    columns = [Shown(place, widths[place]) for place in places]
    spare = left - sum(one.cells + 2 for one in columns[pinned:])
    if spare > 0 and columns[-1].place >= axes:  # reasons have room
        columns[-1] = Shown(columns[-1].place, columns[-1].cells + spare)
    return columns, len(rest) - len(shown)


class ResultsPane(FieldsPane):
    """Rows sorted by a column, or a heat map of them; `column`: its place among the
    table's heads, or the field of the heat map."""

    name_in_table = "results"
    number = "e"
    heading = "Results"
    nothing = " The results are being worked out."
    home: ClassVar[PaneName] = "jobs"
    table: ResultTable = NO_TABLE
    rows: tuple[int, ...] = ()
    """Places of the table's rows, as they were sorted last."""
    stage: str | None = None
    """None: the one that has the result."""
    measures: tuple[Measure, ...] = ()
    """What was asked for; empty: the stage's result."""
    sorted_by: int = 0
    is_reversed: bool = False
    is_in_order: bool = True
    """Whether the rows, which stay where they are, would be sorted so today."""
    sorted_at: float = 0.0
    heat: HeatMap | None = None
    pair: int = 0
    """Which two parameters the heat map is of."""
    _baseline: str = ""
    """The key of the row that the others are compared to."""
    _row_keys: Sequence[str] = ()
    """Of each row of the table: its first job, which stays when jobs join."""
    _groups_of: tuple[object, ...] = ()
    _sessions: Sequence[SessionView] = ()
    """Those that the table is of, in the order of its sources."""

    def renew(self) -> None:
        """Take the newest values; group the runs of a plan that is new."""
        sessions = self._sessions = self.model.sessions
        if self.model.session.snapshot.plan is None:
            self.update_lines()
            return
        plans = [(one.snapshot.plan, *one.changed) for one in sessions]
        of = (self.stage, len(plans), *chain(*plans))
        if of != self._groups_of:
            sources = self._make_sources()
            names = [one.session for one in sources]
            if [one.session for one in self.table.sources] != names:
                self.table = NO_TABLE  # its rows are of sessions that are not compared
                self.set_keys(())
            self._groups_of = of
            work = partial(group_runs, sources, self.stage)
            if sum(len(one.jobs) for one in sessions) <= MANY:
                self._take(work())
            else:
                self.run_worker(self._take_many(work))
            return
        sources = self._make_sources()
        self.table = self.table.renew(sources)
        if self.is_in_order:  # until it is not: sorting costs what the rows do
            self.is_in_order = self.rows == self._sort_rows()
        self._show()

    def _make_sources(self) -> tuple[Source, ...]:
        """The own session first, then those that it is compared with."""
        plan = "plan" if len(self._sessions) > 1 else ""  # it has no id yet
        found = ((one.snapshot, one.id or plan) for one in self._sessions)
        return tuple(
            Source(one.plan, one.jobs, one.live, name)
            for one, name in found
            if one.plan is not None
        )

    async def _take_many(self, work: Callable[[], Any]) -> None:
        of = self._groups_of
        groups = await asyncio.to_thread(work)  # the disks' thread may hang
        if of is not self._groups_of:
            return  # other sessions are compared meanwhile, or the plan is another
        self._take(groups)

    def _take(self, groups: Groups) -> None:
        sources = self._make_sources()
        self.table = ResultTable(sources, groups, self.measures or (groups.result,))
        self._row_keys = [
            f"{source} {sources[source].jobs[jobs[0]].spec.name}"
            for _, source, jobs in groups.rows
        ]
        self.heat = None
        self.column = self.table.result_column
        self.sort(self.column)

    def _show(self) -> None:
        if self._baseline or self.table.baseline is not None:
            keys, wanted = self._row_keys, self._baseline
            baseline = keys.index(wanted) if wanted in keys else None
            self.table = replace(self.table, baseline=baseline)
        if self.heat is not None:
            self.heat = self._build_heat()
            self.set_keys(self.heat.down.values)
        else:
            self.set_keys(map(self._row_keys.__getitem__, self.rows))

    def sort(self, column: int, *, back: bool = False) -> None:
        """Sort by a column as things stand now; `back`: the other way round."""
        if self.table is NO_TABLE:
            return
        self.sorted_by, self.is_reversed = column, back
        self.rows, self.is_in_order = self._sort_rows(), True
        self.sorted_at = self.model.session.snapshot.now
        self._show()
        self.post_message(self.CursorMoved(self))

    def _sort_rows(self) -> tuple[int, ...]:
        return self.table.sort_rows(self.sorted_by, reverse=self.is_reversed)

    def action_sort(self) -> None:
        """By the column under the cursor; again: the other way round."""
        again = self.sorted_by == self.column
        if self.heat is None:
            self.sort(self.column, back=again and not self.is_reversed)
            self.move_to(0)

    def choose(self, measures: tuple[Measure, ...] = ()) -> None:
        """Show other metrics; the first is sorted by."""
        self.measures = measures
        self._take(self.table.groups)

    def action_change_how(self) -> None:
        """The newest values of the column under the cursor, then the lowest, then the
        highest."""
        at = self.table.find_measure(self.column)
        if at is None or self.heat is not None:
            return
        measures, column = list(self.table.measures), self.column
        how = measures[at].how
        after = _HOWS[(_HOWS.index(how) + 1) % len(_HOWS)] if how in _HOWS else "last"
        measures[at] = Measure(measures[at].metric, after)  # type: ignore[arg-type]
        self.choose(tuple(measures))
        self.column = column
        self.sort(column)

    def action_change_stage(self, step: int) -> None:
        """To the stage after, or before."""
        if stages := self.table.groups.stages:
            at = stages.index(self.table.groups.stage) + step
            self.stage, self.measures = stages[at % len(stages)], ()
            self.renew()
            self.notify(f"stage {outside(name_stage(self.stage))}")

    def action_set_baseline(self) -> None:
        """Compare all rows to that under the cursor; on that row: to none."""
        if self.heat is None:
            self._baseline = "" if self._baseline == self.key else self.key
            self.renew()
            self.post_message(self.CursorMoved(self))

    def action_heat(self) -> None:
        """The heat map of two parameters, or the table again."""
        self._show_heat(on=self.heat is None, pair=0)

    def action_pair(self) -> None:
        """The heat map, of the next two parameters where there is one."""
        self._show_heat(on=True, pair=self.pair + (self.heat is not None))

    def _show_heat(self, *, on: bool, pair: int) -> None:
        if len(self.table.groups.axes) < 2:
            text = "a heat map needs two swept parameters in one stage"
            self.notify(text, severity="warning")
            return
        self.pair = pair
        self.heat = self._build_heat() if on else None
        self.column = 0 if on else self.sorted_by
        self._show()
        self.post_message(self.CursorMoved(self))

    def _build_heat(self) -> HeatMap:
        pairs = list(combinations(range(len(self.table.groups.axes)), 2))
        down, across = pairs[self.pair % len(pairs)]
        return build_heat_map(self.table, across, down, self._find_heat_measure())

    def find_metric(self) -> str:
        """The one that is sorted by; empty: a parameter is."""
        at = self.table.find_measure(self.sorted_by)
        return self.table.measures[at].metric if at is not None else ""

    def find_rows(self) -> tuple[int, ...]:
        """The row under the cursor; of a heat map those of its field, best first."""
        if not self.keys:
            return ()
        if self.heat is None:
            return (self.rows[self.cursor],)
        found = self.heat.cells.get((self.key, self.heat.across.values[self.column]))
        return found.rows if found else ()

    def find_jobs(self) -> tuple[JobView, ...]:
        """Of the own session alone: nothing is done to the jobs of others."""
        rows = self.find_rows()[:1]
        jobs = (job for row in rows for job in self.list_jobs(row))
        return tuple(job for job in jobs if not job.session)

    def list_jobs(self, row: int) -> tuple[JobView, ...]:
        """The jobs of a row, as the newest snapshot of their session has them."""
        group = self.table.groups.rows[row]
        jobs = self._sessions[group.source].jobs
        return tuple(jobs[at] for at in group.jobs)

    def find_other(self) -> str:
        """The id of the row's session, where that is not the own one."""
        jobs = (self.list_jobs(row) for row in self.find_rows()[:1])
        return next((those[0].session for those in jobs), "")

    def describe_row(self) -> str:
        table = self.table
        if len(self.find_jobs()) < 2:
            return ""
        described = table.describe_row(self.find_rows()[0])
        return f"{name_stage(table.groups.stage)} {described}"

    def go_back(self) -> bool:
        """From the heat map to the table."""
        has_heat = self.heat is not None
        if has_heat:
            self.action_heat()
        return has_heat

    def count_columns(self) -> int:
        if self.heat is not None:
            return len(self.heat.across.values)
        return len(self.table.heads)

    def copy_text(self) -> str:
        return "\n".join(plain(one).strip() for one in self.find_answer().lines)

    def build_title(self) -> Line:
        table = self.table
        if table is NO_TABLE:
            return ()
        groups = table.groups
        number = sum(len(row.jobs) for row in groups.rows)
        size = f"{plural(len(groups.rows), 'row')} of {plural(number, 'job')}"
        if len(table.sources) > 1:
            size += f" of {len(table.sources)} sessions"
        if out := len(self.model.left_out):
            size += f", {out} left out"
        parts = [f"{name_stage(groups.stage)}, {size}", self._describe_order()]
        if self.heat is not None:
            shades = f"{_SHADES[-1]} best {_SHADES[0]} worst"
            parts[1:] = [str(table.measures[self._find_heat_measure()]), shades]
        if table.baseline is not None:
            parts.append(f"against {table.describe_row(table.baseline)}")
        parts.append(groups.describe_over())
        return (Span(outside("   ".join(filter(None, parts))), "muted"),)

    def _find_heat_measure(self) -> int:
        return self.table.find_measure(self.sorted_by) or 0

    def _describe_order(self) -> str:
        rising = self.table.is_rising(self.sorted_by) != self.is_reversed
        head = self.table.heads[self.sorted_by] if self.table.heads else ""
        now = self.model.session.snapshot.now
        at = "" if self.is_in_order else f" at {clock_time(self.sorted_at, now)}"
        return f"by {head}, {'lowest' if rising else 'highest'} first{at}"

    def build_head(self, cells: int) -> Sequence[Line]:
        table = self.table
        if not self.keys:
            return ()
        if self.heat is not None:
            return (self._build_heat_head(self.heat, cells),)
        shown, hidden = choose_columns(table, cells - self.lead, self.column)
        parts = [Span(" " * self.lead)]
        for place, width in shown:
            head = "runs" if place < 0 else outside(table.heads[place])
            if place == self.sorted_by:
                rising = table.is_rising(place) != self.is_reversed
                head = f"{head} {'▴' if rising else '▾'}"
            role: Role = "strong" if place == self.column else "muted"
            parts.append(Span(f"{fit(head, width)}  ", role))
        if hidden:
            note = Span(f"+{hidden} hidden, h l", "accent")
            return (line(*cut(tuple(parts), cells - len(note.text) - 1), " ", note),)
        return (line(*parts),)

    def row(self, place: int, cells: int) -> Line:
        if self.heat is not None:
            return self._build_heat_row(self.heat, place, cells)
        table, at, parts = self.table, self.rows[place], []
        jobs = self.list_jobs(at)
        for column, width in choose_columns(table, cells, self.column)[0]:
            measure = table.find_measure(column)
            content: Line
            if column < 0:
                one = len(jobs) == 1
                looks = count_looks(jobs)
                content = (render_badge(jobs[0].look),) if one else ()
                content = content or tuple(render_tallies(looks))
            elif measure is None:
                content = (Span(self._describe_setting(at, column, jobs)),)
            else:
                is_there = table.cell(at, measure).mean is not None
                text = outside(table.describe_cell(at, measure))
                content = (Span(fit(text, width), "text" if is_there else "muted"),)
            parts += [*pad(cut(content, width), width), Span("  ")]
        return line(*parts)

    def _describe_setting(self, row: int, axis: int, jobs: Sequence[JobView]) -> str:
        """A swept value, marked where it is not the plan's."""
        key = self.table.groups.axes[axis].key
        own = (one for job in jobs for one in job.record.spec.own_values)
        mark = CHANGED if any(one.lstrip("+~") == key for one in own) else ""
        return outside(self.table.describe_setting(row, axis)) + mark

    def _build_heat_head(self, heat: HeatMap, cells: int) -> Line:
        first, width, shown = self._choose_fields(heat, cells)
        corner = f"{heat.down.label} \\ {heat.across.label}"
        parts = [Span(" " * self.lead), Span(fit(outside(corner), first), "muted")]
        for place in shown:
            role: Role = "strong" if place == self.column else "muted"
            value = outside(heat.across.shown[place])
            parts.append(Span(fit(f" {value}", width), role))
        hidden = len(heat.across.values) - len(shown)
        return line(*parts, Span(f" +{hidden}, h l" if hidden else "", "accent"))

    def _choose_fields(self, heat: HeatMap, cells: int) -> tuple[int, int, range]:
        """Cells of the values down, and of a field; the fields beside each other."""
        corner = f"{heat.down.label} \\ {heat.across.label}"
        first = max(map(cell_len, (corner, *heat.down.shown[:200])))
        first = min(first + 2, cells // 3)
        number = len(heat.across.values)
        room = cells - first - self.lead - 8
        width = max(_FIELD, min(_WIDEST_FIELD, room // max(1, number)))
        return first, width, find_fitting(number, room // width, self.column)

    def _build_heat_row(self, heat: HeatMap, place: int, cells: int) -> Line:
        first, width, shown = self._choose_fields(heat, cells + self.lead)
        down = heat.down.values[place]
        parts = [Span(fit(outside(heat.down.shown[place]), first))]
        for at in shown:
            is_here = place == self.cursor and at == self.column
            left, right = "[]" if is_here else "  "
            text, role = self._describe_field(heat, (down, heat.across.values[at]))
            text = fit(text, width - 2)
            parts += [Span(left, "key"), Span(text, role), Span(right, "key")]
        return line(*parts)

    def _describe_field(self, heat: HeatMap, key: tuple[str, str]) -> tuple[str, Role]:
        found = heat.cells.get(key)
        if found is None:
            return ("filtered" if key in heat.holes else "no job"), "skipped"
        cell = self.table.cell(found.rows[0], self._find_heat_measure())
        if cell.mean is None:
            return outside(cell.describe()), "muted"
        role: Role = "strong" if found.level == len(_SHADES) - 1 else "text"
        return f"{_SHADES[found.level]} {format_metric(cell.mean, DIGITS)}", role

    def find_answer(self) -> WhyText:
        """About the row under the cursor: each of its runs with its values."""
        table, rows = self.table, self.find_rows()
        if not self.keys:
            return NO_JOB_SHOWN
        if not rows:
            return self._explain_hole()
        lines: list[Line] = []
        if len(rows) > 1:
            text = f" {plural(len(rows), 'row')} have these values; the best:"
            lines.append((Span(text, "muted"),))
        for at, measure in enumerate(table.measures):
            text = outside(table.describe_cell(rows[0], at))
            lines.append((Span(f" {measure}  ", "title"), Span(text)))
            others = table.cell(rows[0], at).problems
            if others and table.cell(rows[0], at).mean is not None:
                told = "; ".join(f"{n} of them {why}" for why, n in others.items())
                lines.append((Span(f"   not in the mean: {outside(told)}", "warning"),))
        lines.append(())
        for number, job in enumerate(self.list_jobs(rows[0])[:_MOST_RUNS_TOLD]):
            lines.append(self._explain_run(rows[0], number, job))
        if (more := len(self.list_jobs(rows[0])) - _MOST_RUNS_TOLD) > 0:
            lines.append((Span(f"   and {more} more", "muted"),))
        if over := table.groups.describe_over():  # the title may have no room for it
            lines += [(), (Span(f" {outside(over)}", "muted"),)]
        lines += [(Span(f" {outside(one)}", "warning"),) for one in self._list_gaps()]
        return WhyText(outside(table.describe_row(rows[0])), tuple(lines))

    def _list_gaps(self) -> Iterator[str]:
        """What of the sessions that are compared is not there, and why."""
        groups, row = self.table.groups, self.find_rows()[0]
        settings, source = groups.rows[row].settings, groups.rows[row].source
        sources = self.table.sources
        named = sources[source].session
        for axis in groups.axes if len(sources) > 1 else ():
            if axis.key not in settings:
                yield f"{axis.label}: the sweep of {named} does not set it"
        there = {one.source for one in groups.rows}
        for at, one in enumerate(sources):
            if at not in there:
                yield f"session {one.session}: no job of stage {groups.stage}"
        for session, problem in self.model.left_out.items():
            yield f"session {session} is left out: {problem}"

    def _explain_run(self, row: int, number: int, job: JobView) -> Line:
        parts = [Span("   "), render_badge(job.look), Span(f"  {outside(job.name)}")]
        for at, measure in enumerate(self.table.measures):
            value = self.table.list_values(row, at)[number]
            text = value.why or format_metric(value.number, DIGITS)
            step = "" if value.step is None else f" @{value.step}"
            parts.append(Span(f"   {measure} ", "muted"))
            parts.append(Span(f"{outside(text)}{step}"))
        return line(*parts)

    def _explain_hole(self) -> WhyText:
        assert self.heat is not None
        heat, across = self.heat, self.heat.across.values[self.column]
        where = f"{heat.down.label}={self.key} {heat.across.label}={across}"
        text = heat.holes.get((self.key, across), "")
        reason = " No job: the sweep does not make this combination."
        if text:
            reason = f" No job: the filter {outside(text, 2000)} took it."
        return WhyText(outside(where), ((Span(reason),),))
