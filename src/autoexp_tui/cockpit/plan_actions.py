"""A plan that nobody has submitted: planned again, its errors, what is new in it.

What plans, and what compares, is the caller's: both come with the cockpit's options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.context import CockpitContext, ShowNotice
    from autoexp_tui.cockpit.dialogs.faults import FaultsScreen, Way
    from autoexp_tui.cockpit.render.plan_findings import Fault, PlanChanges
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.specs import Plan


class PlanActions:
    """Plans again when asked to, and shows what came of it."""

    def __init__(
        self,
        context: CockpitContext,
        app: App[Any],
        show_notice: ShowNotice,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when what the engine is doing is told otherwise."""
        self._context = context
        self._app = app
        self._show_notice = show_notice
        self._on_change = on_change
        self._faults: FaultsScreen | None = None
        self._compared: Plan | None = None
        """The plan that was compared with the one before it, or is being so."""
        self.changes: PlanChanges | None = None
        """What is new since the last plan; None: no such plan is known, or not yet."""

    def take(self, snapshot: Snapshot, before: Plan | None) -> None:
        """Say what a newer snapshot means for the plan; `before`: the one shown."""
        if self._faults is not None and snapshot.plan is not None:
            self._faults.finish("opened")  # the plan is sound now
        plan, look = snapshot.plan, self._context.options.changes
        is_open = snapshot.engine.role == "plan"
        if look and plan and is_open and plan is not self._compared:
            self._compared, self.changes = plan, None  # compared once for each plan
            self._app.run_worker(self._find_changes(partial(look, plan)))
        other = None not in (before, snapshot.plan) and snapshot.plan is not before
        if other and is_open:
            self._show_notice(f"planned again: {plural(len(snapshot.jobs), 'job')}")

    def plan_again(self) -> None:
        """Plan from what was saved, where nobody has submitted the plan."""
        replan = self._context.options.replan
        if replan is None or self._context.handle.role != "plan":
            self._show_notice("only a plan that nobody has submitted is planned again")
            return
        self._show_notice("planning again ...", keep=True)
        replan()

    def show_faults(
        self, faults: Sequence[Fault], on_close: Callable[[], None]
    ) -> None:
        """Show why there is no plan; `on_close` is called when there is none left."""
        from autoexp_tui.cockpit.dialogs.faults import FaultsScreen

        self._show_notice("")
        self._set_failed(failed=True)
        if self._faults is not None:
            self._faults.take(faults)
            return

        def done(way: Way | None) -> None:
            self._faults = None
            if way != "closed":
                return
            if self._context.model.session.snapshot.plan is None:
                on_close()
            else:
                text = "the plan of before stands; ctrl+r plans again"
                self._show_notice(text, keep=True)

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
            told = self.changes.describe(self._context.find_utc())
            self._show_notice(f"{told}   ({key} reads it)", keep=True)

    def show_changes(self) -> None:
        """Show what changed since the last plan of this config."""
        from autoexp_tui.cockpit.dialogs.reader import ReaderScreen
        from autoexp_tui.cockpit.render.job_details import Page

        if self.changes is None:
            self._show_notice("no earlier plan of this config is known")
            return
        page = Page("", self.changes.render(self._context.find_utc()))
        self._app.push_screen(
            ReaderScreen(self._context, "Since the last plan", [page])
        )
