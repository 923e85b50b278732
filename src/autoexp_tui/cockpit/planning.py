"""A plan that nobody has submitted: planned again, its errors, what is new in it.

What plans, and what compares, is the caller's: both come with the cockpit's options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.options import LeaveWay
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.app import CockpitApp
    from autoexp_tui.cockpit.dialogs.faults import FaultsScreen, Way
    from autoexp_tui.cockpit.render.plan_findings import Fault, PlanChanges
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.specs import Plan


class PlanDesk:
    """Plans again when asked to, and shows what came of it."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app
        self._faults: FaultsScreen | None = None
        self._compared: Plan | None = None
        """The plan that was compared with the one before it, or is being so."""
        self.changes: PlanChanges | None = None
        """What is new since the last plan; None: no such plan is known, or not yet."""

    def take(self, snapshot: Snapshot, before: Plan | None) -> None:
        """Say what a newer snapshot means for the plan; `before`: the one shown."""
        self._close_faults(snapshot)
        self._look_for_changes(snapshot)
        other = None not in (before, snapshot.plan) and snapshot.plan is not before
        if other and snapshot.engine.role == "plan":
            self._app.say(f"planned again: {plural(len(snapshot.jobs), 'job')}")

    def again(self) -> None:
        """Plan from what was saved, where nobody has submitted the plan."""
        replan = self._app.options.replan
        if replan is None or self._app.handle.role != "plan":
            self._app.say("only a plan that nobody has submitted is planned again")
            return
        self._app.say("planning again ...", keep=True)
        replan()

    # ----------------------------------------------------------------------- errors
    def show_faults(self, faults: Sequence[Fault]) -> None:
        """Show why there is no plan; closed without one, the cockpit is left."""
        from autoexp_tui.cockpit.dialogs.faults import FaultsScreen

        self._app.say("")
        self._tell_failed(failed=True)
        if self._faults is not None:
            self._faults.take(faults)
            return
        self._faults = FaultsScreen(self._app.skin, faults, self._again)
        self._app.push_screen(self._faults, self._faults_closed)

    def _again(self) -> None:
        if self._app.options.replan is not None:
            self._tell_failed(failed=False)
            self._app.options.replan()

    def _tell_failed(self, *, failed: bool) -> None:
        """Below the errors stands what was done: whether that has come to an end."""
        self._app.desk.failed = failed
        if self._app.full_screen is not None:
            self._app.full_screen.renew()

    def _faults_closed(self, way: Way | None) -> None:
        self._faults = None
        if way == "closed" and self._app.desk.session.snapshot.plan is None:
            self._app.leave(LeaveWay.NOTHING)
        elif way == "closed":
            self._app.say("the plan of before stands; ctrl+r plans again", keep=True)

    def _close_faults(self, snapshot: Snapshot) -> None:
        """The plan is sound now: its errors go away."""
        if self._faults is not None and snapshot.plan is not None:
            self._faults.finish("opened")

    # ---------------------------------------------------------------------- changes
    def _look_for_changes(self, snapshot: Snapshot) -> None:
        """Once for each plan that is opened: what is new in it since the last one."""
        plan, look = snapshot.plan, self._app.options.changes
        if look is None or plan is None or snapshot.engine.role != "plan":
            return
        if plan is self._compared:
            return
        self._compared = plan
        self.changes = None
        self._app.background.call("changes", lambda: look(plan), self._compared_with)

    def _compared_with(self, result: Any, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem
        self.changes = result
        if result is not None and result.differs:
            key = self._app.commands.key("plan.changes")
            told = result.describe(self._app.clock.utc())
            self._app.say(f"{told}   ({key} reads it)", keep=True)

    def show_changes(self) -> None:
        """Show what changed since the last plan of this config."""
        if self.changes is None:
            self._app.say("no earlier plan of this config is known")
        else:
            page = self.changes.render(self._app.clock.utc())
            self._app.read_out("Since the last plan", page)
