"""The errors of a plan over the screen: each with its place, which enter opens.

Nothing was submitted. `ctrl+r` plans again; what is found then is shown instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from textual import events

from autoexp_tui.cockpit.dialogs.overlay import Overlay, build_keys
from autoexp_tui.cockpit.render.plan_findings import (
    Excerpt,
    Fault,
    find_excerpt,
    render_fault,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, outside
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext

Way: TypeAlias = Literal["closed", "opened"]
"""How it went away: by the person, or because the plan is sound now."""

_MOST_BYTES: Final = 1 << 20
"""Of a config file; a larger one is not shown."""
_ROOMY: Final = 64
"""From so many cells on every key is told in full."""


class FaultsScreen(Overlay[Way]):
    """Moves from finding to finding; `plan_again` is asked to plan anew."""

    edge_role = "failed"
    most_cells: int = 140

    def __init__(
        self,
        context: CockpitContext,
        faults: Sequence[Fault],
        plan_again: Callable[[], None],
    ) -> None:
        super().__init__(context)
        self.faults = faults
        self._plan_again = plan_again
        self._at = 0
        self._excerpts: dict[int, Excerpt] = {}
        self._blocks: tuple[int, Sequence[Sequence[Line]]] = (-1, ())
        """The width for which the findings were laid out, and the lines of each: there
        may be thousands, and every key shows some of them."""
        self._notice = ""

    def take(self, faults: Sequence[Fault]) -> None:
        """Show what another planning found."""
        kept = self.faults[self._at].where if self.faults else ""
        self.faults = faults
        self._excerpts.clear()
        self._blocks = (-1, ())
        self._at = next((at for at, one in enumerate(faults) if one.where == kept), 0)
        self._show_notice("planned again; this is left")

    def _show_notice(self, notice: str) -> None:
        self._notice = notice
        self.layout_box()

    def build_title(self) -> Line:
        number = plural(len(self.faults), "error")
        return (Span(f" The plan has {number}. Nothing was submitted. ", "strong"),)

    def build_body(self, cells: int) -> Sequence[Line]:
        lines: list[Line] = [()]
        for at, (head, *rest) in enumerate(self._list_blocks(cells)):
            here = (Span("> ", "accent"), *head[1:]) if at == self._at else head
            lines += (here, *rest)
        return lines

    def _list_blocks(self, cells: int) -> Sequence[Sequence[Line]]:
        if self._blocks[0] != cells:
            found = self._excerpts
            blocks = [
                render_fault(fault, found.get(at, ()), cells)
                for at, fault in enumerate(self.faults)
            ]
            self._blocks = (cells, blocks)
        return self._blocks[1]

    def build_fixed(self, cells: int) -> Sequence[Line]:
        once = ", once it is saved" if cells >= _ROOMY else ""
        keys = build_keys((("enter", "its place"), ("ctrl+r", f"plan again{once}")))
        notice = (Span(self._notice, "warning"),) if self._notice else ()
        return [cut(notice, cells), cut((Span("[Close]", "button"), *keys), cells)]

    async def process_key(self, event: events.Key) -> None:
        step = {"j": 1, "down": 1, "k": -1, "up": -1}.get(event.key, 0)
        if step:
            self._at = max(0, min(self._at + step, len(self.faults) - 1))
            self._show_cursor()
        elif event.key == "enter":
            self._toggle_excerpt()
        elif event.key == "ctrl+r":
            self._show_notice("planning again ...")
            self._plan_again()
        elif event.key == "y":
            one = self.faults[self._at]
            parts = (one.place, one.where, one.message, one.hint)
            text = " ".join(part for part in parts if part)
            await self.app.run_action(("app", "copy", (outside(text, 4000),)))
        elif event.key in ("escape", "q", "ctrl+c", "ctrl+q"):
            self.finish("closed")
        else:
            self.handle_scroll(event.key)

    def on_resize(self) -> None:
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Scroll to the finding, all of it where it fits."""
        self.layout_box()
        inner = self.box_size.width - 4
        sizes = [len(block) for block in self._list_blocks(inner)]
        start = 1 + sum(sizes[: self._at])
        room = self.box_size.height - 2 - len(self.build_fixed(inner))
        top = min(max(self.frame.top, start + sizes[self._at] - room), start)
        self.frame.top = 0 if sum(sizes) + 1 <= room else max(0, top)
        self.frame.update_lines()

    def _toggle_excerpt(self) -> None:
        """Open the place in its file, or close it again."""
        fault = self.faults[self._at]
        self._blocks = (-1, ())
        if self._excerpts.pop(self._at, None) is not None:
            self._show_cursor()
        elif fault.path:
            self.run_worker(self._open_excerpt(self._at, self.faults))
        else:
            self._show_notice("no file is known for this one")

    async def _open_excerpt(self, at: int, faults: Sequence[Fault]) -> None:
        fault, notice = faults[at], ""
        excerpt: Excerpt = ()

        def read() -> str:
            with Path(fault.path).expanduser().open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")

        try:
            text = await self.context.background.fetch("excerpt", read)
            excerpt = find_excerpt(text, fault.line)
        except OSError as error:
            notice = f"{fault.path} cannot be read: {error.strerror}"
        if faults is self.faults:
            self._notice, self._blocks = notice, (-1, ())
            if not notice:
                self._excerpts[at] = excerpt
            self._show_cursor()
