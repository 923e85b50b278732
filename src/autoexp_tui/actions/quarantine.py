"""The action that moves a job's checkpoint aside."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from autoexp_tui.actions.base import RuleAction
from autoexp_tui.model.states import BEGUN, why

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCheckpoint(RuleAction):
    """Move the job's newest checkpoint aside, so that the one before it is used."""

    is_of_run: ClassVar[bool] = True
    follows_run: ClassVar[bool] = True
    needs_values: ClassVar[bool] = True

    kind: Literal["quarantine_checkpoint"] = "quarantine_checkpoint"
    path: str = ""
    """A certain one; empty: the newest. A relative one starts in `output_dir`."""
    keep: int = 0
    """Nothing is moved when fewer than this would be left."""

    def execute(self, firing: Firing) -> bool:
        from autoexp_tui.effects.effects import LookForCheckpoint

        job = firing.job
        if firing.ended is None and job.state in BEGUN:
            firing.put_off(why("after_the_run"))
            return False
        where = firing.find_rules().checkpoints
        path = posixpath.join(job.spec.output_dir, self.path) if self.path else ""
        look = LookForCheckpoint(
            job=job.name,
            attempt=len(job.attempts),
            output_dir=job.spec.output_dir,
            glob=where.glob,
            path=path,
            pointer=where.pointer,
            keep=self.keep,
        )
        firing.order(look)
        return True
