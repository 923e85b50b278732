"""A job of a plan made again with further overrides; a plan that joins a session.

Its name, directories and waits stay. What its config says otherwise than the plan
follows from the overrides alone: a config that has changed since is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.job_config import JobFinisher, build_mounts, select_or_none
from autoexp_tui.planning.overrides import escape_dollars, read_override_key
from autoexp_tui.planning.ports import Composer, ConfigView, SpecParser
from autoexp_tui.sweep.points import plain_key

Recorder: TypeAlias = Callable[[Mapping[str, object], Mapping[str, object]], None]
"""Takes the config of the job, resolved and as written."""


def build_job_again(
    job: JobSpec,
    further: Sequence[str],
    *,
    plan: Plan,
    composer: Composer,
    parser: SpecParser,
    record: Recorder | None = None,
) -> JobSpec:
    """A planned job with further overrides, its parameters as they are then.

    `record` is called where any value differs from the plan's. Raises CannotCompose;
    SpecRefused: what it asks for is not valid then; UsageError: the config is not the
    one that the plan was made from.
    """
    before, rules_before, view_before = _make(job, (), plan, composer, parser)
    if before.fingerprint != job.fingerprint:
        raise UsageError(
            "the config has changed since the plan was made",
            where=job.name,
            hint="overrides would change more than they say: make a new plan",
        )
    after, rules, view = _make(job, further, plan, composer, parser)
    values, planned = _list_values(job, further, view_before, view)
    if record is not None and values != planned:
        record(view.to_dict(), view.written_dict())
    return replace(
        after,
        parameters=values,
        planned=planned if values != planned else None,
        cwd=after.cwd if after.cwd != before.cwd else job.cwd,
        own_rules=rules if rules != rules_before else job.own_rules,
    )


def _list_values(
    job: JobSpec, further: Sequence[str], before: ConfigView, after: ConfigView
) -> tuple[dict[str, object], dict[str, object]]:
    """The parameters that a job runs with, and what the plan has for the same keys."""
    values, planned = dict(job.parameters), dict(job.parameters)
    written = {plain_key(key): key for key in job.parameters}
    given = {read_override_key(text): text.partition("=")[2] for text in further}
    for plain in {**written, **given}:
        if plain not in given and "${" in repr(job.parameters[written[plain]]):
            continue  # as it is written it is true still
        old, new = select_or_none(before, plain), select_or_none(after, plain)
        if old == new:
            continue
        key = written.get(plain, plain)
        if isinstance(new, Mapping):  # of a config group its name says more
            if plain in given:
                values[key] = given[plain]
            continue
        values[key] = new
        if key not in planned and not isinstance(old, Mapping):
            planned[key] = old
    return values, planned


def _make(
    job: JobSpec,
    further: Sequence[str],
    plan: Plan,
    composer: Composer,
    parser: SpecParser,
) -> tuple[JobSpec, Monitoring, ConfigView]:
    """A job as the config makes it, in the plan's own directories; its own rules."""
    mounts = build_mounts(job.stage, job.index, job.family, composer.base())
    view = composer.compose((*job.overrides, *further), mounts)
    view.put("project.name", escape_dollars(job.name))
    if view.has("project.base_output_dir") and plan.base_output_dir:
        view.put("project.base_output_dir", plan.base_output_dir)
    if view.has("slurm.log_dir"):
        view.put("slurm.log_dir", job.log_dir.removesuffix(f"/{job.name}"))
    finisher = JobFinisher(parser, plan.monitoring, [])
    spec = replace(job, overrides=(*job.overrides, *further))
    spec = finisher.finish(spec, view, view.to_dict())
    rules = finisher.rule_sets.get(spec.rules, plan.monitoring)
    return replace(spec, rules=job.rules), rules, view


def join_plan(plan: Plan, *, family: str, families: int, stage: str = "") -> Plan:
    """`plan`, families apart from the session's; `family`: of the job behind it."""
    own = list(dict.fromkeys(job.family for job in plan.jobs))
    names = {one: f"f{number}" for number, one in enumerate(own, families)}
    if len(own) == 1:
        names = {own[0]: family}
    jobs = tuple(
        replace(job, family=names[job.family], stage=job.stage or stage)
        for job in plan.jobs
    )
    return replace(plan, jobs=jobs)
