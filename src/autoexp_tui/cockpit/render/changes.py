"""Which cells of a line differ from what is on the screen.

A log that scrolls and a table whose numbers move look much like the moment before:
most cells stay. What is sent over a slow line are the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len

from autoexp_tui.cockpit.render.spans import Line

GAP: Final = 8
"""Equal cells between two changes that cost less to send than to jump over."""

_Cell = tuple[str, str]
"""What stands in a cell, and its role; the second half of a wide character is empty."""


def changed_cells(before: Line, after: Line) -> list[tuple[int, int]]:
    """The ranges of cells, ends exclusive and in order, in which two lines differ."""
    ranges: list[tuple[int, int]] = []
    old, new = _cells(before), _cells(after)
    for place, (was, now) in enumerate(zip_longest(old, new)):
        if was == now:
            continue
        start, end = _whole(old, new, place)
        if ranges and start - ranges[-1][1] <= GAP:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return ranges


def _cells(content: Line) -> list[_Cell]:
    cells: list[_Cell] = []
    for span in content:
        if span.text.isascii():
            cells += [(character, span.role) for character in span.text]
        else:
            _add_wide(cells, span.text, span.role)
    return cells


def _add_wide(cells: list[_Cell], text: str, role: str) -> None:
    """Add a text that may have wide characters, or some that join the one before."""
    for character in text:
        size = cell_len(character)
        if size:
            cells += [(character, role), *(("", role) for _ in range(size - 1))]
        elif cells:
            _join(cells, character)


def _join(cells: list[_Cell], character: str) -> None:
    place = next(n for n in range(len(cells) - 1, -1, -1) if cells[n][0])
    cells[place] = (cells[place][0] + character, cells[place][1])


def _whole(old: Sequence[_Cell], new: Sequence[_Cell], place: int) -> tuple[int, int]:
    """The range about `place` that cuts nothing in two that is drawn as one."""
    start, end = place, place + 1
    while start and (_goes_on(old, start) or _goes_on(new, start)):
        start -= 1
    while _goes_on(old, end) or _goes_on(new, end):
        end += 1
    return start, end


def _goes_on(cells: Sequence[_Cell], place: int) -> bool:
    """Whether the cell before must be drawn with the one at `place`."""
    if not 0 < place < len(cells):
        return False
    return not cells[place][0] or len(_base(cells, place - 1)) > 1


def _base(cells: Sequence[_Cell], place: int) -> str:
    """The character that a cell belongs to, with what joins it."""
    while place and not cells[place][0]:
        place -= 1
    return cells[place][0]
