"""Actions done outside, each time once: a line in a file, a command."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from autoexp_tui.actions.base import RuleAction
from autoexp_tui.model.kinds import FieldUse

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFile(RuleAction):
    """Add a line of text to a file, which is made when it is not there."""

    needs_values: ClassVar[bool] = True

    kind: Literal["append_to_file"] = "append_to_file"
    path: str
    """A relative one starts where the job runs."""
    text: str

    def find_use(self, field: str) -> FieldUse:
        return "name" if field == "path" else "text"

    def execute(self, firing: Firing) -> bool:
        """A path that the person wrote from the root is theirs; others stay below."""
        from autoexp_tui.effects.errands import AppendText

        path, below = self.path, ""
        if not path.startswith(("/", "~/")):
            below = firing.find_place() or "."
            path = posixpath.join(below, path)
        effect = AppendText(job=firing.job.name, path=path, text=self.text, below=below)
        firing.order(effect)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(RuleAction):
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
