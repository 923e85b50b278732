"""What a partial repaint sends to the terminal: the changed cells, shortly said.

Textual sends every part of a line from its left edge, and names both colours and a
reset for each piece. Over a slow line that is most of the bytes: here the cursor jumps
to the changed cells, and a colour is named when it changes. Full repaints stay
Textual's own. What lies below an overlay is tinted style by style, of which a screen
has some dozens, where Textual tints every piece of text for itself.

The sequences are ECMA-48's CUP (cursor position) and SGR (colours and attributes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App
from textual.color import Color
from textual.filter import Monochrome
from textual.renderables.background_screen import BackgroundScreen
from textual.strip import Strip

ESC = "\x1b"
RESET = f"{ESC}[0m"


class Pen(NamedTuple):
    """How text is written: SGR parameters, empty for the terminal's own."""

    attributes: str = ""
    foreground: str = ""
    background: str = ""


PLAIN = Pen()


class ThriftyCompositor(Compositor):
    """Textual's compositor, sparing in what it sends for a partial update."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """The update for what is dirty, None when nothing is."""
        update = super().render_partial_update()
        if update is None:
            return None
        return ThriftyUpdate(update.chops, update.spans, update.chop_ends)


class ThriftyUpdate(ChopsUpdate):
    """Changed spans of lines."""

    def render_segments(self, console: Console) -> str:
        """The update as the bytes to send."""
        system = console._color_system
        parts: list[str] = []
        pen = PLAIN
        for y, x1, x2 in self.spans:
            parts.append(f"{ESC}[{y + 1};{x1 + 1}H")
            for segment in self._segments(y, x1, x2):
                wanted = pen_of(segment.style, system)
                parts += (change(pen, wanted), segment.text)
                pen = wanted
        parts.append("" if pen == PLAIN else RESET)
        return "".join(parts)

    def _segments(self, y: int, x1: int, x2: int) -> Iterator[Segment]:
        for x, end, piece in _pieces(self.chops[y], self.chop_ends[y]):
            if x < x2 and end > x1:
                yield from piece.crop(max(x1 - x, 0), min(end, x2) - x)


def _pieces(
    line: Mapping[int, Strip | None], ends: Sequence[int]
) -> Iterator[tuple[int, int, Strip]]:
    """The rendered pieces of a line: first cell, end, content."""
    for end, (x, piece) in zip(ends, line.items(), strict=False):
        if piece is not None:
            yield x, end, piece


@lru_cache(maxsize=4096)
def pen_of(style: Style | None, system: ColorSystem | None) -> Pen:
    """A style's pen on a terminal with so many colours."""
    if style is None or system is None:
        return PLAIN
    said = style.without_color.render("X", color_system=system)
    return Pen(
        attributes=said.partition("X")[0].removeprefix(f"{ESC}[").removesuffix("m"),
        foreground=_color(style, system, foreground=True),
        background=_color(style, system, foreground=False),
    )


def _color(style: Style, system: ColorSystem, *, foreground: bool) -> str:
    color = style.color if foreground else style.bgcolor
    if color is None:
        return ""
    return ";".join(color.downgrade(system).get_ansi_codes(foreground=foreground))


def change(old: Pen, new: Pen) -> str:
    """The shortest SGR sequence that turns one pen into another."""
    if old == new:
        return ""
    if old.attributes == new.attributes:
        codes = [
            *_turned(old.foreground, new.foreground, default="39"),
            *_turned(old.background, new.background, default="49"),
        ]
    else:  # attributes cannot be taken back one by one
        codes = ["0", *(code for code in new if code)]
    return f"{ESC}[{';'.join(codes)}m"


def _turned(old: str, new: str, *, default: str) -> Iterator[str]:
    if old != new:
        yield new or default


def tinted(strips: Iterable[Strip], tint: Color, under: Style) -> list[Strip]:
    """Lines as they look below an overlay.

    Args:
        strips: of the screen below.
        tint: laid over it; translucent.
        under: the overlay's own style, for what the screen below leaves open.
    """
    return [
        Strip(
            [
                Segment(text, _tinted(style, tint, under), control)
                for text, style, control in strip
            ],
            strip.cell_length,
        )
        for strip in strips
    ]


@lru_cache(maxsize=4096)
def _tinted(style: Style | None, tint: Color, under: Style) -> Style:
    (one,) = BackgroundScreen.process_segments([Segment("", style)], tint)
    return under + (one.style or Style.null())


def without_grey(app: App[Any]) -> None:
    """NO_COLOR means none: not the greys that Textual would put in their place."""
    app._filters = [one for one in app._filters if not isinstance(one, Monochrome)]


def say_colors_shortly(app: App[Any]) -> None:
    """Name the 256 shared colours by number: half the bytes of naming them by parts."""
    if app.console._color_system is ColorSystem.TRUECOLOR:
        app.console._color_system = ColorSystem.EIGHT_BIT
