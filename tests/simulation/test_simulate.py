"""Campaigns under faults, and engines killed at every place where one can be."""

from __future__ import annotations

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
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import by_job
from tests.support.memory_journal import Fault
from tests.support.sim_bugs import BUGS
from tests.support.sim_checks import Violation
from tests.support.sim_tally import EVERYWHERE
from tests.support.sim_world import Files, World
from tests.support.simulate import ALL_KINDS
from tests.support.simulation import Case, main, simulate

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


def test_the_command_says_at_which_seed_a_deliberate_bug_was_caught(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--families", "2", "--jobs", "1", "--bug", "drop_intent"]
    assert main([*small, "--seeds", "3"]) == 1
    said = capsys.readouterr().out
    assert "drop_intent was caught first at seed 0 (memory)\n" in said
    main([*small, "--seeds", "0"])
    assert "drop_intent was not caught\n" in capsys.readouterr().out


Calm = tuple[Ends, list[TaskId], int, int]


def quiet(
    fault: Fault | None = None, at: int = -1, *, after_step: int = -1
) -> tuple[Pinned, World]:
    """The pinned campaign without faults but for one at a journal write, or a kill."""
    clock = ManualClock()
    files = Files(clock)
    executor = FakeExecutor(clock, by_job(make_scripts()), write=files.append)
    world = World(clock=clock, executor=executor, files=files)
    if fault is not None:
        world.session.faults[at] = fault
    campaign = Pinned(
        world, make_plan(), lambda: executor, executor.settle, clock, TICK_SECONDS
    )
    campaign.kill_after_step = after_step
    return campaign, world


def begun(world: World) -> list[TaskId]:
    return sorted(begun.task for begun in world.executor.begun)


@pytest.fixture(scope="module")
def undisturbed() -> Calm:
    campaign, world = quiet()
    found = ends(campaign.run())
    check_ways(found)
    return found, begun(world), world.session.appends, campaign.steps


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
    fault: Fault, undisturbed: Calm
) -> None:
    expected, calm, appends, _ = undisturbed
    for index in range(appends):
        if index == 0 and fault.kind == "refused":
            continue  # then there is no session, and the command says so
        campaign, world = quiet(fault, index)
        assert ends(campaign.run()) == expected, f"append {index}"
        assert begun(world) == calm, f"append {index}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_every_step_outside_leads_to_the_same_end(
    shard: int, undisturbed: Calm
) -> None:
    expected, calm, _, steps = undisturbed
    for step in range(1 + shard, steps + 1, SHARDS):
        campaign, world = quiet(after_step=step)
        assert ends(campaign.run()) == expected, f"step {step}"
        assert (begun(world), campaign.deaths) == (calm, 1), f"step {step}"
