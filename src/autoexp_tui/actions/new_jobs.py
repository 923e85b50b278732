"""The job that a rule makes of the one that triggered it.

What the rule does not say is the trigger's: directories beside its own, variables,
resources, family. Whether the name is free, and whom the job waits for, is seen to when
it joins.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Final

from autoexp_tui.actions.kinds import NewJob
from autoexp_tui.conditions.bindings import Lacking, Later, bind
from autoexp_tui.effects.effects import AddJob
from autoexp_tui.model import ids
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.model.state import JobRecord

_ODD: Final = re.compile(r"[^\w.+=@-]+")


def bound(
    context: DecisionContext, action: NewJob, own: Mapping[str, str]
) -> tuple[Action | None, tuple[Lacking, ...]]:
    """The action with its values put in; None, and what is missing.

    Its start and cancel conditions keep `{runtime...}` of what is not known yet: the
    new job waits for that itself.
    """
    bare = replace(action, start_conditions=(), cancel_conditions=())
    made, missing = bind(bare, context.metadata, context.state.jobs, own)
    start, lacking = _conditions(context, action.start_conditions, own)
    cancel, also = _conditions(context, action.cancel_conditions, own)
    if made is None or lacking or also:
        return None, (*missing, *lacking, *also)
    return replace(made, start_conditions=start, cancel_conditions=cancel), ()


def _conditions(
    context: DecisionContext, specs: tuple[Condition, ...], own: Mapping[str, str]
) -> tuple[tuple[Condition, ...], tuple[Lacking, ...]]:
    def known_or_later(job: str, key: str) -> str:
        return context.metadata(job, key) or Later(f"{{runtime.{job}.{key}}}")

    made: list[Condition] = []
    missing: list[Lacking] = []
    for spec in specs:
        found, lacking = bind(spec, known_or_later, context.state.jobs, own)
        made += [] if found is None else [found]
        missing += lacking
    return tuple(made), tuple(missing)


def spec_of(
    context: DecisionContext, action: NewJob, trigger: JobRecord, rule: str
) -> JobSpec:
    """The job that an action, every value put in, stands for."""
    like = trigger.spec
    name = action.name or _free_name(context, f"{like.name}_{_ODD.sub('_', rule)}")
    resources = _resources(action, like.resources)
    env = {**like.env, **action.env}
    cwd = posixpath.join(like.cwd, action.cwd) if action.cwd else like.cwd
    marks = (action.command, sorted(env.items()), cwd, resources)
    return JobSpec(
        name=name,
        index=0,
        stage=action.stage or rule,
        family=like.family,
        command=action.command,
        env=env,
        cwd=cwd,
        output_dir=_beside(like.output_dir, like.name, name),
        log_dir=_beside(like.log_dir, like.name, name),
        fingerprint=ids.digest("new job", *marks, length=64),
        start_conditions=action.start_conditions,
        cancel_conditions=action.cancel_conditions,
        resources=resources,
    )


def _free_name(context: DecisionContext, wanted: str) -> str:
    """`wanted`, or the first of `wanted_2`, `wanted_3` ... that nobody has."""
    ordered = {
        pending.effect.spec.name
        for pending in context.state.pending.values()
        if isinstance(pending.effect, AddJob)
    }
    names = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
    return next(n for n in names if n not in context.state.jobs and n not in ordered)


def _beside(directory: str, name: str, new: str) -> str:
    """A job's directory beside another's, whose names may hold slashes."""
    if directory.endswith(f"/{name}"):
        return directory.removesuffix(name) + new
    return posixpath.join(posixpath.dirname(directory), new)


def _resources(action: NewJob, trigger: Resources) -> Resources:
    limit, gpus = action.time_limit_seconds, action.gpus
    return Resources(
        time_limit_seconds=trigger.time_limit_seconds if limit is None else limit,
        gpus=trigger.gpus if gpus is None else gpus,
        options={**trigger.options, **action.options},
    )
