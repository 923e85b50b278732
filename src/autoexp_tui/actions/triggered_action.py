"""A rule's action at hand: which one it is, what triggered it, and what it is made of.

Rules are looked up by name, so that an action that was put off is found again by the
next engine. Whether it may fire, and what it does then, is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoexp_tui.actions.kinds import Cancel, Finish, QuarantineCheckpoint, Restart
from autoexp_tui.model.action import Action
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.rules import LogEvent, StateEvent
from autoexp_tui.model.state import Deferred

OF_THE_RUN = (Restart, Cancel, Finish, QuarantineCheckpoint)
"""Actions on the job's own run: once the job has ended there is nothing to do."""
AFTER_THE_RUN = (Restart, QuarantineCheckpoint)
"""Actions that wait for the end of the run that made them due."""


@dataclass(frozen=True, slots=True)
class Armed:
    """A rule's action and what triggered it."""

    key: str
    """`<rule>/<index>`."""
    action: Action
    trigger: str
    line: str = ""

    @property
    def rule(self) -> str:
        """The rule's name."""
        return self.key.rpartition("/")[0]


def find_armed(
    context: DecisionContext, job: str, key: str, put_off: Deferred
) -> Armed | None:
    """The action that `<rule>/<index>` names for a job; None when rules changed."""
    name, _, index = key.rpartition("/")
    watched = context.rules_of(job)
    rules: tuple[LogEvent | StateEvent, ...] = (
        *watched.log_events,
        *watched.state_events,
    )
    for rule in rules:
        if rule.name == name and index.isdigit() and int(index) < len(rule.actions):
            action = rule.actions[int(index)]
            return Armed(key, action, put_off.trigger, put_off.line)
    return None


def outlives_its_job(
    context: DecisionContext, job: str, key: str, put_off: Deferred
) -> bool:
    """Whether an action that was put off may still fire once the job has ended."""
    armed = find_armed(context, job, key, put_off)
    return armed is not None and not isinstance(armed.action, OF_THE_RUN)
