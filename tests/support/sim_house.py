"""What outlives the engines of a campaign on a made-up cluster."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoexp_tui.engine.ports import LogSource
from autoexp_tui.model.specs import Plan
from tests.support.sim_clusters import SimCluster
from tests.support.sim_scripts import make_scripts
from tests.support.sim_world import House, Watcher


@dataclass(slots=True)
class ClusterHouse(House):
    """A `House` whose jobs, logs and records are the cluster's."""

    cluster: SimCluster = field(kw_only=True)
    seed: int = field(kw_only=True)

    def log_source(self) -> LogSource:
        return self.cluster.logs

    def attempt_dir(self, job: str, number: int) -> Path:
        return self.cluster.attempt_dir(job, number)

    def watch(self, watcher: Watcher) -> None:
        self.cluster.watch(watcher)

    def joins(self, plan: Plan) -> None:
        scripts = self.cluster.scripts
        new = tuple(spec for spec in plan.jobs if spec.name not in scripts)
        rng = random.Random(f"{self.seed} {[spec.name for spec in new]}")
        pace = self.cluster.shape(0, "", 0).pace
        scripts.update(make_scripts(replace(plan, jobs=new), rng, pace=pace))
        self.cluster.prepare(new)
