"""The one door through which text reaches the screen.

Every span is cleaned here, whoever made it, and becomes a segment with a style: never
markup, never an escape sequence. In ASCII mode every glyph becomes its one-cell twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cockpit.spans import Line
    from autoexp_tui.cockpit.themes import Skin

_TWINS: Final = str.maketrans(
    {
        **{look.glyph: look.twin for look in Look},
        "…": "~",
        "─": "-",
        "━": "=",
        "│": "|",
        "┬": "+",
        "┤": "+",
        "├": "+",
        "┼": "+",
        "┴": "+",
        "└": "+",
        "┌": "+",
        "┐": "+",
        "┘": "+",
        "▾": "v",
        "▴": "^",
        "▹": ">",
        "█": "#",
        "░": ".",
        "▒": "=",
        "╌": "-",
        "▁": "_",
        "▂": "_",
        "▃": "-",
        "▄": "-",
        "▅": "=",
        "▆": "=",
        "▇": "^",
        "★": "*",
        "●": "*",
        "○": "o",
        "é": "e",
    }
)


def ascii_twin(text: str) -> str:
    """`text` in ASCII, each character by as many cells as it took."""
    if text.isascii():
        return text
    return "".join(map(_twin, text.translate(_TWINS)))


def _twin(character: str) -> str:
    if character.isascii():
        return character
    if "\u2800" <= character <= "\u28ff":
        return "*" if character != "\u2800" else " "
    return "?" * cell_len(character)


def strip(content: Line, skin: Skin, cells: int, over: Style | None = None) -> Strip:
    """The line as a strip of exactly `cells` cells.

    Args:
        content: from a view.
        skin: how roles look.
        cells: the width; what is longer is cut.
        over: laid over every span: the cursor's row.
    """
    segments: list[Segment] = []
    left = cells
    plain = over is not None and bool(over.reverse)
    ground = skin.base + over if over is not None else skin.base
    for span in content:
        text = _safe(span.text, skin)
        size = cell_len(text)
        if size > left:
            text, size = set_cell_size(text, left), left
        style = skin.base if plain else skin.roles.get(span.role, skin.base)
        segments.append(Segment(text, style + over if over is not None else style))
        left -= size
        if left <= 0:
            break
    if left > 0:
        segments.append(Segment(" " * left, ground))
    return Strip(segments, cells)


def _safe(text: str, skin: Skin) -> str:
    safe = text if text.isascii() and text.isprintable() else clean(text)
    return ascii_twin(safe) if skin.ascii else safe
