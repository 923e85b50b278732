"""An engine over a made-up Slurm, killed at every write of its journal: equal ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from autoexp_tui.model.effect import TaskId
from autoexp_tui.testing.clock import ManualClock
from tests.simulation.pinned import (
    Ends,
    Pinned,
    check_ways,
    ends,
    make_plan,
    make_scripts,
)
from tests.support.memory_journal import DiskKind, Fault, Killed
from tests.support.sim_clusters import ClusterHouse, Danger
from tests.support.simulate import ALL_KINDS

SHARDS = 4
"""Tests that share the writes, so that they run side by side."""
Calm = tuple[Ends, Counter[TaskId], int]


@contextmanager
def over_slurm(kill: DiskKind | None = None, at: int = 0) -> Iterator[Pinned]:
    """A campaign; `kill`: how the engine dies at its write number `at`."""
    clock, rng = ManualClock(), random.Random(3)
    danger = Danger(rng, Counter(), Killed)
    danger.over = True
    cluster = ALL_KINDS["slurm"](rng, clock, danger)
    plan = make_plan(cluster.root)
    cluster.scripts.update(make_scripts(cluster.root))
    cluster.prepare(plan.jobs)
    make = partial(cluster.executor, clock)
    house = ClusterHouse(
        cluster=cluster, seed=0, clock=clock, executor=make(), files=cluster.facts
    )
    if kill is not None:
        house.session.faults[at] = Fault(kind=kill, kept=1)
    try:
        yield Pinned(house, plan, make, cluster.settle, clock, tick_seconds=2.0)
    finally:
        cluster.close()


def begun(campaign: Pinned) -> Counter[TaskId]:
    assert isinstance(campaign.house, ClusterHouse)
    return Counter(task for task, _, _ in campaign.house.cluster.begun(0))


@pytest.fixture(scope="module")
def undisturbed() -> Calm:
    with over_slurm() as campaign:
        found = ends(campaign.run())
        check_ways(found)
        return found, begun(campaign), campaign.house.session.appends


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("kill", ["killed_before", "killed_amid", "killed_after"])
def test_a_kill_at_every_write_over_slurm_leads_to_the_same_end(
    kill: DiskKind, shard: int, undisturbed: Calm
) -> None:
    expected, calm, appends = undisturbed
    for at in range(shard, appends, SHARDS):
        with over_slurm(kill, at) as campaign:
            assert ends(campaign.run()) == expected, f"write {at}"
            assert (begun(campaign), campaign.deaths) == (calm, 1), f"write {at}"
