"""Every action that a config can ask for: of a run, told, outside, further jobs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from autoexp_tui.model import ids
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import FieldUse
from autoexp_tui.model.rules import Action, JoinMode
from autoexp_tui.model.specs import JobSpec, Resources, Scalar
from autoexp_tui.model.states import BEGUN, Cause, JobState, why

if TYPE_CHECKING:
    from autoexp_tui.actions.orders import Firing
    from autoexp_tui.model.state import JobRecord


_ODD: Final = re.compile(r"[^\w.+=@-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAutoexp(Action, kind="run_autoexp", needs_values=True, makes_jobs=True):
    """Plan a config, and let its jobs join the session."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob(Action, kind="new_job", needs_values=True, makes_jobs=True):
    """Let one further job join the session; what is not given is the trigger's."""

    command: tuple[str, ...]
    name: str = ""
    """Empty: `<job>_<rule>`, counted on where that is taken."""
    stage: str = ""
    """Empty: the rule's name."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the variables of the job that triggered it."""
    cwd: str = ""
    start_conditions: tuple[Condition, ...] = ()
    cancel_conditions: tuple[Condition, ...] = ()
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """The executor's own options that differ."""
    time_limit_seconds: float | None = None
    gpus: int | None = None
    mode: JoinMode = "queue"

    def find_use(self, field: str) -> FieldUse:
        if field == "options":
            return "plain"
        return "name" if field in ("name", "stage", "cwd") else "text"

    def execute(self, firing: Firing) -> bool:
        from autoexp_tui.effects.effects import AddJob

        spec = self._build_spec(firing)
        name, key = firing.job.name, firing.armed.key
        firing.order(AddJob(job=name, action=key, spec=spec, mode=self.mode))
        return True

    def _build_spec(self, firing: Firing) -> JobSpec:
        like, rule = firing.job.spec, firing.armed.rule
        name = self.name or _find_free_name(
            firing, f"{like.name}_{_ODD.sub('_', rule)}"
        )
        asked, limit, gpus = like.resources, self.time_limit_seconds, self.gpus
        resources = Resources(
            time_limit_seconds=asked.time_limit_seconds if limit is None else limit,
            gpus=asked.gpus if gpus is None else gpus,
            options={**asked.options, **self.options},
        )
        env = {**like.env, **self.env}
        cwd = posixpath.join(like.cwd, self.cwd) if self.cwd else like.cwd
        marks = (self.command, sorted(env.items()), cwd, resources)
        return JobSpec(
            name=name,
            index=0,
            stage=self.stage or rule,
            family=like.family,
            command=self.command,
            env=env,
            cwd=cwd,
            output_dir=_find_place_beside(like.output_dir, like.name, name),
            log_dir=_find_place_beside(like.log_dir, like.name, name),
            fingerprint=ids.digest("new job", *marks, length=64),
            start_conditions=self.start_conditions,
            cancel_conditions=self.cancel_conditions,
            resources=resources,
        )


def _find_free_name(firing: Firing, wanted: str) -> str:
    """`wanted`, or the first of `wanted_2`, `wanted_3` ... that no job has."""
    state = firing.context.state
    taken = {*state.jobs}
    for effect in (one.effect for one in state.pending.values()):
        spec = getattr(effect, "spec", None)
        taken |= {one.name for one in getattr(effect, "jobs", (spec,)) if one}
    names = (wanted if at == 1 else f"{wanted}_{at}" for at in count(1))
    return next(name for name in names if name not in taken)


def _find_place_beside(directory: str, name: str, new: str) -> str:
    """A job's directory beside another's, whose names may hold slashes."""
    if directory.endswith(f"/{name}"):
        return directory.removesuffix(name) + new
    return posixpath.join(posixpath.dirname(directory), new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Action, kind="restart", restarts=True, is_of_run=True, follows_run=True):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Action, kind="cancel", is_of_run=True):
    reason: str = ""
    cause: Literal["cancel_condition", "nan", "stall", "kill_criterion"] = (
        "cancel_condition"
    )

    def execute(self, firing: Firing) -> bool:
        reason = firing.explain("cancelled_by_rule", self.reason)
        firing.request_end(reason, Cause(self.cause))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Action, kind="finish", is_of_run=True):
    """The job is done: end what runs of it, and count it as completed."""

    reason: str = ""

    def execute(self, firing: Firing) -> bool:
        done = firing.finish(firing.explain("finished_by_rule", self.reason))
        if not done:
            firing.drop("job_is_over")
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Action, kind="log"):
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
        from autoexp_tui.effects.effects import AppendText

        path, below = self.path, ""
        if not path.startswith(("/", "~/")):
            below = firing.find_place() or "."
            path = posixpath.join(below, path)
        effect = AppendText(job=firing.job.name, path=path, text=self.text, below=below)
        firing.order(effect)
        return True


VALUE_VARIABLE: Final = "AUTOEXP_VALUE_"
"""Begins the variables that hold what a log has said."""
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action, kind="command", needs_values=True):
    command: tuple[str, ...]
    timeout: float = 60.0
    """Seconds until it is killed, with whatever it started."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the engine's own environment."""

    def execute(self, firing: Firing) -> bool:
        from autoexp_tui.effects.effects import RunActionCommand

        # What the job's log has said: as variables no shell reads it as more.
        values = {**firing.job.metadata, "line": firing.armed.line}
        variables = {
            f"{VALUE_VARIABLE}{_NO_LETTER.sub('_', key).upper()}": value
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
