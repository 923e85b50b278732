"""Lines of text with roles: what the views hand to the widgets.

A span says what its text *is* (`failed`, `muted`, `key`); the theme decides how that
looks. Widths are terminal cells. Text from outside is cleaned where a view takes it
in; the widgets clean every span once more before it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, Literal, NamedTuple, TypeAlias

from rich.cells import cell_len, chop_cells, set_cell_size

from autoexp_tui.text.sanitize import clean

Role: TypeAlias = Literal[
    "text",
    "muted",
    "strong",
    "title",
    "focus",
    "rule",
    "key",
    "accent",
    "done",
    "running",
    "stalled",
    "queued",
    "waiting",
    "doomed",
    "failed",
    "skipped",
    "asks",
    "warning",
    "bar",
    "track",
    "button",
    "curve1",
    "curve2",
    "curve3",
    "curve4",
    "curve5",
    "curve6",
]
"""What a text is; each theme has a style for every role."""


ELLIPSIS: Final = "…"


class Span(NamedTuple):
    """A piece of a line, of one role; made by the thousand, so a plain tuple."""

    text: str
    role: Role = "text"


Line: TypeAlias = tuple[Span, ...]


def line(*parts: Span | str) -> Line:
    """A line from spans and plain strings, empty ones left out."""
    spans = (Span(part) if isinstance(part, str) else part for part in parts)
    return tuple(span for span in spans if span.text)


def plain(content: Line) -> str:
    """The line's text alone."""
    return "".join(span.text for span in content)


def width(content: Line) -> int:
    """Cells that the line takes."""
    return sum(cell_len(span.text) for span in content)


def outside(value: object, limit: int = 400) -> str:
    """A text from outside as one safe line of at most `limit` characters."""
    return clean(str(value), limit=limit)


def fit(text: str, cells: int) -> str:
    """`text` in exactly `cells` cells: padded, or cut with an ellipsis."""
    if cells <= 0:
        return ""
    if cell_len(text) <= cells:
        return set_cell_size(text, cells)
    return set_cell_size(text, cells - 1) + ELLIPSIS


def shorten(text: str, cells: int) -> str:
    """`text` in at most `cells` cells, cut with an ellipsis, never padded."""
    return text if cell_len(text) <= cells else fit(text, cells)


def fit_right(text: str, cells: int) -> str:
    """`text` flush right in exactly `cells` cells."""
    return " " * max(0, cells - cell_len(text)) + shorten(text, cells)


def shorten_middle(text: str, cells: int) -> str:
    """`text` in at most `cells` cells, its middle cut: names differ at both ends."""
    if cell_len(text) <= cells or cells < 8:
        return shorten(text, cells)
    tail = (cells - 1) // 2
    head = cells - 1 - tail
    return set_cell_size(text, head) + ELLIPSIS + _last_cells(text, tail)


def _last_cells(text: str, cells: int) -> str:
    end = text[-cells:]
    while cell_len(end) > cells:
        end = end[1:]
    return end


def cut(content: Line, cells: int) -> Line:
    """The line in at most `cells` cells, an ellipsis where it was cut."""
    if width(content) <= cells:
        return content
    kept: list[Span] = []
    left = cells
    for span in content:
        size = cell_len(span.text)
        if size >= left:
            kept.append(Span(_cut_here(span.text, left), span.role))
            break
        kept.append(span)
        left -= size
    return tuple(kept)


def _cut_here(text: str, cells: int) -> str:
    return fit(text + " ", cells)


def pad(content: Line, cells: int, role: Role = "text") -> Line:
    """The line in exactly `cells` cells."""
    short = cut(content, cells)
    missing = cells - width(short)
    return (*short, Span(" " * missing, role)) if missing > 0 else short


def spread(left: Line, right: Line, cells: int) -> Line:
    """`left` and `right` at the two ends; `left` is cut when both do not fit."""
    room = cells - width(right)
    return (*pad(left, room), *right) if room > 0 else cut(right, cells)


def join(parts: Iterable[Line], gap: str) -> Line:
    """The non-empty parts in a row, `gap` between them."""
    spans: list[Span] = []
    for part in parts:
        if part:
            spans.extend((Span(gap), *part) if spans else part)
    return tuple(spans)


