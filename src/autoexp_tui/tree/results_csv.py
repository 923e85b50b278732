"""What an evaluation measured: a CSV of `config_id, status` and one column a metric.

Candidates write it, so nothing of it is trusted: it is bounded, rows are known by their
ids, and what does not read is refused with its line. A row counts as ok when its status
is `ok` and each metric's cell is a finite number, so that no metric gets better by rows
that fail.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.text.sanitize import clean_line

FILE: Final = "meta_config_sweep_results.csv"
ID_COLUMN: Final = "config_id"
STATUS_COLUMN: Final = "status"
OK: Final = "ok"
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_ROWS: Final = 100_000
MOST_COLUMNS: Final = 1_000
_LARGEST: Final = 1e150
"""Magnitude up to which sums, differences and squares of cells stay finite."""
_NUMBER: Final = r"(?a)[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_ID: Final = r"(?a)\d{1,9}"
_SHOWN: Final = 40


@dataclass(eq=False)
class ResultsRefused(AutoexpError):
    """Not a file of results; `where` has the line."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One config's values; `values` is empty where it is not ok."""

    config_id: int
    status: str
    values: Mapping[str, float]
    fault: str = ""
    """The metric whose cell is no finite number."""

    @property
    def is_ok(self) -> bool:
        return bool(self.values)

    def explain(self) -> str:
        """Why it is not ok."""
        is_number = self.status != OK or not self.fault
        reason = self.status if is_number else f"{self.fault} is no number"
        return f"row {self.config_id}: {reason or 'no status'}"


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows count; expected: the limit, or at least `min_rows`."""

    rows_used: int
    ok_count: int
    expected_count: int
    first_error: str = ""
    """Which row is the first that is not ok, and why."""

    @property
    def error_count(self) -> int:
        return self.rows_used - self.ok_count


@dataclass(frozen=True, slots=True)
class Results:
    """Rows in order of their ids, of which those below a limit are used."""

    rows: tuple[Row, ...]
    metrics: tuple[str, ...]

    def count_rows(self, min_rows: int, limit: int | None) -> RowCounts:
        wrong = [row for row in self.rows if not row.is_ok]
        used, first = len(self.rows), wrong[0].explain() if wrong else ""
        expected = max(used, min_rows) if limit is None else limit
        return RowCounts(used, used - len(wrong), expected, first)

    def average(self, metric: str) -> float | None:
        """The mean of the rows that are ok; None: there are none."""
        found = [row.values[metric] for row in self.rows if row.is_ok]
        return math.fsum(value / len(found) for value in found) if found else None


def parse_results(
    data: bytes, metrics: Sequence[str], where: str, *, limit: int | None = None
) -> Results:
    """The rows of a CSV, those below `limit` alone where there is one. Columns beside
    `metrics` are passed over. Raises ResultsRefused."""
    lines = _read_lines(_decode(data, where), where)
    number, header = next(lines, (1, []))
    wanted = (ID_COLUMN, STATUS_COLUMN, *metrics)
    places = _find_columns(header, wanted, f"{where}:{number}")
    rows: dict[int, Row] = {}
    for number, cells in lines:
        place = f"{where}:{number}"
        if len(cells) != len(header):
            problem = f"has {len(cells)} cells; the header has {len(header)}"
            raise ResultsRefused(problem, place)
        row = _parse_row(cells, places, metrics, place)
        if row.config_id in rows:
            raise ResultsRefused(f"config_id {row.config_id} is there twice", place)
        if len(rows) == MOST_ROWS:
            raise ResultsRefused(f"has more than {MOST_ROWS} rows", place)
        rows[row.config_id] = row
    if not rows:
        raise ResultsRefused("has no rows", where, "write one row a config")
    used = (rows[at] for at in sorted(rows) if limit is None or at < limit)
    return Results(tuple(used), tuple(metrics))


def _decode(data: bytes, where: str) -> str:
    if len(data) > MOST_BYTES:
        problem = f"has {len(data)} bytes; at most {MOST_BYTES} are read"
        raise ResultsRefused(problem, where)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ResultsRefused("is not UTF-8 text", f"{where}:{line}") from error


def _read_lines(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each line that is not blank, and its cells without blanks."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if len(cells) > MOST_COLUMNS:
                problem = f"has more than {MOST_COLUMNS} columns"
                raise ResultsRefused(problem, f"{where}:{reader.line_num}")
            if any(cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        place = f"{where}:{reader.line_num}"
        raise ResultsRefused(f"is no CSV: {error}", place) from error


def _find_columns(
    header: Sequence[str], wanted: Sequence[str], place: str
) -> Mapping[str, int]:
    for name in wanted:
        if header.count(name) != 1:
            found = "is there twice" if name in header else "is missing"
            shown = ", ".join(clean_line(cell, _SHOWN) for cell in header[:8])
            hint = f"columns: {shown}" if shown else "the file is empty"
            raise ResultsRefused(f"the column `{name}` {found}", place, hint)
    return {name: header.index(name) for name in wanted}


def _parse_row(
    cells: Sequence[str], places: Mapping[str, int], metrics: Sequence[str], place: str
) -> Row:
    given, status = cells[places[ID_COLUMN]], cells[places[STATUS_COLUMN]]
    if not re.fullmatch(_ID, given):
        problem = f"config_id is `{clean_line(given, _SHOWN)}`, not a whole number"
        raise ResultsRefused(problem, place)
    numbers = {name: _parse_number(cells[places[name]]) for name in metrics}
    values = {name: value for name, value in numbers.items() if value is not None}
    fault = next((name for name in metrics if name not in values), "")
    shown = status if status == OK else clean_line(status, _SHOWN)
    return Row(int(given), shown, {} if fault or status != OK else values, fault)


def _parse_number(cell: str) -> float | None:
    """A finite number as programs write it; Python alone reads `1_0` and `１`."""
    if not re.fullmatch(_NUMBER, cell):
        return None
    value = float(cell)
    return value if abs(value) <= _LARGEST else None
