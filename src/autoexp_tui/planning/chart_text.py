"""Text in columns for the chart: wrapped, cut, boxed, and its ASCII twin.

Widths are counted as a terminal counts them. Whatever comes from outside must have
passed `said` before it comes here; nothing here knows what a plan is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from autoexp_tui.model.wording import columns
from autoexp_tui.text.sanitize import ELLIPSIS, clean

NARROWEST: Final = 24
"""Columns below which a box cannot be drawn."""
_MOST: Final = 400
"""Characters of one text from outside."""
UNBROKEN: Final = "\u00a0"
"""A blank where no line breaks; a plain one once all lines are made."""
_TWINS: Final = str.maketrans(
    {
        "─": "-",
        "│": "|",
        "┌": "+",
        "┐": "+",
        "└": "+",
        "┘": "+",
        "┬": "+",
        "▼": "v",
        "×": "x",
        "✓": "+",
        "✗": "x",
        ELLIPSIS: "~",
    }
)


def said(value: object, limit: int = _MOST) -> str:
    """A text from outside as one harmless line, no two blanks in a row."""
    return " ".join(clean(str(value), limit=limit).split())


def ascii_twin(text: str) -> str:
    """`text` in ASCII, each character by as many columns as it took."""
    if text.isascii():
        return text
    return "".join(
        char if char.isascii() else "?" * columns(char)
        for char in text.translate(_TWINS)
    )


# ------------------------------------------------------------------- within a line
def pad(text: str, width: int) -> str:
    """`text` in exactly `width` columns: its middle cut out, or blanks added."""
    short = cut(text, width)
    return short + " " * (width - columns(short))


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, its middle cut: names differ at both ends."""
    if columns(text) <= width:
        return text
    if width < 1:
        return ""
    tail = (width - 1) // 2
    end = text[len(text) - _fitting(text[::-1], tail) :]
    return text[: _fitting(text, width - 1 - tail)] + ELLIPSIS + end


def _fitting(text: str, width: int) -> int:
    """How many characters from the start take at most `width` columns."""
    taken = 0
    for total in accumulate(columns(char) for char in text):
        if total > width:
            break
        taken += 1
    return taken


# ------------------------------------------------------------------------ wrapping
def wrapped(text: str, width: int) -> list[str]:
    """`text` broken at blanks into lines of at most `width` columns.

    A word longer than a line is broken where the line ends. Never empty.
    """
    lines = [""]
    for word in text.split(" "):
        for piece in _pieces(word, width):
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if columns(joined) <= width:
                lines[-1] = joined
            else:
                lines.append(piece)
    return lines


def _pieces(word: str, width: int) -> Iterator[str]:
    while columns(word) > width:
        taken = max(1, _fitting(word, width))
        yield word[:taken]
        word = word[taken:]
    yield word


def hanging(head: str, text: str, width: int) -> list[str]:
    """`head` and then `text`, wrapped beside it."""
    indent = " " * columns(head)
    lines = wrapped(text, max(1, width - len(indent)))
    return [head + lines[0], *(indent + line for line in lines[1:])]


# --------------------------------------------------------------------------- boxes
def inner(width: int) -> int:
    """Columns for text within a box of `width` columns."""
    return width - 4


def box(
    title: str, note: str, lines: Sequence[str], width: int, *, leads_on: bool
) -> list[str]:
    """A box of exactly `width` columns; lines that are too long are cut.

    Args:
        title: at the left of the upper border.
        note: at its right; left out when there is no room for both.
        lines: what it holds.
        width: at least `NARROWEST`.
        leads_on: the lower border has the stem of an arrow.
    """
    body = [f"│ {pad(line, inner(width))} │" for line in lines]
    return [_upper(title, note, width), *body, _lower(width, leads_on=leads_on)]


def _upper(title: str, note: str, width: int) -> str:
    right = f" {note} ─" if note and columns(note) < width // 2 else ""
    left = f"─ {cut(title, width - 6 - columns(right))} "
    rule = "─" * (width - 2 - columns(left) - columns(right))
    return f"┌{left}{rule}{right}┐"


def _lower(width: int, *, leads_on: bool) -> str:
    stem = "┬" if leads_on else "─"
    before = width // 2 - 1
    return f"└{'─' * before}{stem}{'─' * (width - 3 - before)}┘"


def arrow(label: str, width: int) -> str:
    """An arrow head under the stem of a box, and what it stands for."""
    head = " " * (width // 2) + "▼"
    return cut_end(f"{head}  {label}", width) if label else head


def cut_end(text: str, width: int) -> str:
    """`text` in at most `width` columns, its end cut."""
    if columns(text) <= width:
        return text
    return text[: _fitting(text, width - 1)] + ELLIPSIS
