"""A command of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from autoexp_tui.model.action import Action

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action):
    """Run a command, without a shell, once."""

    needs_values: ClassVar[bool] = True

    kind: Literal["command"] = "command"
    command: tuple[str, ...]
    timeout: float = 60.0
    """Seconds until it is killed, with whatever it started."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the engine's own environment."""

    def execute(self, firing: Firing) -> bool:
        from autoexp_tui.effects.errands import RunActionCommand

        effect = RunActionCommand(
            job=firing.job.name,
            command=self.command,
            timeout=self.timeout,
            env={**firing.read_variables(), **self.env},
            cwd=firing.find_place(),
        )
        firing.order(effect)
        return True
