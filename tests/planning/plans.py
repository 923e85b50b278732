"""Plans for tests, as planning would make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoexp_tui.conditions.kinds import (
    Approval,
    FileExists,
    JobStateIs,
    LogPattern,
    MetadataIs,
)
from autoexp_tui.model.specs import Edge, JobSpec, Plan, PlanFinding

RATES = ("1e-3", "3e-3", "5e-3")
HOUR = 3600.0


def job(name: str, index: int = 0, **fields: Any) -> JobSpec:
    """A job with directories of its own."""
    given: dict[str, Any] = {
        "name": name, "index": index, "command": ("true",),
        "output_dir": f"outputs/exp/{name}", "log_dir": f"outputs/logs/{name}",
        **fields,
    }  # fmt: skip
    return JobSpec(**given)


def plan(jobs: Sequence[JobSpec], **fields: Any) -> Plan:
    """A plan of these jobs; `depends_on` are waits."""
    edges = tuple(
        Edge(before=before, after=spec.name, mode="waits")
        for spec in jobs
        for before in spec.depends_on
    )
    given: dict[str, Any] = {
        "plan_id": "p1", "name": "exp", "config_ref": "exp",
        "state_dir": "outputs/.autoexp", "jobs": tuple(jobs), "edges": edges, **fields,
    }  # fmt: skip
    return Plan(**given)


def ten_jobs() -> Plan:
    """Three rates in three stages, and a report: the shipped experiment."""
    jobs: list[JobSpec] = []
    for family, rate in enumerate(RATES):
        jobs += [
            _stable(family, rate),
            _cooldown(family, rate),
            _evaluate(family, rate),
        ]
    jobs.append(_report())
    warning = PlanFinding(
        message="is not in the config and is added",
        where="backend.args.decay_iters",
        job="lr1e-3_cooldown",
        hint="write `++backend.args.decay_iters` to say so",
    )
    return plan(jobs, warnings=(warning,))


def _member(family: int, rate: str, stage: str, place: int, **fields: Any) -> JobSpec:
    return job(
        f"lr{rate}_{stage}", 3 * family + place, stage=stage, family=f"f{family}",
        parameters={"lr": float(rate), "stage": stage}, **fields,
    )  # fmt: skip


def _stable(family: int, rate: str) -> JobSpec:
    return _member(family, rate, "stable", 0)


def _cooldown(family: int, rate: str) -> JobSpec:
    stable = f"lr{rate}_stable"
    done = f"outputs/exp/{stable}/checkpoints/iter_00008000/done.txt"
    return _member(
        family, rate, "cooldown", 1, depends_on=(stable,),
        start_conditions=(FileExists(path=done, writer=stable, timeout_seconds=HOUR),
                          MetadataIs(job=stable, key="checkpoint_iteration", op=">=",
                                     value=8000, timeout_seconds=HOUR)),
        cancel_conditions=(JobStateIs(jobs=(stable,), state="FAILED"),
                           LogPattern(log_path=f"outputs/logs/{stable}/current.log",
                                      pattern="FATAL|Traceback")),
    )  # fmt: skip


def _evaluate(family: int, rate: str) -> JobSpec:
    before = (f"lr{rate}_cooldown", f"lr{rate}_stable")
    return _member(
        family, rate, "evaluate", 2, depends_on=before,
        start_conditions=tuple(JobStateIs(jobs=(name,), state="COMPLETED",
                                          timeout_seconds=HOUR) for name in before),
        cancel_conditions=(JobStateIs(jobs=before[:1], state="FAILED"),),
    )  # fmt: skip


def _report() -> JobSpec:
    evaluations = tuple(f"lr{rate}_evaluate" for rate in RATES)
    return job(
        "report", 9, stage="report", family="f3",
        parameters={"stage": "report", "project.name": "report"},
        depends_on=evaluations,
        start_conditions=(JobStateIs(jobs=evaluations, state="COMPLETED",
                                     timeout_seconds=2 * HOUR),
                          Approval(prompt="Write the report from these results?")),
    )  # fmt: skip
