"""A command of the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.action import Action

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing

VALUE_VARIABLE: Final = "AUTOEXP_VALUE_"
"""Begins the variables that hold what a log has said."""
_ODD: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action, kind="command", needs_values=True):
    """Run a command, without a shell, once."""

    command: tuple[str, ...]
    timeout: float = 60.0
    """Seconds until it is killed, with whatever it started."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the engine's own environment."""

    def execute(self, firing: Firing) -> bool:
        from autoexp_tui.effects.errands import RunActionCommand

        # What the job's log has said: as variables no shell reads it as more.
        values = {**firing.job.metadata, "line": firing.armed.line}
        variables = {
            f"{VALUE_VARIABLE}{_ODD.sub('_', key).upper()}": value
            for key, value in values.items()
            if value and "\0" not in value
        }
        effect = RunActionCommand(
            job=firing.job.name,
            command=self.command,
            timeout=self.timeout,
            env={**variables, **self.env},
            cwd=firing.find_place(),
        )
        firing.order(effect)
        return True
