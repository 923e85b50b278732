"""Which jobs go first when one family is tried before all others."""

from __future__ import annotations

from collections.abc import Collection

from autoexp_tui.model.specs import Plan


def find_first_family(plan: Plan, done: Collection[str] = ()) -> tuple[str, ...]:
    """The jobs of the first family, and all that they wait for, in plan order.

    A job without a family is one of its own. `done`: jobs that will not run; a family
    of nothing else would try nothing, and the first one that has more is taken.
    """
    if not plan.jobs:
        return ()
    first = next((job for job in plan.jobs if job.name not in done), plan.jobs[0])
    chosen = {
        job.name
        for job in plan.jobs
        if job is first or (first.family and job.family == first.family)
    }
    before = {job.name: job.depends_on for job in plan.jobs}
    ahead = list(chosen)
    while ahead:
        for name in before.get(ahead.pop(), ()):
            if name not in chosen and name in before:
                chosen.add(name)
                ahead.append(name)
    return tuple(job.name for job in plan.jobs if job.name in chosen)
