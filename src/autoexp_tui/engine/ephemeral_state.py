"""What the engine works with and never journals: it follows from state and clock.

After a start, and after a bug in one decision, all of it is made anew from the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autoexp_tui.model.decision_context import Roster
from autoexp_tui.model.indexes import Timers, Watch
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState, Verdict


@dataclass(slots=True)
class EphemeralState:
    """One object for life; its parts are replaced by `restart`."""

    watch: Watch = field(default_factory=Watch)
    timers: Timers = field(default_factory=Timers)
    roster: Roster = field(default_factory=Roster)
    verdicts: dict[tuple[str, str, int], Verdict] = field(default_factory=dict)
    """(job, role, index) -> the newest verdict, its arguments as of now."""
    to_judge: set[str] = field(default_factory=set)
    """Jobs that the next commit looks at whatever happens."""
    reworded: set[str] = field(default_factory=set)
    """Jobs of which a front end would see something else, though no event happened."""

    def restart(self, state: SessionState) -> None:
        """Everything anew."""
        self.watch = Watch()
        self.timers = Timers()
        self.roster = Roster()
        self.verdicts = {}
        self.reworded = set(state.jobs)
        for job in state.jobs.values():
            self.roster.note(job)
        self.to_judge = {
            name
            for name, job in state.jobs.items()
            if job.deferred
            or (not job.ended and job.state not in {JobState.PLANNED, JobState.HELD})
        }

    def take_to_judge(self) -> set[str]:
        """`to_judge`, which is empty afterwards."""
        taken, self.to_judge = self.to_judge, set()
        return taken
