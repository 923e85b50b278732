"""Campaigns under faults, and engines killed at every place where one can be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

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
from tests.support.memory_journal import Fault
from tests.support.sim_bugs import BUGS
from tests.support.sim_checks import Violation
from tests.support.sim_slurm import KINDS
from tests.support.sim_tally import EVERYWHERE, Danger
from tests.support.simulation import Case, main, simulate

CAMPAIGNS = 200
SEEDS = 8
"""Tests that share the campaigns, so that they run side by side."""
WHOLE = 25
"""Every so many-th campaign is as large as its seed says, the others have FEW families:
what happens to ten jobs is nearly all that happens to a hundred."""
FEW = 3
ENOUGH = 60
"""Seeds within which a deliberate bug shows."""
SEARCHES = 6
RESEARCHES = 6
SHARDS = 4
"""Tests that share the kills at every step outside, so that they run side by side."""


@pytest.mark.parametrize("first", range(SEEDS))
def test_campaigns_under_faults_keep_every_invariant(first: int) -> None:
    for seed in range(first, CAMPAIGNS, SEEDS):
        whole = seed % WHOLE == 0
        simulate(Case(seed=seed, families=0 if whole else FEW))


def test_searches_under_faults_keep_every_invariant_and_decide_alike_at_any_speed() -> (
    None
):
    for seed in range(SEARCHES):
        simulate(Case(seed=seed, kind="tree"))


def test_researches_under_faults_keep_every_invariant() -> None:
    for seed in range(RESEARCHES):
        simulate(Case(seed=seed, kind="research"))


def test_few_campaigns_have_seen_the_clock_set_in_every_way() -> None:
    to_come = {name for name in EVERYWHERE if name.startswith("clock")}
    assert len(to_come) == 5
    for seed in range(ENOUGH):
        faults = simulate(Case(seed=seed, families=FEW)).tally.faults
        to_come -= {name for name, times in faults.items() if times}
        if not to_come:
            break
    assert not to_come


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_deliberate_bug_is_caught_within_few_seeds(bug: str) -> None:
    with pytest.raises(Violation, match=f"--bug {bug}"):
        simulate_all(bug)


def simulate_all(bug: str) -> None:
    for seed in range(ENOUGH):
        simulate(Case(seed=seed, families=FEW, bug=bug))


def test_the_command_says_at_which_seed_a_deliberate_bug_was_caught(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--families", "2", "--jobs", "1", "--bug", "drop_intent"]
    assert main([*small, "--seeds", "3"]) == 1
    said = capsys.readouterr().out
    assert "drop_intent was caught first at seed 0 (slurm)\n" in said
    main([*small, "--seeds", "0"])
    assert "drop_intent was not caught\n" in capsys.readouterr().out


# ------------------------------------------------------------- one campaign, pinned
@contextmanager
def pinned(
    fault: Fault | None = None, at: int = -1, *, after_step: int = -1
) -> Iterator[Pinned]:
    """The pinned campaign without faults but for one at a journal write, or a kill."""
    clock, rng = ManualClock(), random.Random(3)
    danger = Danger(rng, Counter())
    danger.over = True
    cluster = KINDS["slurm"](rng, clock, danger)
    plan = make_plan(cluster.root)
    cluster.scripts.update(make_scripts(cluster.root))
    cluster.prepare(plan.jobs)
    house = cluster.house(0, clock)
    if fault is not None:
        house.session.faults[at] = fault
    campaign = Pinned(house, cluster, plan, clock)
    campaign.kill_after_step = after_step
    try:
        yield campaign
    finally:
        cluster.close()


Calm = tuple[Ends, Counter[TaskId], int, int]


@pytest.fixture(scope="module")
def undisturbed() -> Calm:
    with pinned() as campaign:
        found = ends(campaign.run())
        check_ways(found)
        writes = campaign.house.session.appends
        return found, campaign.begun(), writes, campaign.steps


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
    expected, calm, writes, _ = undisturbed
    refused = fault.kind == "refused"
    # Is the first write refused, there is no session, and the command says so.
    for at in range(refused, writes):
        with pinned(fault, at) as campaign:
            assert ends(campaign.run()) == expected, f"write {at}"
            assert campaign.begun() == calm, f"write {at}"
            assert campaign.deaths == (0 if refused else 1), f"write {at}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_kill_at_every_step_outside_leads_to_the_same_end(
    shard: int, undisturbed: Calm
) -> None:
    expected, calm, _, steps = undisturbed
    for step in range(1 + shard, steps + 1, SHARDS):
        with pinned(after_step=step) as campaign:
            assert ends(campaign.run()) == expected, f"step {step}"
            assert (campaign.begun(), campaign.deaths) == (calm, 1), f"step {step}"
