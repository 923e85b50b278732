"""Cancel and finish: the end of a job's run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoexp_tui.model.action import Action
from autoexp_tui.model.states import BEGUN, Cause

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing
    from autoexp_tui.model.state import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Action, kind="cancel", is_of_run=True):
    """End the job."""

    reason: str = ""
    cause: Literal["cancel_condition", "nan", "stall", "kill_criterion"] = (
        "cancel_condition"
    )

    def execute(self, firing: Firing) -> bool:
        reason = firing.explain("cancelled_by_rule", self.reason)
        firing.request_end(reason, Cause(self.cause))
        return True

    def can_fire_late(self, job: JobRecord) -> bool:
        return job.state in BEGUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Action, kind="finish", is_of_run=True):
    """The job is done: end what runs of it, and count it as completed."""

    reason: str = ""

    def execute(self, firing: Firing) -> bool:
        done = firing.finish(firing.explain("finished_by_rule", self.reason))
        if not done:
            firing.drop("job_is_over")
        return done

    def can_fire_late(self, job: JobRecord) -> bool:
        return job.state in BEGUN
