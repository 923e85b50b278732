"""A plan on its way into a session: what it takes over from the job it is made for.

One family joins the family of that job, several get numbers of their own; jobs that say
no stage may be given one.
"""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.model.specs import Plan


def join_plan(plan: Plan, *, family: str, families: int, stage: str = "") -> Plan:
    """`plan`, its families told apart from those of the session.

    Args:
        plan: what is to join.
        family: of the job on whose account it joins.
        families: how many the session has.
        stage: of jobs that say none.
    """
    own = list(dict.fromkeys(job.family for job in plan.jobs))
    names = {own[0]: family} if len(own) == 1 else _numbered(own, families)
    jobs = tuple(
        replace(job, family=names[job.family], stage=job.stage or stage)
        for job in plan.jobs
    )
    return replace(plan, jobs=jobs)


def _numbered(own: list[str], first: int) -> dict[str, str]:
    return {family: f"f{number}" for number, family in enumerate(own, first)}
