"""Plans for tests, as planning would make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoexp_tui.conditions import kinds
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Plan
from tests.model import builders

RATES = ("1e-3", "3e-3", "5e-3")
HOUR = 3600.0


def job(name: str, index: int = 0, **fields: Any) -> JobSpec:
    places = {"output_dir": f"outputs/exp/{name}", "log_dir": f"outputs/logs/{name}"}
    return builders.job(name, index, **{**places, **fields})


def plan(jobs: Sequence[JobSpec], **fields: Any) -> Plan:
    """A plan of these jobs; `depends_on` are waits."""
    given = {"name": "exp", "config_ref": "exp", "state_dir": "outputs/.autoexp"}
    return builders.plan(*jobs, **{**given, **fields})


def _completed(*names: str, hours: int = 1) -> kinds.JobStateIs:
    return kinds.JobStateIs(jobs=names, state="COMPLETED", timeout_seconds=hours * HOUR)


def ten_jobs() -> Plan:
    """Three rates in three stages, and a report: the shipped experiment."""
    jobs: list[JobSpec] = []
    for family, rate in enumerate(RATES):
        stable, cooldown, evaluate = (
            {"name": f"lr{rate}_{stage}", "stage": stage, "family": f"f{family}",
             "index": 3 * family + at,
             "parameters": {"lr": float(rate), "stage": stage}}
            for at, stage in enumerate(("stable", "cooldown", "evaluate"))
        )  # fmt: skip
        first, second = f"lr{rate}_stable", f"lr{rate}_cooldown"
        done = f"outputs/exp/{first}/checkpoints/iter_00008000/done.txt"
        saved = {"job": first, "key": "checkpoint_iteration", "op": ">=", "value": 8000}
        log = f"outputs/logs/{first}/current.log"
        cooldown |= {
            "depends_on": (first,),
            "start_conditions": (
                kinds.FileExists(path=done, writer=first, timeout_seconds=HOUR),
                kinds.MetadataIs(**saved, timeout_seconds=HOUR),  # type: ignore[arg-type]
            ),
            "cancel_conditions": (
                kinds.JobStateIs(jobs=(first,), state="FAILED"),
                kinds.LogPattern(log_path=log, pattern="FATAL|Traceback"),
            ),
        }
        evaluate |= {
            "depends_on": (second, first),
            "start_conditions": (_completed(second), _completed(first)),
            "cancel_conditions": (kinds.JobStateIs(jobs=(second,), state="FAILED"),),
        }
        jobs += [job(**given) for given in (stable, cooldown, evaluate)]  # type: ignore[arg-type]
    every = tuple(f"lr{rate}_evaluate" for rate in RATES)
    asks = kinds.Approval(prompt="Write the report from these results?")
    jobs.append(job(
        "report", 9, stage="report", family="f3", depends_on=every,
        parameters={"stage": "report", "project.name": "report"},
        start_conditions=(_completed(*every, hours=2), asks),
    ))  # fmt: skip
    warning = Problem(
        message="is not in the config and is added", where="backend.args.decay_iters",
        job="lr1e-3_cooldown", hint="write `++backend.args.decay_iters` to say so",
    )  # fmt: skip
    return plan(jobs, warnings=(warning,))
