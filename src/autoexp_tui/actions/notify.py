"""Log, notify, append to a file: what is told of a job."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoexp_tui.model.action import Action
from autoexp_tui.model.kinds import FieldUse

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Action, kind="log"):
    """Write a line to the session's events."""

    message: str
    level: Literal["info", "warning", "error"] = "info"

    def execute(self, firing: Firing) -> bool:
        firing.log(firing.format_text(self.message), self.level)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify(Action, kind="notify"):
    """Tell the person: a warning in the cockpit, and `notify.command` if set."""

    message: str

    def execute(self, firing: Firing) -> bool:
        firing.notify(firing.format_text(self.message))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFile(Action, kind="append_to_file", needs_values=True):
    """Add a line of text to a file, which is made when it is not there."""

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
