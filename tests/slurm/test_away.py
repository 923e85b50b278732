"""The controller is away during a run: nothing is lost, and the keys go on.

With AUTOEXP_SLURM_FULL=1 it is away for a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.slurm.away import Away, cockpit_of, released, submit, watch
from tests.slurm.campaign import FULL, SlurmCampaign, until
from tests.slurm.cluster import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.pty,
    pytest.mark.xdist_group("slurm_away"),
]

AWAY_SECONDS = 60.0 if FULL else 24.0
PATIENT_SECONDS = 1.0
"""What a key or a commit may take on a machine that is busy otherwise."""


class Seen:
    """The session at three times."""

    def __init__(self, campaign: SlurmCampaign) -> None:
        submit(campaign, AWAY_SECONDS)
        with closing(cockpit_of(campaign)) as terminal:
            terminal.wait_for("running")
            self.away: Away = watch(campaign, terminal, AWAY_SECONDS)
            self.screen = terminal.text()
            released(campaign).touch()
            campaign.cluster.ctld_start()
            ended = ("ends", "fails", "lasts", "killed", "waits")

            def all_ended() -> bool:
                terminal.read()
                jobs = campaign.shown()
                return all(jobs[name]["state"] in _ENDS for name in ended)

            until(all_ended, "the end of those that end", 90.0)
        self.after = campaign.shown()


_ENDS = ("COMPLETED", "FAILED", "CANCELLED", "LOST")


@pytest.fixture(scope="module")
def seen(
    accounted: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    yield Seen(SlurmCampaign(tmp_path_factory.mktemp("away"), accounted))
    accounted.clear()


def test_nothing_that_may_be_alive_is_marked_dead(seen: Seen) -> None:
    states = {name: job["state"] for name, job in seen.away.jobs.items()}
    alive = {name for name in states if name.startswith(("lasts", "filler"))}
    assert {states[name] for name in alive} == {"RUNNING"}
    assert states["waits"] == "QUEUED"


@pytest.mark.parametrize(
    ("name", "state", "cause"),
    [("ends", "COMPLETED", None), ("fails", "FAILED", "exit_code")],
)
def test_what_ends_meanwhile_is_known_by_its_record(
    seen: Seen, name: str, state: str, cause: str | None
) -> None:
    job = seen.away.jobs[name]
    assert (job["state"], job["cause"]) == (state, cause)


@pytest.mark.parametrize("name", ["killed", "waits"])
def test_a_kill_given_meanwhile_is_carried_out(seen: Seen, name: str) -> None:
    job = seen.after[name]
    assert (job["state"], job["cause"]) == ("CANCELLED", "user")


def test_what_lasts_longer_completes(seen: Seen) -> None:
    assert seen.after["lasts"]["state"] == "COMPLETED"
    assert {job["attempts"] for job in seen.after.values()} == {1}


def test_the_header_says_that_nobody_answers(seen: Seen) -> None:
    print(seen.screen)
    assert "slurm" in seen.screen.splitlines()[0].lower(), seen.screen


def test_neither_keys_nor_commits_wait_for_the_controller(seen: Seen) -> None:
    print(f"\naway for {AWAY_SECONDS:g} s: {seen.away.figures()}")
    assert max(seen.away.commits) < PATIENT_SECONDS
    assert max(seen.away.keys) < PATIENT_SECONDS
