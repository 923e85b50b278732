"""What an action does when its rule applies: the light half, of which planning reads.

Modules of kinds import the model alone. What a kind orders outside is imported where it
fires: planning needs the fields of actions, and nothing that runs jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autoexp_tui.conditions.bindings import Lacking
from autoexp_tui.model.action import Action

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing
    from autoexp_tui.model.state import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAction(Action):
    """An action that tells itself what it does."""

    def execute(self, firing: Firing) -> bool:
        """Carry it out; False: it has been put off or dropped instead."""
        raise NotImplementedError(type(self).__name__)

    def bind(self, firing: Firing) -> tuple[Action | None, tuple[Lacking, ...]]:
        """The action with every value put in; None, and what is missing.

        Its conditions are left out: they were judged already.
        """
        bare: Action = replace(self, conditions=())
        return firing.bind(bare)

    def can_fire_late(self, job: JobRecord) -> bool:
        """Whether it may be carried out now although it was put off before.

        What follows a run fires at its end.
        """
        return not self.follows_run
