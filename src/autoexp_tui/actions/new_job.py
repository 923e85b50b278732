"""Further jobs: one by its command, or those of a config."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from autoexp_tui.model import ids
from autoexp_tui.model.action import Action, JoinMode
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import FieldUse
from autoexp_tui.model.specs import JobSpec, Resources, Scalar

if TYPE_CHECKING:
    from autoexp_tui.actions.firing import Firing

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
        """The job that the action, every value put in, stands for."""
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
    specs = (getattr(one.effect, "spec", None) for one in state.pending.values())
    taken = {spec.name for spec in specs if spec is not None} | state.jobs.keys()
    names = (wanted if at == 1 else f"{wanted}_{at}" for at in count(1))
    return next(name for name in names if name not in taken)


def _find_place_beside(directory: str, name: str, new: str) -> str:
    """A job's directory beside another's, whose names may hold slashes."""
    if directory.endswith(f"/{name}"):
        return directory.removesuffix(name) + new
    return posixpath.join(posixpath.dirname(directory), new)
