"""A plan that nobody has submitted: planned again, its errors, what is new in it.

What plans, and what compares, is the caller's: both come with the cockpit's options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from textual import events

from autoexp_tui.cockpit.context import KEEP
from autoexp_tui.cockpit.dialogs.overlay import Overlay, build_keys
from autoexp_tui.cockpit.dialogs.reader import ReaderScreen
from autoexp_tui.cockpit.render.job_details import Page
from autoexp_tui.cockpit.render.plan_findings import (
    Excerpt,
    find_excerpt,
    find_place,
    render_fault,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, outside
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.render.plan_findings import PlanChanges
    from autoexp_tui.model.errors import Problem
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.specs import Plan

_MOST_BYTES: Final = 1 << 20
"""Of a config file; a larger one is not shown."""
_ROOMY: Final = 64
"""From so many cells on every key is told in full."""
_render_fault = lru_cache(maxsize=4096)(render_fault)
"""There may be thousands of findings, and every key shows some of them."""


class FaultsScreen(Overlay[bool]):
    """Moves from finding to finding; closes with whether a person closed it."""

    edge_role = "failed"
    most_cells: int = 140
    _at: int = 0
    _notice: str = ""

    def __init__(
        self,
        context: CockpitContext,
        faults: Sequence[Problem],
        plan_again: Callable[[], None],
    ) -> None:
        super().__init__(context)
        self.faults = faults
        self._plan_again = plan_again
        self._excerpts: dict[int, Excerpt] = {}
        """What is open of the findings' files, by place of the finding."""

    def take(self, faults: Sequence[Problem]) -> None:
        """Show what another planning found."""
        kept = self.faults[self._at].where if self.faults else ""
        self.faults = faults
        self._excerpts.clear()
        self._at = next((at for at, one in enumerate(faults) if one.where == kept), 0)
        self._show_notice("planned again; this is left")

    def _show_notice(self, notice: str) -> None:
        self._notice = notice
        self._show_cursor()

    def build_title(self) -> Line:
        number = plural(len(self.faults), "error")
        return (Span(f" The plan has {number}. Nothing was submitted. ", "strong"),)

    def _list_blocks(self, cells: int) -> Sequence[Sequence[Line]]:
        """The lines of each finding."""
        return [
            _render_fault(fault, self._excerpts.get(at, ()), cells)
            for at, fault in enumerate(self.faults)
        ]

    def build_body(self, cells: int) -> Sequence[Line]:
        lines: list[Line] = [()]
        for at, (head, *rest) in enumerate(self._list_blocks(cells)):
            here = (Span("> ", "accent"), *head[1:]) if at == self._at else head
            lines += (here, *rest)
        return lines

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
            await self._toggle_excerpt(self.faults[self._at])
        elif event.key == "ctrl+r":
            self._show_notice("planning again ...")
            self._plan_again()
        elif event.key == "y":
            one = self.faults[self._at]
            parts = (one.place, one.where, one.message, one.hint)
            text = " ".join(dict.fromkeys(part for part in parts if part))
            await self.app.run_action(("app", "copy", (outside(text, 4000),)))
        elif event.key in ("escape", "q", "ctrl+c", "ctrl+q"):
            self.finish(result=True)
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

    async def _toggle_excerpt(self, fault: Problem) -> None:
        """Open the place in its file, or close it again."""
        path, line = find_place(fault)
        if self._excerpts.pop(self._at, None) is not None:
            self._show_cursor()
        elif path:
            self.run_worker(self._open_excerpt(self._at, self.faults, path, line))
        else:
            self._show_notice("no file is known for this one")

    async def _open_excerpt(
        self, at: int, faults: Sequence[Problem], path: str, line: int
    ) -> None:
        def read() -> str:
            with Path(path).expanduser().open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")

        notice = ""
        try:
            text = await self.context.background.fetch("excerpt", read)
        except OSError as error:
            notice = f"{path} cannot be read: {error.strerror}"
        if faults is self.faults:
            if not notice:
                self._excerpts[at] = tuple(find_excerpt(text, line))
            self._show_notice(notice)


class PlanActions:
    """Plans again when asked to, and shows what came of it."""

    def __init__(
        self, context: CockpitContext, app: App[Any], on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called when what the engine is doing is told otherwise."""
        self._context = context
        self._app = app
        self._on_change = on_change
        self._faults: FaultsScreen | None = None
        self._compared: Plan | None = None
        """The plan that was compared with the one before it, or is being so."""
        self.changes: PlanChanges | None = None
        """What is new since the last plan; None: no such plan is known, or not yet."""

    def take(self, snapshot: Snapshot, before: Plan | None) -> None:
        """Say what a newer snapshot means for the plan; `before`: the one shown."""
        plan, look = snapshot.plan, self._context.options.changes
        if self._faults is not None and plan is not None:
            self._faults.finish(result=False)  # the plan is sound now
        if plan is None or snapshot.engine.role != "plan":
            return
        if look and plan is not self._compared:
            self._compared, self.changes = plan, None  # compared once for each plan
            self._app.run_worker(self._find_changes(partial(look, plan)))
        if before is not None and plan is not before:
            self._app.notify(f"planned again: {plural(len(snapshot.jobs), 'job')}")

    def plan_again(self) -> None:
        """Plan from what was saved, where nobody has submitted the plan."""
        replan = self._context.options.replan
        if replan is None or self._context.handle.role != "plan":
            self._app.notify("only a plan that nobody has submitted is planned again")
            return
        self._app.notify("planning again ...", timeout=KEEP)
        replan()

    def show_faults(
        self, faults: Sequence[Problem], on_close: Callable[[], None]
    ) -> None:
        """Show why there is no plan; `on_close` is called when there is none left."""
        self._app.notify("")
        self._set_failed(failed=True)
        if self._faults is not None:
            self._faults.take(faults)
            return

        def done(is_closed: bool | None) -> None:  # noqa: FBT001 - Textual's
            self._faults = None
            if is_closed and self._context.model.session.snapshot.plan is None:
                on_close()
            elif is_closed:
                text = "the plan of before stands; ctrl+r plans again"
                self._app.notify(text, timeout=KEEP)

        def plan_again() -> None:
            if self._context.options.replan is not None:
                self._set_failed(failed=False)
                self._context.options.replan()

        self._faults = FaultsScreen(self._context, faults, plan_again)
        self._app.push_screen(self._faults, done)

    def _set_failed(self, *, failed: bool) -> None:
        """Below the errors stands what was done: whether that has come to an end."""
        self._context.model.failed = failed
        self._on_change()

    async def _find_changes(self, look: Callable[[], PlanChanges | None]) -> None:
        self.changes = await self._context.background.fetch("changes", look)
        if self.changes is not None and self.changes.differs:
            key = self._context.keymap.key("plan.changes")
            summary = self.changes.describe(self._context.find_utc())
            self._app.notify(f"{summary}   ({key} reads it)", timeout=KEEP)

    def show_changes(self) -> None:
        """Show what changed since the last plan of this config."""
        if self.changes is None:
            self._app.notify("no earlier plan of this config is known")
            return
        page = Page("", self.changes.render(self._context.find_utc()))
        reader = ReaderScreen(self._context, "Since the last plan", [page])
        self._app.push_screen(reader)
