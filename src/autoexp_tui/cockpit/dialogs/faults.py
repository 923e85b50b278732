"""The errors of a plan over the screen: each with its place, which enter opens.

Nothing was submitted. `ctrl+r` plans again after the file was saved; what is found
then takes the place of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from textual import events

from autoexp_tui.cockpit.dialogs.overlay import Overlay
from autoexp_tui.cockpit.render.plan_findings import (
    Excerpt,
    Fault,
    FaultRows,
    find_excerpt,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, outside
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.themes import Skin

Way: TypeAlias = Literal["closed", "opened"]
"""How it went away: by the person, or because the plan is sound now."""

_MOST_BYTES: Final = 1 << 20
"""Of a config file; a larger one is not shown."""
_ROOMY: Final = 64
"""From so many cells on every key is told in full."""


class FaultsScreen(Overlay[Way]):
    """Moves from finding to finding; `again` is asked to plan anew."""

    edge_role = "failed"
    widest = 140

    def __init__(
        self, skin: Skin, faults: Sequence[Fault], again: Callable[[], None]
    ) -> None:
        super().__init__(skin)
        self.faults = faults
        self._again = again
        self._at = 0
        self._excerpts: dict[int, Excerpt] = {}
        self._kept: FaultRows | None = None
        self._said = ""

    def take(self, faults: Sequence[Fault]) -> None:
        """Show what another planning found."""
        kept = self.faults[self._at].where if self.faults else ""
        self.faults = faults
        self._excerpts.clear()
        self._kept = None
        same = [at for at, one in enumerate(faults) if one.where == kept]
        self._at = same[0] if same else 0
        self._said = "planned again; this is left"
        self.place()

    def heading(self) -> Line:
        number = plural(len(self.faults), "error")
        text = f" The plan has {number}. Nothing was submitted. "
        return (Span(text, "strong"),)

    def body(self, cells: int) -> Sequence[Line]:
        return [(), *self._rows(cells).with_cursor(self._at)]

    def _rows(self, cells: int) -> FaultRows:
        if self._kept is None or self._kept.cells != cells:
            self._kept = FaultRows(self.faults, self._excerpts, cells)
        return self._kept

    def fixed(self, cells: int) -> Sequence[Line]:
        once = ", once it is saved" if cells >= _ROOMY else ""
        keys = (("enter", "its place"), ("ctrl+r", f"plan again{once}"))
        parts = tuple(
            part
            for key, words in keys
            for part in (Span(f"   {key}", "key"), Span(f" {words}"))
        )
        said = (Span(self._said, "warning"),) if self._said else ()
        return [cut(said, cells), cut((Span("[Close]", "button"), *parts), cells)]

    def press(self, event: events.Key) -> None:
        step = {"j": 1, "down": 1, "k": -1, "up": -1}.get(event.key, 0)
        if step:
            self._move(step)
        elif event.key == "enter":
            self._open()
        elif event.key == "ctrl+r":
            self._said = "planning again ..."
            self.place()
            self._again()
        elif event.key == "y":
            self.cockpit.copy(self._copied())
        elif event.key in ("escape", "q", "ctrl+c", "ctrl+q"):
            self.finish("closed")
        else:
            self.scroll_key(event.key)

    def _move(self, step: int) -> None:
        self._at = max(0, min(self._at + step, len(self.faults) - 1))
        self._show_cursor()

    def on_resize(self) -> None:
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Scroll to the finding, all of it where it fits."""
        self.place()
        inner = self.frame_size.width - 4
        rows = self._rows(inner)
        start = rows.starts[self._at]
        end, *_ = (*rows.starts[self._at + 1 : self._at + 2], rows.count)
        room = self.frame_size.height - 2 - len(self.fixed(inner))
        top = max(self.frame.top, end + 1 - room)
        whole = rows.count + 1 <= room
        self.frame.top = 0 if whole else max(0, min(top, start + 1))
        self.frame.repaint()

    def _copied(self) -> str:
        fault = self.faults[self._at]
        parts = (fault.place, fault.where, fault.message, fault.hint)
        return outside(" ".join(part for part in parts if part), 4000)

    # --------------------------------------------------------------------- excerpts
    def _open(self) -> None:
        """Open the place in its file, or close it again."""
        at, fault = self._at, self.faults[self._at]
        self._kept = None
        if self._excerpts.pop(at, None) is not None:
            self._show_cursor()
            return
        if not fault.path:
            self._said = "no file is known for this one"
            self.place()
            return
        faults = self.faults

        def done(text: Any, problem: BaseException | None) -> None:
            if faults is not self.faults or not self.is_attached:
                return
            if isinstance(problem, OSError):
                self._said = f"{fault.path} cannot be read: {problem.strerror}"
            elif problem is not None:
                raise problem
            else:
                self._said = ""
                self._excerpts[at] = find_excerpt(text, fault.line)
                self._kept = None
            self._show_cursor()

        self.cockpit.background.call("excerpt", lambda: _text(fault.path), done)


def _text(path: str) -> str:
    with Path(path).expanduser().open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
