"""A pane of text that scrolls: answers, details, curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.spans import Line, plain
from autoexp_tui.cockpit.widgets.pane import Painted, Pane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.themes import Skin


class TextPane(Pane):
    """Lines that a subclass makes for the pane's width; nothing is under a cursor."""

    def __init__(self, skin: Skin, **options: Any) -> None:
        super().__init__(skin, **options)
        self._lines: Sequence[Line] = ()
        self._made_for = -1

    def make(self, cells: int) -> Sequence[Line]:
        """All lines, none wider than `cells`."""
        raise NotImplementedError

    def renew(self, *, to_top: bool = False) -> None:
        """Make the lines again and draw what changed."""
        self._made_for = -1
        if to_top:
            self.top = 0
        self.repaint()

    def lines(self) -> Sequence[Line]:
        """The lines for the present width."""
        if self._made_for != self.inner_cells:
            self._made_for = self.inner_cells
            self._lines = self.make(self.inner_cells)
        return self._lines

    def length(self) -> int:
        return len(self.lines())

    def body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        return [Painted(one) for one in self.lines()[start : start + count]]

    def text(self) -> str:
        """Everything, as plain text."""
        return "\n".join(plain(one).rstrip() for one in self.lines())
