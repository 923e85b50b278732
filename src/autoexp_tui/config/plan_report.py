"""The documented answer of `autoexp-plan --json`: a plan, its cost, what of it is done.

Looks into the jobs' output directories for the words of earlier sessions; writes
nothing. The shape of the plan itself is `planning.as_json`.
"""

from __future__ import annotations

from collections.abc import Iterable

from autoexp_tui.model.done import DoneReport
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.as_json import finding_to_json, plan_to_json
from autoexp_tui.planning.estimate import (
    Estimate,
    estimate,
    estimate_to_json,
    read_bounds,
)
from autoexp_tui.storage.done_file import check_done


def report_of(plan: Plan, errors: Iterable[Problem] = ()) -> dict[str, object]:
    """The whole answer, safe to dump; `errors`: what is wrong with the plan."""
    done = check_done(plan)
    return {
        **plan_to_json(plan),
        "errors": [finding_to_json(error) for error in errors],
        "estimate": estimate_to_json(estimate_of(plan, done), read_bounds(plan)),
        "done_before": list(done.done),
        "changed_since": list(done.changed),
        "builds_on_changed": list(done.upstream),
    }


def estimate_of(plan: Plan, done: DoneReport) -> Estimate:
    """What the jobs that are left may cost."""
    return estimate(job for job in plan.jobs if job.name not in done.done)
