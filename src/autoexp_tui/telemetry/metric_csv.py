"""Rows of CSV as they grow: headers, quotes that span lines, headers in the middle.

The first row with a word in it is a header; a later row without any number is one
again (a run that was restarted, a logger that got a new column). Fields are separated
by what the header has most of: comma, tab or semicolon.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Final

from autoexp_tui.conditions.comparing import as_number

_DELIMITERS: Final = (",", "\t", ";")
_LONGEST: Final = 64 << 10
"""Characters that a quoted field may go on for; then it is no field."""


class Rows:
    """The records of one file."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()
        self._delimiter = ""
        self._pending = ""
        """The lines of a record whose quotes are open."""
        self._pending_at = 0
        """Where it began, before the lines that come now: bytes, at most 0."""

    def records(self, data: bytes) -> Iterator[tuple[int, Mapping[str, object]]]:
        """(start of its line, column -> text) of each row in whole lines.

        A row that began in lines before these starts before 0.
        """
        start = 0
        for line in data.split(b"\n"):
            begin, start = start, start + len(line) + 1
            if line.strip():
                yield from self._line(begin, line.decode("utf-8", "replace"))
        self._pending_at -= len(data)

    def _line(
        self, begin: int, line: str
    ) -> Iterator[tuple[int, Mapping[str, object]]]:
        if self._pending:
            begin, line = self._pending_at, f"{self._pending}\n{line}"
        if line.count('"') % 2 and len(line) <= _LONGEST:
            self._pending, self._pending_at = line, begin
            return
        self._pending = ""
        row = self._row(line.rstrip("\r"))
        if row is not None:
            yield begin, row

    def _row(self, line: str) -> Mapping[str, object] | None:
        cells = self._cells(line)
        if self._is_header(cells):
            self._columns = tuple(_title(cell) for cell in cells)
            return None
        if not self._columns:
            self._columns = tuple(f"column {n}" for n in range(1, len(cells) + 1))
        pairs = zip(self._columns, cells, strict=False)
        return {name: _value(cell) for name, cell in pairs if name}

    def _cells(self, line: str) -> list[str]:
        if not self._delimiter:
            self._delimiter = max(_DELIMITERS, key=line.count)
        if '"' not in line:
            return line.split(self._delimiter)
        try:
            return next(csv.reader([line], delimiter=self._delimiter), [])
        except csv.Error:
            return []

    def _is_header(self, cells: list[str]) -> bool:
        words = [cell.strip() for cell in cells if cell.strip()]
        numbers = [word for word in words if as_number(word) is not None]
        if not self._columns:
            return len(numbers) < len(words)
        return bool(words) and not numbers


def _title(cell: str) -> str:
    return cell.strip().lstrip("\ufeff#").strip()


def _value(cell: str) -> object:
    text = cell.strip()
    number = as_number(text)
    return text if number is None else number
