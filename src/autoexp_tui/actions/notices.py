"""Actions that tell somebody something: a line among the events, a warning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoexp_tui.actions.base import RuleAction

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(RuleAction):
    """Write a line to the session's events."""

    kind: Literal["log"] = "log"
    message: str
    level: Literal["info", "warning", "error"] = "info"

    def execute(self, firing: Firing) -> bool:
        firing.log(firing.format_text(self.message), self.level)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify(RuleAction):
    """Tell the person: a warning in the cockpit, and `notify.command` if set."""

    kind: Literal["notify"] = "notify"
    message: str

    def execute(self, firing: Firing) -> bool:
        firing.notify(firing.format_text(self.message))
        return True
