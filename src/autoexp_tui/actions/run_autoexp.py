"""The action that plans a config, and lets its jobs join the session."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from autoexp_tui.actions.base import RuleAction
from autoexp_tui.model.action import JoinMode
from autoexp_tui.model.kinds import FieldUse

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAutoexp(RuleAction):
    """Plan a config, and let its jobs join the session."""

    needs_values: ClassVar[bool] = True
    makes_jobs: ClassVar[bool] = True

    kind: Literal["run_autoexp"] = "run_autoexp"
    config_ref: str = ""
    """As on the command line; this or `config_path`."""
    config_path: str = ""
    """A YAML file; a relative one starts where the job runs."""
    overrides: tuple[str, ...] = ()
    mode: JoinMode = "queue"
    script: str = ""
    """Accepted for old configs, never run: planning is the engine's own work."""

    def find_use(self, field: str) -> FieldUse:
        return "name" if field in ("config_ref", "config_path") else "text"

    def execute(self, firing: Firing) -> bool:
        from autoexp_tui.effects.effects import PlanJobs

        path, written = self.config_path, firing.armed.action
        assert isinstance(written, RunAutoexp)
        effect = PlanJobs(
            job=firing.job.name,
            action=firing.armed.key,
            config_ref=self.config_ref,
            config_path=posixpath.join(firing.find_place(), path) if path else "",
            overrides=self.overrides,
            log_values=firing.find_unsafe_values(written.overrides),
            mode=self.mode,
        )
        firing.order(effect)
        return True
