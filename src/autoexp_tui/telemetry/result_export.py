"""A table of results as CSV, Markdown, JSON, or text for a terminal: what a person
sees, with all digits where a program reads it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final

from autoexp_tui.model.masking import mask_value
from autoexp_tui.sweep.points import plain_key
from autoexp_tui.telemetry.results import SESSION, VERSION, Cell, How, ResultTable
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import count_columns

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that spreadsheets evaluate; see OWASP, CSV Injection."""
_ENDS: Final = {"mean": "", "deviation": "sd", "finite": "n"}


def write_csv(table: ResultTable, rows: Sequence[int]) -> str:
    """A column for each parameter, the number of runs, and for each measure its value
    and what else there is: deviation, n, step, difference, what is missing. Before a
    text that a spreadsheet would evaluate stands a single quote."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = [_choose_fields(table, one.how) for one in table.measures]
    heads = [
        f"{measure}.{name}" if name else str(measure)
        for measure, own in zip(table.measures, fields, strict=True)
        for name in own
    ]
    keys = [one.key or "session" for one in table.groups.axes]
    writer.writerow(map(_quote_formula, [*keys, "runs", *heads]))
    picks = [itemgetter(*own.values()) for own in fields]
    for row in rows:
        cells = [*map(_quote_formula, _list_settings(table, row).values())]
        cells.append(len(table.groups.rows[row].jobs))
        for pick, (cell, difference) in zip(picks, table.list_cells(row), strict=True):
            missing = _describe_missing(cell) if cell.problems else None
            cells += pick((*cell, difference, missing))
        writer.writerow(cells)  # None is an empty field; others begin with a number
    return text.getvalue()


def _quote_formula(cell: object) -> object:
    """A cell as it is, unless it is a text that begins as a formula and no number."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _choose_fields(table: ResultTable, how: How) -> Mapping[str, int]:
    """What is told of a measure, by the end of the column's name: places in its cell,
    the difference and what is missing behind it."""
    names = ["mean"]
    names += ["deviation", "finite"] if table.groups.is_averaged else []
    names += ["step"] if how != "last" else []
    names += ["difference"] if table.baseline is not None else []
    places = (*Cell._fields, "difference", "missing")
    return {_ENDS.get(one, one): places.index(one) for one in (*names, "missing")}


def _describe_missing(cell: Cell) -> str:
    return "; ".join(f"{number}x {why}" for why, number in cell.problems.items())


def _list_settings(table: ResultTable, row: int) -> Mapping[str, Any]:
    """Key -> the value of a row, as the sweep has it, secrets masked."""
    group = table.groups.rows[row]
    source = table.sources[group.source]
    found = {
        plain_key(key): mask_value(key, value, source.plan.mask)
        for key, value in source.jobs[group.jobs[0]].spec.parameters.items()
    }
    found |= {SESSION: source.session, VERSION: group.settings.get(VERSION)}
    return {one.key: found.get(one.key) for one in table.groups.axes}


def write_markdown(table: ResultTable, rows: Sequence[int]) -> str:
    """A table as GitHub has it; what would end a cell is escaped."""
    heads, *cells = _list_texts(table, rows, _escape)
    lines = [heads, ["---"] * len(heads), *cells]
    text = "\n".join([f"| {' | '.join(cells)} |" for cells in lines])
    over = table.groups.describe_over()
    return f"{text}\n\n{over}\n" if over else f"{text}\n"


def _escape(text: str) -> str:
    return clean_line(text).replace("\\", "\\\\").replace("|", "\\|")


def write_text(table: ResultTable, rows: Sequence[int]) -> str:
    """Columns side by side, as wide as they need to be."""
    lines = list(_list_texts(table, rows, clean_line))
    widths = [max(map(count_columns, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            text + " " * (width - count_columns(text))
            for text, width in zip(cells, widths, strict=True)
        ).rstrip()
        for cells in lines
    ]
    return "\n".join(shown)


def _list_texts(
    table: ResultTable, rows: Sequence[int], spell: Callable[[str], str]
) -> Iterator[list[str]]:
    """The head and the cells of each row, as they are shown; `spell`: what comes from
    outside, which numbers do not."""
    axes, spell = range(len(table.groups.axes)), cache(spell)
    heads = [spell(head) for head in table.heads]
    if table.groups.is_averaged:
        heads.insert(len(axes), "runs")
    yield heads
    for row in rows:
        cells = [spell(table.describe_setting(row, at)) for at in axes]
        if table.groups.is_averaged:
            cells.append(str(len(table.groups.rows[row].jobs)))
        for cell, difference in table.list_cells(row):
            text = cell.describe(difference)
            cells.append(text if cell.mean is not None else spell(text))
        yield cells


def list_json(table: ResultTable, rows: Sequence[int]) -> Mapping[str, Any]:
    """The table as plain data, its rows in the order that was asked for."""
    groups, baseline = table.groups, table.baseline
    return {
        "stage": groups.stage,
        "over": list(groups.over),
        "over_found_by_name": groups.by_name,
        "parameters": [one.key or "session" for one in groups.axes],
        "metrics": [
            {
                "metric": one.metric,
                "how": one.how,
                "step": one.step if one.how == "step" else None,
            }
            for one in table.measures
        ],
        "baseline": None if baseline is None else table.describe_row(baseline),
        "rows": [_list_row(table, row) for row in rows],
    }


def _list_row(table: ResultTable, row: int) -> Mapping[str, Any]:
    results = [_list_cell(*one) for one in table.list_cells(row)]
    return {**_list_row_heads(table, row), "results": results}


def _list_row_heads(table: ResultTable, row: int) -> Mapping[str, Any]:
    source = table.sources[table.groups.rows[row].source]
    settings = dict(_list_settings(table, row))
    settings.pop(SESSION, None)
    return {
        "session": source.session,
        "parameters": settings,
        "jobs": [job.name for job in table.list_jobs(row)],
    }


def _list_cell(cell: Cell, difference: float | None) -> Mapping[str, Any]:
    return {
        "mean": cell.mean,
        "deviation": cell.deviation,
        "n": cell.finite,
        "of": cell.of,
        "step": cell.step,
        "difference": difference,
        "missing": cell.problems,
    }


_FIRST, _SECOND, _THIRD = (
    json.dumps(_list_cell(Cell(-1.5, None, 1, 1, -2, {}), None))
    .replace("-2", "-1.5")
    .split("-1.5")
)
"""What stands about the value and the step of a single run."""


def _write_cell(cell: Cell, difference: float | None) -> str:
    mean, _, _, of, step, _ = cell
    if of == 1 and difference is None and mean is not None:  # most are such
        return f"{_FIRST}{mean!r}{_SECOND}{'null' if step is None else step}{_THIRD}"
    return json.dumps(_list_cell(cell, difference))


def write_json(table: ResultTable, rows: Sequence[int]) -> str:
    """As `list_json` has it, in one line; the rows one by one, for there are many."""
    head, lines = json.dumps({**list_json(table, ()), "rows": []}), []
    for row in rows:
        own = json.dumps({**_list_row_heads(table, row), "results": []}, default=str)
        results = ", ".join([_write_cell(*one) for one in table.list_cells(row)])
        lines.append(f"{own.removesuffix(']}')}{results}]}}")
    return head.removesuffix("]}") + ", ".join(lines) + "]}\n"


FORMS: Final[Mapping[str, Callable[[ResultTable, Sequence[int]], str]]] = {
    "csv": write_csv,
    "md": write_markdown,
    "json": write_json,
}
"""By the end of a file's name."""
