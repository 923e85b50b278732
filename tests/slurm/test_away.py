"""The controller is away during a run: nothing is lost, and the keys go on.

With AUTOEXP_SLURM_FULL=1 it is away for a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.e2e.campaign import Jobs, wait_until
from tests.slurm.away import Away, cockpit_of, released, submit, watch
from tests.slurm.campaign import FULL, SlurmCampaign, end_of
from tests.slurm.cluster import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.pty,
    pytest.mark.xdist_group("slurm_away"),
]

AWAY_SECONDS = 60.0 if FULL else 24.0
PATIENT_SECONDS = 1.0
"""What a key or a commit may take on a machine that is busy otherwise."""
ENDS = ("COMPLETED", "FAILED", "CANCELLED", "LOST")


@dataclass(frozen=True, slots=True)
class Seen:
    """The session while nobody answers, and after that."""

    away: Away
    screen: str
    after: Jobs


@pytest.fixture(scope="module")
def seen(
    accounted: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    campaign = SlurmCampaign(tmp_path_factory.mktemp("away"), accounted)
    submit(campaign, AWAY_SECONDS)
    with closing(cockpit_of(campaign)) as terminal:
        terminal.wait_for("running")
        away = watch(campaign, terminal, AWAY_SECONDS)
        screen = terminal.text()
        released(campaign).touch()
        accounted.ctld_start()

        def all_ended() -> bool:
            terminal.read()
            names = ("ends", "fails", "lasts", "killed", "waits")
            return all(campaign.state_of(name) in ENDS for name in names)

        wait_until(all_ended, "the end of those that end", 90.0)
    yield Seen(away, screen, campaign.shown())
    accounted.clear()


def test_nothing_that_may_be_alive_is_marked_dead_and_an_end_is_known_by_its_record(
    seen: Seen,
) -> None:
    jobs = seen.away.jobs
    alive = [name for name in jobs if name.startswith(("lasts", "filler"))]
    assert {jobs[name]["state"] for name in alive} == {"RUNNING"}
    assert jobs["waits"]["state"] == "QUEUED"
    assert end_of(jobs["ends"]) == ("COMPLETED", None)
    assert end_of(jobs["fails"]) == ("FAILED", "exit_code")


def test_kills_given_meanwhile_are_carried_out_and_what_lasts_longer_completes(
    seen: Seen,
) -> None:
    for name in ("killed", "waits"):
        assert end_of(seen.after[name]) == ("CANCELLED", "user")
    assert seen.after["lasts"]["state"] == "COMPLETED"
    assert {job["attempts"] for job in seen.after.values()} == {1}


def test_the_header_says_that_nobody_answers_and_neither_keys_nor_commits_wait(
    seen: Seen,
) -> None:
    assert "slurm" in seen.screen.splitlines()[0].lower(), seen.screen
    print(f"\naway for {AWAY_SECONDS:g} s: {seen.away.figures()}")
    assert max(seen.away.commits) < PATIENT_SECONDS
    assert max(seen.away.keys) < PATIENT_SECONDS
