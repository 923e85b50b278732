"""What every action is: what a rule may do when it applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import Kind, KindTable

JoinMode: TypeAlias = Literal["queue", "now"]
"""Where jobs stand that join: behind all that wait for a slot, or before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Kind):
    """The fields that every action has."""

    kinds: ClassVar[KindTable[Action]] = KindTable(
        {
            "actions.kinds": "restart:Restart cancel:Cancel log:Log notify:Notify "
            "finish:Finish append_to_file:AppendToFile command:RunCommand "
            "quarantine_checkpoint:QuarantineCheckpoint new_job:NewJob "
            "run_autoexp:RunAutoexp",
        }
    )

    restarts: ClassVar[bool] = False
    """Whether the job may run again because of it."""

    conditions: tuple[Condition, ...] = ()
    """All must pass; one that WAITs defers the action, it is not dropped."""