def wrap(content: Line, cells: int, indent: str = "") -> tuple[Line, ...]:
    """The line broken at words into lines of at most `cells` cells.

    Lines after the first begin with `indent`; a word longer than a line is chopped.
    """
    if cells <= len(indent) + 1 or width(content) <= cells:
        return (content,)
    lines: list[list[Span]] = [[]]
    room = cells
    for piece in _words(content, cells - len(indent)):
        size = cell_len(piece.text)
        if size > room and lines[-1]:
            lines.append([Span(indent)] if indent else [])
            room = cells - len(indent)
            piece = Span(piece.text.lstrip(" "), piece.role)
            size = cell_len(piece.text)
        if size:
            lines[-1].append(piece)
            room -= size
    return tuple(tuple(spans) for spans in lines)


def _words(content: Line, cells: int) -> Iterable[Span]:
    """Words with the blanks before them, chopped to at most `cells`."""
    for span in content:
        word = ""
        for character in span.text:
            if character == " " and word.strip(" "):
                yield from _chopped(word, span.role, cells)
                word = ""
            word += character
        if word:
            yield from _chopped(word, span.role, cells)


def _chopped(word: str, role: Role, cells: int) -> Iterable[Span]:
    if cell_len(word) <= cells:
        yield Span(word, role)
        return
    for piece in chop_cells(word, cells):
        yield Span(piece, role)


GAP: Final = 8
"""Equal cells between two changes that cost less to send than to jump over."""


_Cell = tuple[str, str]
"""What stands in a cell, and its role; the second half of a wide character is empty."""


def compare_lines(before: Line, after: Line) -> list[tuple[int, int]]:
    """The ranges of cells, ends exclusive and in order, in which two lines differ."""
    ranges: list[tuple[int, int]] = []
    old, new = _split_cells(before), _split_cells(after)
    for place, (was, now) in enumerate(zip_longest(old, new)):
        if was == now:
            continue
        start, end = _widen_range(old, new, place)
        if ranges and start - ranges[-1][1] <= GAP:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return ranges


def _split_cells(content: Line) -> list[_Cell]:
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
            _join_character(cells, character)


def _join_character(cells: list[_Cell], character: str) -> None:
    place = next(n for n in range(len(cells) - 1, -1, -1) if cells[n][0])
    cells[place] = (cells[place][0] + character, cells[place][1])


def _widen_range(
    old: Sequence[_Cell], new: Sequence[_Cell], place: int
) -> tuple[int, int]:
    """The range about `place` that cuts nothing in two that is drawn as one."""
    start, end = place, place + 1
    while start and (_is_continued(old, start) or _is_continued(new, start)):
        start -= 1
    while _is_continued(old, end) or _is_continued(new, end):
        end += 1
    return start, end


def _is_continued(cells: Sequence[_Cell], place: int) -> bool:
    """Whether the cell before must be drawn with the one at `place`."""
    if not 0 < place < len(cells):
        return False
    return not cells[place][0] or len(_find_base(cells, place - 1)) > 1


def _find_base(cells: Sequence[_Cell], place: int) -> str:
    """The character that a cell belongs to, with what joins it."""
    while place and not cells[place][0]:
        place -= 1
    return cells[place][0]


BARS: Final = "▁▂▃▄▅▆▇█"


FULL: Final = "█"


EMPTY: Final = "░"


def render_sparkline(values: Sequence[float], cells: int) -> str:
    """The values' shape, at most `cells` wide; what is not finite leaves a gap."""
    shown = _thin(values, cells)
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    reach = (high - low) or 1.0
    return "".join(
        BARS[round((value - low) / reach * 7)] if math.isfinite(value) else " "
        for value in shown
    )


def _thin(values: Sequence[float], cells: int) -> Sequence[float]:
    if len(values) <= cells:
        return values
    last = len(values) - 1
    return [values[round(place * last / (cells - 1))] for place in range(cells)]


def render_bar(done: float, cells: int) -> tuple[str, str]:
    """The filled and the empty part of a bar; anything begun shows at least one."""
    fraction = min(max(done, 0.0), 1.0)
    filled = int(fraction * cells)
    if fraction > 0 and filled == 0:
        filled = 1
    return FULL * filled, EMPTY * (cells - filled)
