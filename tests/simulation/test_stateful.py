"""Hypothesis drives a simulated campaign: it chooses what happens, and in which order.

The world and the invariants are the fault simulator's; here nothing comes by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from tests.support.fake_slurm_faults import SlurmFault
from tests.support.sim_bugs import BUGS
from tests.support.sim_campaign import MOST_STEPS, Campaign
from tests.support.sim_checks import Violation
from tests.support.sim_slurm import KINDS
from tests.support.sim_tally import CALLS

FAULTS: Final = [(name, fault) for name, found in CALLS.items() for fault in found]
PROFILE: Final = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
"""The same examples on every machine: what fails here fails there."""
UNSHRUNK: Final = settings(PROFILE, max_examples=500, phases=[Phase.generate])
"""To see that a bug is found; the smallest way to it is of no interest."""


class House(RuleBasedStateMachine):
    """A campaign that is led; every rule looks at the invariants."""

    bug = ""

    def __init__(self) -> None:
        super().__init__()
        self.campaign: Campaign | None = None
        self.broken = False

    @initialize(seed=st.integers(0, 999))
    def begin(self, seed: int) -> None:
        """A small campaign, and an engine that has just begun."""
        bug = BUGS[self.bug]() if self.bug else None
        self.campaign = Campaign(seed, KINDS["slurm"], families=1, led=True, bug=bug)

    def _do(self, act: Callable[[Campaign], object], times: int = 1) -> None:
        assert self.campaign is not None
        try:
            for _ in range(times):
                self.campaign.do(act)
        except Violation:
            self.broken = True
            raise

    @rule(times=st.integers(1, 60))
    def work(self, times: int) -> None:
        self._do(Campaign.work, times)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 30.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self._do(lambda campaign: campaign.hop(seconds))

    @rule(times=st.integers(1, 3))
    def a_person_orders(self, times: int) -> None:
        self._do(Campaign.meddle, times)

    @rule(found=st.sampled_from(FAULTS), times=st.integers(1, 4))
    def a_call_goes_wrong(self, found: tuple[str, SlurmFault], times: int) -> None:
        assert self.campaign is not None
        for _ in range(times):
            self.campaign.danger.order(*found)

    @rule()
    def a_person_stops_the_engine(self) -> None:
        self._do(Campaign.stop)

    @rule()
    def the_disk_fails(self) -> None:
        self._do(Campaign.break_disk)

    @rule()
    def errands_fail(self) -> None:
        self._do(Campaign.break_errands)

    @rule()
    def the_clock_is_set(self) -> None:
        self._do(Campaign.jump)

    @rule()
    def something_befalls_the_cluster(self) -> None:
        self._do(Campaign.strike)

    @rule()
    def the_engine_dies(self) -> None:
        self._do(Campaign.kill)

    @rule()
    def another_takes_over(self) -> None:
        self._do(Campaign.pause_engine)

    @rule()
    def the_deposed_one_wakes(self) -> None:
        self._do(Campaign.wake_paused)

    @rule()
    def a_second_one_is_refused(self) -> None:
        self._do(Campaign.second_starter)

    def teardown(self) -> None:
        """Whatever has happened, a mended campaign comes to its end."""
        campaign = self.campaign
        if campaign is None:
            return
        try:
            if not self.broken:
                campaign.calm_down()
                while not campaign.is_over():
                    campaign.do(Campaign.work)
                    assert campaign.tally.steps < MOST_STEPS
                campaign.check_end()
        finally:
            campaign.cluster.close()


def test_whatever_happens_every_invariant_holds() -> None:
    run_state_machine_as_test(House, settings=PROFILE)


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_deliberate_bug_is_found(name: str) -> None:
    spoilt = type(f"House_{name}", (House,), {"bug": name})
    with pytest.raises(Violation):
        run_state_machine_as_test(spoilt, settings=UNSHRUNK)
