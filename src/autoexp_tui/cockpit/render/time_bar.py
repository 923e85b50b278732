"""The bar at the bottom of a replay: beginning, end, the moment shown, and landmarks.

One line where there is little room; a second one names the days. What happened in a
cell is told by a glyph: the gravest of it.
"""

from __future__ import annotations

import time
from math import isinf
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.spans import Line, Role, Span, cut, fit, width
from autoexp_tui.model.wording import duration

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Landmark, Playback

_DAY: Final = 86400
_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "failed": ("✗", "failed"),
    "asked": ("?", "asks"),
    "gone": ("░", "warning"),
}
_LEGEND: Final = (("✗", "failed"), ("?", "asked"), ("░", "gone"))
_LABEL: Final = 8
"""Cells that the name of a day needs."""


def spell_speed(speed: float) -> str:
    """`60x`, `1.9x`, `max`."""
    if isinf(speed):
        return "max"
    return f"{speed:.0f}x" if speed >= 10 or speed == int(speed) else f"{speed:.1f}x"


def time_bar(playback: Playback, cells: int, rows: int) -> tuple[Line, ...]:
    """The bar in `rows` lines (1 or 2) of at most `cells`."""
    left = _left(playback, wide=cells >= 100)
    right = _right(playback, wide=cells >= 100)
    room = max(8, cells - width(left) - width(right) - 2)
    scale = Scale(playback.begin, playback.end, room)
    bar = (*left, Span("├", "rule"), *_bar(playback, scale), Span("┤", "rule"), *right)
    if rows < 2:
        return (cut(bar, cells),)
    return (cut(bar, cells), cut(_days(playback, scale, width(left) + 1), cells))


class Scale:
    """Cells for times."""

    def __init__(self, begin: float, end: float, cells: int) -> None:
        self.begin = begin
        self.cells = cells
        self._per_cell = max((end - begin) / cells, 1e-9)

    def cell(self, t: float) -> int:
        """The cell of a time, one of those there are."""
        place = int((t - self.begin) / self._per_cell)
        return max(0, min(place, self.cells - 1))


def _left(playback: Playback, *, wide: bool) -> Line:
    glyph = "▸" if playback.playing else "‖"
    local = time.localtime(playback.at)
    form = "%a %d %b %H:%M:%S" if wide else "%m-%d %H:%M"
    return (
        Span(f" {glyph} ", "running" if playback.playing else "stalled"),
        Span(f"{spell_speed(playback.speed):<7} ", "text"),
        Span(f"{time.strftime(form, local)} ", "strong"),
    )


def _right(playback: Playback, *, wide: bool) -> Line:
    whole = playback.end - playback.begin
    if not wide:
        share = (playback.at - playback.begin) / whole if whole > 0 else 1.0
        return (Span(f" {share:4.0%} ", "muted"),)
    gone = duration(playback.at - playback.begin)
    return (Span(f" {fit(f'{gone} of {duration(whole)}', 22)}", "muted"),)


def _bar(playback: Playback, scale: Scale) -> list[Span]:
    """A span for each run of cells that look alike."""
    here = scale.cell(playback.at)
    cells: list[tuple[str, Role]] = [
        ("━", "accent") if place < here else ("─", "rule")
        for place in range(scale.cells)
    ]
    for day in midnights(playback.begin, playback.end):
        place = scale.cell(day)
        cells[place] = ("┼", cells[place][1])
    for mark in sorted(playback.landmarks, key=_gravity):
        for place in range(scale.cell(mark.t), scale.cell(mark.until) + 1):
            cells[place] = _MARKS[mark.kind]
    cells[here] = ("●", "focus")
    return _joined(cells)


def _gravity(mark: Landmark) -> int:
    return ("gone", "asked", "failed").index(mark.kind)


def _joined(cells: list[tuple[str, Role]]) -> list[Span]:
    spans: list[Span] = []
    for text, role in cells:
        if spans and spans[-1].role == role:
            spans[-1] = Span(spans[-1].text + text, role)
        else:
            spans.append(Span(text, role))
    return spans


def midnights(begin: float, end: float, most: int = 400) -> list[float]:
    """The beginnings of the days between, in the machine's zone; at most `most`."""
    first = time.localtime(begin)
    found: list[float] = []
    for day in range(1, most + 1):
        parts = (first.tm_year, first.tm_mon, first.tm_mday + day, 0, 0, 0, 0, 0, -1)
        midnight = time.mktime(parts)
        if midnight >= end:
            break
        found.append(midnight)
    return found


def _days(playback: Playback, scale: Scale, indent: int) -> Line:
    """The names of the days below their ticks, where there is room; the legend."""
    text, last = "", -_LABEL
    for day in midnights(playback.begin, playback.end):
        place = scale.cell(day)
        if place - last >= _LABEL and place + 6 <= scale.cells:
            text = text.ljust(place) + time.strftime("%a %d", time.localtime(day))
            last = place
    found: list[Span] = [Span(fit("", indent - 1)), Span(fit(" " + text, scale.cells))]
    found[1] = Span(found[1].text, "muted")
    for glyph, word in _LEGEND:
        role = next(one for mark, one in _MARKS.values() if mark == glyph)
        found += [Span(f" {glyph}", role), Span(f" {word}", "muted")]
    return tuple(found)
