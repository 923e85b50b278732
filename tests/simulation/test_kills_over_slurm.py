"""An engine over a made-up Slurm, killed at every write of its journal: equal ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Literal

import pytest

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.engine.loop import Engine
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Submit
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.testing.clock import ManualClock
from tests.simulation.pinned import make_plan, make_scripts
from tests.support.fake_script import RunScript
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import Fault, Killed, MemoryJournal
from tests.support.sim_clusters import ClusterHouse, Danger, SimCluster
from tests.support.simulate import ALL_KINDS

Ends = dict[str, tuple[str, str, int]]
Kill = Literal["killed_before", "killed_amid", "killed_after"]
TICK_SECONDS: Final = 2.0
"""How far the clock moves when nothing is left to do."""
SHARDS: Final = 4
"""Tests that share the writes, so that they run side by side."""


class OverSlurm:
    """The pinned campaign behind Slurm's commands, quiet but for one death."""

    def __init__(self, cluster: SimCluster, clock: ManualClock) -> None:
        self.cluster = cluster
        self.plan = _moved(make_plan(), cluster.root)
        scripts = {
            name: [[_moved_run(run, cluster.root) for run in runs] for runs in attempts]
            for name, attempts in make_scripts().items()
        }
        cluster.scripts.update(scripts)
        cluster.prepare(self.plan.jobs)
        self.clock = clock
        self.deaths = 0
        self.house = ClusterHouse(
            cluster=cluster,
            seed=0,
            clock=clock,
            executor=cluster.executor(clock),
            files=cluster.facts,
        )
        order = Order(command_id="go", command=Submit())
        self.house.inbox.orders["go"] = order

    def run(self) -> SessionState:
        """To the end; an engine that dies is followed by the next one."""
        while True:
            try:
                return self._live()
            except Killed:
                self.deaths += 1

    def _live(self) -> SessionState:
        lease = self.house.session.acquire(holder_is_dead=True)
        self.house.executor = self.cluster.executor(self.clock)
        pool = InlinePool()
        parts = self.house.parts(lease, pool)
        engine = Engine(self.house.session.load(), parts)
        assert isinstance(parts.journal, MemoryJournal)
        engine.begin(self._first(engine, parts.journal))
        for _ in range(4000):
            while pool.step():
                pass
            engine.commit()
            jobs = engine.state.jobs.values()
            if jobs and all(job.ended for job in jobs) and not engine.state.pending:
                return engine.state
            if not pool.pending:
                self.clock.advance(TICK_SECONDS)
                self.cluster.settle()
        raise AssertionError("the campaign did not end")

    def _first(self, engine: Engine, journal: MemoryJournal) -> list[events.Event]:
        seal, sha = journal.seal, journal.add_plan(self.plan)
        started = events.EngineStarted(
            host="h", pid=1, sealed_part=seal.part, sealed_bytes=seal.bytes
        )
        if engine.state.session:
            return [started]
        opened = events.SessionStarted(
            session="s",
            name="s",
            engine_version="0",
            wrapper_version="0",
            plan_sha=sha,
        )
        return [opened, started, events.PlanAdded(sha=sha)]

    def begun(self) -> Counter[TaskId]:
        return Counter(task for task, _, _ in self.cluster.begun(0))


def _moved(plan: Plan, root: str) -> Plan:
    return replace(plan, jobs=tuple(_moved_job(spec, root) for spec in plan.jobs))


def _moved_job(spec: JobSpec, root: str) -> JobSpec:
    start = tuple(
        replace(one, path=root + one.path) if isinstance(one, FileExists) else one
        for one in spec.start_conditions
    )
    return replace(
        spec,
        output_dir=root + spec.output_dir,
        log_dir=root + spec.log_dir,
        start_conditions=start,
    )


def _moved_run(run: RunScript, root: str) -> RunScript:
    writes = (replace(w, path=root + w.path) if w.path else w for w in run.writes)
    return replace(run, writes=tuple(writes))


@contextmanager
def over_slurm(kill: Kill | None = None, at: int = 0) -> Iterator[OverSlurm]:
    """A campaign; `kill`: how the engine dies at its write number `at`."""
    rng, clock = random.Random(3), ManualClock()
    danger = Danger(rng, Counter(), Killed)
    danger.over = True
    cluster = ALL_KINDS["slurm"](rng, clock, danger)
    try:
        campaign = OverSlurm(cluster, clock)
        if kill is not None:
            campaign.house.session.faults[at] = Fault(kind=kill, kept=1)
        yield campaign
    finally:
        cluster.close()


def ends(state: SessionState) -> Ends:
    """State, cause and attempts of every job."""
    return {
        name: (job.state.value, str(job.cause), len(job.attempts))
        for name, job in state.jobs.items()
    }


@pytest.fixture(scope="module")
def undisturbed() -> tuple[Ends, Counter[TaskId], int]:
    with over_slurm() as campaign:
        state = campaign.run()
        return ends(state), campaign.begun(), campaign.house.session.appends


def test_the_campaign_over_slurm_ends_in_every_way(
    undisturbed: tuple[Ends, Counter[TaskId], int],
) -> None:
    states = {state for state, _, _ in undisturbed[0].values()}
    assert states == {"COMPLETED", "CANCELLED", "FAILED", "SKIPPED"}


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("kill", ["killed_before", "killed_amid", "killed_after"])
def test_a_kill_at_every_write_over_slurm_leads_to_the_same_end(
    kill: Kill, shard: int, undisturbed: tuple[Ends, Counter[TaskId], int]
) -> None:
    expected, begun, appends = undisturbed
    for at in range(shard, appends, SHARDS):
        with over_slurm(kill, at) as campaign:
            assert ends(campaign.run()) == expected, f"write {at}"
            assert campaign.begun() == begun, f"write {at}"
            assert campaign.deaths == 1, f"write {at}"
