"""Campaigns under faults, and engines killed at every place where one can be."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from autoexp_tui.engine.loop import Engine
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Submit
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.state import SessionState
from autoexp_tui.testing.clock import ManualClock
from tests.simulation.pinned import make_plan, make_scripts
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import by_job
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import Fault, Killed
from tests.support.sim_bugs import BUGS
from tests.support.sim_checks import Violation
from tests.support.sim_tally import EVERYWHERE
from tests.support.sim_world import Files, World
from tests.support.simulate import ALL_KINDS
from tests.support.simulation import Case, simulate

CAMPAIGNS = 200
SEEDS = 8
"""Tests that share the campaigns, so that they run side by side."""
WHOLE = 9
"""Every so many-th campaign is as large as its seed says, the others have FEW families:
what happens to ten jobs is nearly all that happens to a hundred."""
FEW = 3
ENOUGH = 60
"""Seeds within which a deliberate bug shows."""
SHARDS = 4
"""Tests that share the kills at every step outside, so that they run side by side."""
TICK_SECONDS = 1.0
"""How far the clock moves when nothing is left to do: the time between two polls."""


@pytest.mark.parametrize("first", range(SEEDS))
def test_campaigns_under_faults_keep_every_invariant(first: int) -> None:
    for seed in range(first, CAMPAIGNS, SEEDS):
        whole = seed % WHOLE == 0
        simulate(Case(seed=seed, families=0 if whole else FEW), ALL_KINDS)


def test_few_campaigns_have_seen_the_clock_set_in_every_way() -> None:
    to_come = {name for name in EVERYWHERE if name.startswith("clock")}
    assert len(to_come) == 5
    for seed in range(ENOUGH):
        faults = simulate(Case(seed=seed, families=FEW), ALL_KINDS).faults
        to_come -= {name for name, times in faults.items() if times}
        if not to_come:
            break
    assert not to_come


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_deliberate_bug_is_caught_within_few_seeds(bug: str) -> None:
    with pytest.raises(Violation, match=f"--bug {bug}"):
        _simulate_all(bug, range(ENOUGH))


def _simulate_all(bug: str, seeds: range) -> None:
    for seed in seeds:
        simulate(Case(seed=seed, bug=bug), ALL_KINDS)


@dataclass
class Quiet:
    """The pinned campaign without faults, but for the kills a test asks for."""

    disk_fault: Fault | None = None
    at_append: int = -1
    kill_after_step: int = -1
    pool_steps: int = 0
    kills: int = 0
    world: World = field(init=False)

    def __post_init__(self) -> None:
        clock = ManualClock()
        self.plan = make_plan()
        files = Files(clock)
        executor = FakeExecutor(clock, by_job(make_scripts()), write=files.append)
        self.world = World(clock=clock, executor=executor, files=files)
        if self.disk_fault is not None:
            self.world.session.faults[self.at_append] = self.disk_fault
        order = Order(command_id="go", command=Submit())
        self.world.inbox.orders["go"] = order

    def run(self) -> SessionState:
        sha = ""
        while True:
            lease = self.world.session.acquire(holder_is_dead=True)
            self.pool = InlinePool()
            parts = self.world.parts(lease, self.pool)
            sha = sha or parts.journal.add_plan(self.plan)
            engine = Engine(self.world.session.load(), parts)
            try:
                engine.begin(self._first(engine, parts.journal, sha))
                return self._to_the_end(engine)
            except Killed:
                self.kills += 1

    def _first(self, engine: Engine, journal: object, sha: str) -> list[events.Event]:
        seal = journal.seal  # type: ignore[attr-defined]
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

    def _to_the_end(self, engine: Engine) -> SessionState:
        for _ in range(4000):
            while self.pool.step():
                self.pool_steps += 1
                if self.pool_steps == self.kill_after_step:
                    raise Killed("between two steps")
            engine.commit()
            jobs = engine.state.jobs.values()
            if jobs and all(job.ended for job in jobs) and not engine.state.pending:
                return engine.state
            if not self.pool.pending:
                self.world.clock.advance(TICK_SECONDS)
                self.world.executor.settle()
        raise AssertionError("the campaign did not end")

    def begun(self) -> list[TaskId]:
        return sorted(b.task for b in self.world.executor.begun)


def ends(state: SessionState) -> dict[str, tuple[str, str, int]]:
    """State, cause and attempts of every job."""
    return {
        name: (job.state.value, str(job.cause), len(job.attempts))
        for name, job in state.jobs.items()
    }


@pytest.fixture(scope="module")
def undisturbed() -> tuple[dict[str, tuple[str, str, int]], list[TaskId], int, int]:
    quiet = Quiet()
    state = quiet.run()
    return ends(state), quiet.begun(), quiet.world.session.appends, quiet.pool_steps


def test_the_campaign_has_crashes_restarts_and_dependants_that_end(
    undisturbed: tuple[dict[str, tuple[str, str, int]], list[TaskId], int, int],
) -> None:
    states = {state for state, _, _ in undisturbed[0].values()}
    assert states == {"COMPLETED", "CANCELLED", "FAILED", "SKIPPED"}
    assert max(attempts for _, _, attempts in undisturbed[0].values()) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind="killed_before"),
        Fault(kind="killed_amid", kept=1),
        Fault(kind="killed_amid", kept=2),
        Fault(kind="killed_after"),
        Fault(kind="refused"),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.kept}",
)
def test_a_fault_at_every_journal_write_leads_to_the_same_end(
    fault: Fault,
    undisturbed: tuple[dict[str, tuple[str, str, int]], list[TaskId], int, int],
) -> None:
    expected, begun, appends, _ = undisturbed
    for index in range(appends):
        if index == 0 and fault.kind == "refused":
            continue  # then there is no session, and the command says so
        quiet = Quiet(disk_fault=fault, at_append=index)
        assert ends(quiet.run()) == expected, f"append {index}"
        assert quiet.begun() == begun, f"append {index}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_every_step_outside_leads_to_the_same_end(
    shard: int,
    undisturbed: tuple[dict[str, tuple[str, str, int]], list[TaskId], int, int],
) -> None:
    expected, begun, _, steps = undisturbed
    for step in steps_of(shard, steps):
        quiet = Quiet(kill_after_step=step)
        assert ends(quiet.run()) == expected, f"step {step}"
        assert quiet.begun() == begun, f"step {step}"
        assert quiet.kills == 1, f"step {step}"


def test_the_shards_leave_no_step_out(
    undisturbed: tuple[dict[str, tuple[str, str, int]], list[TaskId], int, int],
) -> None:
    steps = undisturbed[3]
    tried = sorted(step for shard in range(SHARDS) for step in steps_of(shard, steps))
    assert tried == list(range(1, steps + 1))


def steps_of(shard: int, steps: int) -> range:
    """The steps after which a shard kills: all shards together, every one."""
    return range(1 + shard, steps + 1, SHARDS)
