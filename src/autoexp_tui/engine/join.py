"""Plans that join a running session: what is asked of planning, and what may join.
Pure. A plan joins in one commit, or is refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from autoexp_tui.conditions.files import Places
from autoexp_tui.effects.effects import AddJob, PlanJobs
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.decision_context import rules_of
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.ids import digest
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.planning.validate import (
    find_shared_directories,
    validate_execution_plan,
)

MOST_TOLD = 3
"""Problems of a plan that are told where it is refused."""


class StoredPlan(NamedTuple):
    """A plan that is to join, beside the journal."""

    plan: Plan
    sha: str


def build_planning_request(
    state: SessionState, effect: PlanJobs, ordered_at: float
) -> FurtherPlan | None:
    """What planning is asked; None when the session has no plan to start from."""
    base = state.plan_of(effect.job)
    if base is None:
        return None
    trigger = state.jobs[effect.job].spec
    return FurtherPlan(
        base=base,
        config_ref=effect.config_ref,
        config_path=effect.config_path,
        overrides=effect.overrides,
        known=tuple(_list_known_jobs(state)),
        stage=trigger.stage,
        family=trigger.family,
        families=len({job.spec.family for job in state.jobs.values()}),
        now=ordered_at,
    )


def _list_known_jobs(state: SessionState) -> Iterator[tuple[str, str, str]]:
    for job in state.jobs.values():
        yield job.name, job.spec.output_dir, job.spec.log_dir


def build_job_plan(
    state: SessionState, effect_id: str, effect: AddJob, ordered_at: float
) -> Plan | None:
    """The plan of a job that a rule made; None when there is none to be like."""
    base = state.plan_of(effect.job)
    if base is None:
        return None
    spec = effect.spec
    whose = Places(
        [*_list_known_jobs(state), (spec.name, spec.output_dir, spec.log_dir)]
    )
    start = tuple(map(whose.with_writers, spec.start_conditions))
    cancel = tuple(map(whose.with_writers, spec.cancel_conditions))
    waits = {name for condition in start for name in whose.list_awaited(condition)}
    before = [name for name in state.order if name in waits]
    made = replace(
        spec,
        start_conditions=start,
        cancel_conditions=cancel,
        depends_on=tuple(before),
    )
    return replace(
        base,
        plan_id=digest(effect_id, spec.name),
        config_ref="",
        overrides=(),
        created_at=ordered_at,
        jobs=(made,),
        edges=tuple(Edge(before=b, after=spec.name, mode="waits") for b in before),
        monitoring=rules_of(state, state.jobs[effect.job].spec),
        rule_sets={},
        warnings=(),
        environment={},
    )


def find_hindrance(state: SessionState, plan: Plan) -> str:
    """Why a plan cannot join; empty when it can."""
    new = {job.name for job in plan.jobs if job.name not in state.jobs}
    specs: list[JobSpec] = [job.spec for job in state.jobs.values()]
    specs += [job for job in plan.jobs if job.name in new]
    shared = find_shared_directories(specs)  # that two jobs would write into
    found = [
        *(
            Problem(
                "the session has a job of this name",
                where="project.name",
                job=job.name,
                hint="put what differs into it: {checkpoint_iteration}, {attempt}",
            )
            for job in plan.jobs
            if job.name in state.jobs
        ),
        *(problem for problem in shared if problem.job in new),
        *validate_execution_plan(plan, known=state.jobs).errors,
    ]
    more = f" (and {len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
    return "; ".join(str(problem) for problem in found[:MOST_TOLD]) + more
