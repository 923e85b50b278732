"""A screen whose rows are jobs that a person may act on: what a verb touches there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.kill_cost import NOTHING_TO_END
from autoexp_tui.cockpit.state.session import Scope, choose_scope
from autoexp_tui.model.resubmission import may_come_back
from autoexp_tui.model.states import NOT_STARTED

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView


class ActingScreen(BoxScreen):
    """Says which jobs are under its cursor; verbs act on those, or on the marked."""

    desk: Desk

    def under_cursor(self) -> tuple[JobView, ...]:
        """The jobs of the row that the person looks at."""
        raise NotImplementedError

    def subject(self) -> str:
        """What that row is called, where it is more than one job; not cleaned."""
        return ""

    def scope(self) -> Scope:
        """What a verb would touch now."""
        return choose_scope(
            self.desk.session,
            self.desk.marks,
            self.desk.shown,
            self.under_cursor(),
            outside(self.subject()),
        )

    def useful(self) -> Collection[str]:
        if self.cockpit.read_only:
            return ()
        session = self.desk.session
        jobs = session.list_jobs(tuple(self.desk.marks)) or self.under_cursor()
        states = {job.record.state for job in jobs}
        counts = session.counts
        found = {"run.pause"} if session.snapshot.paused else set()
        if any(may_come_back(job.record) for job in jobs):
            found.add("run.resubmit")
        if states - NOTHING_TO_END:
            found.add("run.kill")
        if states & NOT_STARTED:
            found.add("run.skip")
        if any(str(look) in ("planned", "held") for look in counts):
            found.add("run.submit")
        if any(str(look) == "asks" for look in counts):
            found.add("run.answer")
        return found


RUN_COMMANDS: Final[Mapping[str, Callable[[ActingScreen], object]]] = MappingProxyType(
    {
        "run.submit": lambda screen: screen.cockpit.acts.submit(screen.scope()),
        "run.kill": lambda screen: screen.cockpit.acts.kill(screen.scope()),
        "run.resubmit": lambda screen: screen.cockpit.acts.resubmit(screen.scope()),
        "run.answer": lambda screen: screen.cockpit.acts.answer(screen.scope()),
        "run.skip": lambda screen: screen.cockpit.acts.skip(screen.scope()),
        "run.pause": lambda screen: screen.cockpit.acts.pause_or_resume(),
        "run.undo": lambda screen: screen.cockpit.acts.undo(),
    }
)
"""By command id. Each asks before anything is sent."""
