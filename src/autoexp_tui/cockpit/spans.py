"""Lines of text with roles: what the views hand to the widgets.

A span says what its text *is* (`failed`, `muted`); the theme decides how that looks.
Widths are terminal cells. The widgets clean every span once more."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

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
CURVE_ROLES: Final[tuple[Role, ...]] = tuple(
    one for one in get_args(Role) if one.startswith("curve")
)


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
    return sum(cell_len(span.text) for span in content)


def outside(value: object, limit: int = 400) -> str:
    """A text from outside as one safe line of at most `limit` characters."""
    return clean(str(value), limit=limit)


def shorten(text: str, cells: int, *, middle: bool = False) -> str:
    """`text` in at most `cells` cells, cut with an ellipsis: at its end, or in its
    `middle`, where names differ at both ends."""
    if cells <= 0 or cell_len(text) <= cells:
        return text if cells > 0 else ""
    last = (cells - 1) // 2 if middle and cells >= 8 else 0
    end = set_cell_size(text[::-1], last)[::-1]
    end = end if text.endswith(end) else end[1:]  # a blank for half a wide letter
    return set_cell_size(text, cells - 1 - last) + ELLIPSIS + end


def fit(text: str, cells: int, *, right: bool = False, middle: bool = False) -> str:
    """`text` in exactly `cells` cells: padded, at its left with `right`, or cut."""
    shown = shorten(text, cells, middle=middle)
    gap = " " * (cells - cell_len(shown))
    return gap + shown if right else shown + gap


def cut(content: Line, cells: int) -> Line:
    """The line in at most `cells` cells, an ellipsis where it was cut."""
    if width(content) <= cells:
        return content
    kept: list[Span] = []
    left = cells
    for span in content:
        size = cell_len(span.text)
        if size >= left:
            kept.append(Span(fit(f"{span.text} ", left), span.role))
            break
        kept.append(span)
        left -= size
    return tuple(kept)


def pad(content: Line, cells: int) -> Line:
    """The line in exactly `cells` cells."""
    short = cut(content, cells)
    missing = cells - width(short)
    return (*short, Span(" " * missing)) if missing > 0 else short


def spread(left: Line, right: Line, cells: int) -> Line:
    """`left` and `right` at the two ends; `left` is cut when both do not fit."""
    room = cells - width(right)
    return (*pad(left, room), *right) if room > 0 else cut(right, cells)


def join(parts: Iterable[Line | Span], gap: str, role: Role = "text") -> Line:
    """The non-empty parts in a row, `gap` between them."""
    spans: list[Span] = []
    for part in parts:
        if part:
            spans += [Span(gap, role)] if spans else []
            spans += [part] if isinstance(part, Span) else part
    return tuple(spans)


def wrap(content: Line, cells: int, indent: str = "") -> tuple[Line, ...]:
    """The line broken at words into lines of at most `cells` cells.

    Lines after the first begin with `indent`; a word longer than a line is chopped.
    """
    if cells <= len(indent) + 1 or width(content) <= cells:
        return (content,)
    lines: list[list[Span]] = [[]]
    room = cells
    for span in content:
        for word in _WORD.findall(span.text):
            is_long = cell_len(word) > cells - len(indent)
            pieces = chop_cells(word, cells - len(indent)) if is_long else [word]
            for piece in pieces:
                size = cell_len(piece)
                if size > room and lines[-1]:
                    lines.append([Span(indent)] if indent else [])
                    room = cells - len(indent)
                    piece = piece.lstrip(" ")
                    size = cell_len(piece)
                if size:
                    lines[-1].append(Span(piece, span.role))
                    room -= size
    return tuple(tuple(spans) for spans in lines)


_WORD: Final = re.compile(r" *[^ ]+| +$")
"""A word with the blanks before it."""


def render_pairs(
    pairs: Iterable[tuple[str, Line | str]],
    indent: str,
    widest: int,
    least: int = 0,
    gap: str = "  ",
) -> Iterator[Line]:
    """A line for each name and value, values in one column behind at `least` so many
    cells; a name of more than `widest` cells stands out of line."""
    known = list(pairs)
    cells = max(least, *(min(widest, cell_len(name)) for name, _ in known), 0)
    for name, value in known:
        head = Span(f"{indent}{name}{' ' * (cells - cell_len(name))}{gap}", "muted")
        yield line(head, *([value] if isinstance(value, str) else value))


def join_cells(cells: Iterable[tuple[str, Role]]) -> Line:
    """Cells as a line, neighbours of one role together."""
    return tuple(
        Span("".join(text for text, _ in run), role)
        for role, run in groupby(cells, key=itemgetter(1))
    )


BARS: Final = "▁▂▃▄▅▆▇█"


def render_sparkline(values: Sequence[float], cells: int) -> str:
    """The values' shape, at most `cells` wide; what is not finite leaves a gap."""
    if len(values) > cells:
        last = len(values) - 1
        places = (round(place * last / (cells - 1)) for place in range(cells))
        values = [values[place] for place in places]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    reach = (high - low) or 1.0
    return "".join(
        BARS[round((value - low) / reach * 7)] if math.isfinite(value) else " "
        for value in values
    )


def render_bar(done: float, cells: int) -> Line:
    """A bar, filled and empty; anything begun shows at least one filled cell."""
    fraction = min(max(done, 0.0), 1.0)
    filled = max(int(fraction * cells), 1 if fraction > 0 else 0)
    return (Span("█" * filled, "bar"), Span("░" * (cells - filled), "track"))
