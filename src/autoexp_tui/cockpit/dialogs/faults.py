"""The errors of a plan over the screen: each with its place, which enter opens.

Nothing was submitted. `ctrl+r` plans again after the file was saved; what is found
then takes the place of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from textual import events

from autoexp_tui.cockpit.dialogs.overlay import Overlay, build_keys
from autoexp_tui.cockpit.messages import CopyRequested
from autoexp_tui.cockpit.render.plan_findings import (
    Excerpt,
    Fault,
    FaultRows,
    find_excerpt,
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
        self._rows: FaultRows | None = None
        self._notice = ""

    def take(self, faults: Sequence[Fault]) -> None:
        """Show what another planning found."""
        kept = self.faults[self._at].where if self.faults else ""
        self.faults = faults
        self._excerpts.clear()
        self._rows = None
        same = [at for at, one in enumerate(faults) if one.where == kept]
        self._at = same[0] if same else 0
        self._show_notice("planned again; this is left")

    def _show_notice(self, notice: str) -> None:
        self._notice = notice
        self.layout_box()

    def build_title(self) -> Line:
        number = plural(len(self.faults), "error")
        text = f" The plan has {number}. Nothing was submitted. "
        return (Span(text, "strong"),)

    def build_body(self, cells: int) -> Sequence[Line]:
        return [(), *self._find_rows(cells).with_cursor(self._at)]

    def _find_rows(self, cells: int) -> FaultRows:
        if self._rows is None or self._rows.cells != cells:
            self._rows = FaultRows(self.faults, self._excerpts, cells)
        return self._rows

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
            self.post_message(CopyRequested(self._describe_fault()))
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
        rows = self._find_rows(inner)
        start = rows.starts[self._at]
        end, *_ = (*rows.starts[self._at + 1 : self._at + 2], rows.count)
        room = self.box_size.height - 2 - len(self.build_fixed(inner))
        top = max(self.frame.top, end + 1 - room)
        whole = rows.count + 1 <= room
        self.frame.top = 0 if whole else max(0, min(top, start + 1))
        self.frame.update_lines()

    def _describe_fault(self) -> str:
        fault = self.faults[self._at]
        parts = (fault.place, fault.where, fault.message, fault.hint)
        return outside(" ".join(part for part in parts if part), 4000)

    # --------------------------------------------------------------------- excerpts
    def _toggle_excerpt(self) -> None:
        """Open the place in its file, or close it again."""
        at, fault, faults = self._at, self.faults[self._at], self.faults
        self._rows = None
        if self._excerpts.pop(at, None) is not None:
            self._show_cursor()
            return
        if not fault.path:
            self._show_notice("no file is known for this one")
            return

        def done(text: Any, problem: BaseException | None) -> None:
            if faults is not self.faults or not self.is_attached:
                return
            if isinstance(problem, OSError):
                self._notice = f"{fault.path} cannot be read: {problem.strerror}"
            elif problem is not None:
                raise problem
            else:
                self._notice = ""
                self._excerpts[at] = find_excerpt(text, fault.line)
                self._rows = None
            self._show_cursor()

        work = partial(_read_config, fault.path)
        self.context.background.call("excerpt", work, done)


def _read_config(path: str) -> str:
    with Path(path).expanduser().open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
