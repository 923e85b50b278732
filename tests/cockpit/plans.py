"""Plans that were opened and not submitted, as the screens get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Hole, JobSpec, Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.planning.job_details import Entry, JobDetails
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, planned

FILTER = 'not (lr > 5e-4 and stage == "cooldown")'


def opened(made: Plan, *, now: float = T0) -> Snapshot:
    """What the cockpit shows of a plan that nobody has submitted."""
    records = tuple(
        JobRecord(spec=spec, start=(None,) * len(spec.start_conditions), since=0.0)
        for spec in made.jobs
    )
    lives = (None,) * len(records)
    return replace(
        planned(10, now=now), name=made.name, plan=made, jobs=records, live=lives
    )


def staged(name: str, index: int, stage: str, *after: str, **fields: Any) -> JobSpec:
    """A job of a stage that waits for others."""
    return job(name, index, stage=stage, depends_on=after, **fields)


def holey(
    rates: Sequence[float] = (1e-4, 3e-4, 1e-3), sizes: Sequence[int] = (64, 128)
) -> Plan:
    """Rates x sizes x two stages, the cooldowns of high rates filtered away."""
    jobs: list[JobSpec] = []
    holes: list[Hole] = []
    for rate, size in ((rate, size) for rate in rates for size in sizes):
        own = {"optim.lr": rate, "data.bsz": size}
        name, family = f"lr{rate:g}_bsz{size}", f"f{len(jobs)}"
        stable, cooldown = f"{name}_stable", f"{name}_cooldown"
        told: Any = {"parameters": own, "family": family}
        jobs.append(staged(stable, len(jobs), "stable", **told))
        if rate > 5e-4:
            where = {"filter": FILTER, "where": "sweep.filter"}
            holes.append(Hole(parameters=own, stage="cooldown", **where))
        else:
            jobs.append(staged(cooldown, len(jobs), "cooldown", stable, **told))
    return plan(jobs, holes=tuple(holes))


def branching() -> Plan:
    """A base, two branches, a merge of both, and one that reads the base as well."""
    return plan(
        [
            staged("report", 0, "report", "base", "average"),
            staged("base", 1, "stable"),
            staged("short", 2, "cool_short", "base"),
            staged("long", 3, "cool_long", "base"),
            staged("average", 4, "average", "short", "long"),
        ]
    )


def details(_: Plan, spec: JobSpec) -> JobDetails:
    """A config of every origin; the seed differs from job to job."""
    entries = (
        Entry("optim.lr", "1e-3", "swept"),
        Entry("optim.name", "adamw", "override"),
        Entry("train.iters", "60000", "computed", "${oc.eval:'_0*1000',${n}}"),
        Entry("seed", str(spec.index), "file"),
        Entry("stage", spec.stage, "ours"),
    )
    script = ("cd /work", "python train.py \\", f"  --seed {spec.index}")
    return JobDetails(entries=entries, script=script)
