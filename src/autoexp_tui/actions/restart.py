"""Restart: a further attempt, and which checkpoint it begins from."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoexp_tui.model.action import Action
from autoexp_tui.model.states import BEGUN, Cause, JobState, why

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing
    from autoexp_tui.model.state import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Action, kind="restart", restarts=True, is_of_run=True, follows_run=True):
    """Run the job again, as a further attempt."""

    reason: str = ""
    overrides: tuple[str, ...] = ()
    exclude_node: bool = False
    from_checkpoint: bool = True
    followers: Literal["wait", "use"] = "wait"
    """Where it begins anew (`overrides`, or not from a checkpoint): followers wait for
    new files, or use those that are there."""
    quarantine_after: int = 0
    """Failures in a row on one checkpoint before it is moved aside; 0: never."""

    def execute(self, firing: Firing) -> bool:
        """Order a further attempt once the run has ended; a living one ends first."""
        job = firing.job
        if job.ended:
            firing.drop("job_is_over")
            return False
        if firing.ended is None and job.state is not JobState.RETRYING:
            reason = firing.explain("restart_ordered", self.reason)
            if firing.request_end(reason, Cause.KILL_CRITERION):
                firing.put_off(reason)
            elif firing.armed.key not in job.deferred:
                firing.drop("job_is_over")
            return False
        if self.exclude_node:
            firing.exclude_node()
        if self.quarantine_after and self.from_checkpoint:
            from autoexp_tui.actions.checkpoints import request_look

            request_look(firing.context, job, after=self.quarantine_after)
        bound, missing = firing.bind_action()
        if bound is None:
            lacking = ", ".join(
                f"{one.key}: {one.problem}"
                if one.problem
                else f"no value for {one.key} yet"
                for one in missing
            )
            firing.log(f"restarted without its overrides: {lacking}", "warning")
        firing.request_retry(self, getattr(bound, "overrides", ()))
        return True

    def can_fire_late(self, job: JobRecord) -> bool:
        attempt = job.attempt
        ends = attempt is not None and attempt.is_told_to_end
        return job.state is JobState.RETRYING or (job.state in BEGUN and not ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCheckpoint(
    Action,
    kind="quarantine_checkpoint",
    is_of_run=True,
    follows_run=True,
    needs_values=True,
):
    """Move the job's newest checkpoint aside, so that the one before it is used."""

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
        where = firing.context.rules_of(firing.job.name).checkpoints
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
