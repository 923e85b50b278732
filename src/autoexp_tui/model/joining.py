"""A plan that joins a session that runs already: what the two are together.

Names tell jobs apart, so they are never changed here; whoever lets a plan join sees to
it that they are free. Places in the order and sets of rules are the session's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Edge, JobSpec, Plan


def joined(plan: Plan, further: Plan, sha: str) -> tuple[Plan, tuple[JobSpec, ...]]:
    """`plan` with the jobs of `further` that it has not, and those jobs as they join.

    `sha`: of `further`; names its rules where they differ from those of `plan`.
    """
    known = {job.name for job in plan.jobs}
    new = [job for job in further.jobs if job.name not in known]
    jobs = tuple(_placed(_ruled(new, plan, further, sha), plan.jobs))
    merged = replace(
        plan,
        jobs=(*plan.jobs, *jobs),
        edges=_edges(plan.edges, further.edges),
        rule_sets=_rule_sets(plan, further, sha),
    )
    return merged, jobs


def joined_all(plans: Iterable[tuple[str, Plan]]) -> Plan | None:
    """All plans of a session as one; of each its sha beside it, the first one first."""
    whole: Plan | None = None
    for sha, plan in plans:
        whole = plan if whole is None else joined(whole, plan, sha)[0]
    return whole


def _placed(new: Sequence[JobSpec], old: Sequence[JobSpec]) -> Sequence[JobSpec]:
    """The new jobs behind the old ones, in their own order."""
    taken = {job.index for job in old}
    if taken.isdisjoint(job.index for job in new):
        return new
    shift = max(taken) + 1 - min(job.index for job in new)
    return [replace(job, index=job.index + shift) for job in new]


def _ruled(
    new: Sequence[JobSpec], plan: Plan, further: Plan, sha: str
) -> Sequence[JobSpec]:
    """The new jobs under the rules of their own plan."""
    if further.monitoring == plan.monitoring:
        return new
    return [job if job.rules else replace(job, rules=_name(sha)) for job in new]


def _rule_sets(plan: Plan, further: Plan, sha: str) -> Mapping[str, Monitoring]:
    sets = {**plan.rule_sets, **further.rule_sets}
    if further.monitoring != plan.monitoring:
        sets[_name(sha)] = further.monitoring
    return sets


def _name(sha: str) -> str:
    return f"plan-{sha}"


def _edges(old: Sequence[Edge], new: Sequence[Edge]) -> tuple[Edge, ...]:
    return tuple(dict.fromkeys((*old, *new)))
