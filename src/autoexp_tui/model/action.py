"""What every action is: what a rule may do when it applies. Effects are imported where
an action fires: planning needs its fields, and nothing that runs jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import Kind, KindTable

JoinMode: TypeAlias = Literal["queue", "now"]
"""Where jobs stand that join: behind all that wait for a slot, or before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Kind):
    kinds: ClassVar[KindTable[Action]] = KindTable(
        "action",
        {
            "actions.restart": "restart:Restart "
            "quarantine_checkpoint:QuarantineCheckpoint",
            "actions.stop": "cancel:Cancel finish:Finish",
            "actions.notify": "log:Log notify:Notify append_to_file:AppendToFile",
            "actions.command": "command:RunCommand",
            "actions.new_job": "new_job:NewJob run_autoexp:RunAutoexp",
        },
    )

    restarts: ClassVar[bool] = False
    """Whether the job may run again because of it."""
    is_of_run: ClassVar[bool] = False
    """Whether it acts on the job's own run: nothing is to do once that is over."""
    follows_run: ClassVar[bool] = False
    """Whether it waits for the end of the run that made it due."""
    needs_values: ClassVar[bool] = False
    makes_jobs: ClassVar[bool] = False

    conditions: tuple[Condition, ...] = ()
    """All must pass; one that WAITs defers the action, it is not dropped."""

    def execute(self, firing: Any) -> bool:
        """Carry it out for an `actions.firing.Firing`; False: put off, or dropped."""
        raise NotImplementedError(type(self).__name__)

    def can_fire_late(self, job: Any) -> bool:
        """Whether it may be carried out now although it was put off before."""
        return not self.follows_run


@dataclass(frozen=True, slots=True)
class Armed:
    """A rule's action and what triggered it."""

    key: str
    action: Action
    trigger: str
    line: str = ""

    @property
    def rule(self) -> str:
        return self.key.rpartition("/")[0]
