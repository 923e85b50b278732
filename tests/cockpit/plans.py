"""Plans that were opened and not submitted, as the screens get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Hole, JobSpec, Plan
from autoexp_tui.model.state import JobRecord
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, planned

FILTER = 'not (lr > 5e-4 and stage == "cooldown")'


def opened(made: Plan, *, now: float = T0) -> Snapshot:
    """What the cockpit shows of a plan that nobody has submitted."""
    records = tuple(
        JobRecord(spec=spec, start=(None,) * len(spec.start_conditions), since=0.0)
        for spec in made.jobs
    )
    base = planned(10, now=now)
    return replace(
        base, name=made.name, plan=made, jobs=records, live=(None,) * len(records)
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
    for rate in rates:
        for size in sizes:
            own = {"optim.lr": rate, "data.bsz": size}
            base = f"lr{rate:g}_bsz{size}"
            family = f"f{len(jobs)}"
            jobs.append(
                staged(
                    f"{base}_stable", len(jobs), "stable", parameters=own, family=family
                )
            )
            if rate > 5e-4:
                holes.append(
                    Hole(
                        parameters=own,
                        stage="cooldown",
                        filter=FILTER,
                        where="sweep.filter",
                    )
                )
                continue
            jobs.append(
                staged(
                    f"{base}_cooldown",
                    len(jobs),
                    "cooldown",
                    f"{base}_stable",
                    parameters=own,
                    family=family,
                )
            )
    return plan(jobs, holes=tuple(holes))
