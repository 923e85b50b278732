"""The controller is away during a run: nothing is lost.

With AUTOEXP_SLURM_FULL=1 it is away for a minute.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.campaign import Jobs, wait_until
from tests.e2e.terminal import Terminal
from tests.slurm.campaign import FULL, SlurmCampaign, Work, end_of
from tests.slurm.cluster import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.pty,
    pytest.mark.xdist_group("slurm_away"),
]

AWAY_SECONDS = 60.0 if FULL else 24.0
ENDS = ("COMPLETED", "FAILED", "CANCELLED", "LOST")


def released(campaign: SlurmCampaign) -> Path:
    """The file whose coming ends the job that lasts."""
    return campaign.root / "released"


def submit(campaign: SlurmCampaign) -> None:
    """Hands all jobs over, and waits until those that can have begun."""
    campaign.write(
        Work("ends", f"sleep {AWAY_SECONDS / 4}; exit 0"),
        Work("fails", f"sleep {AWAY_SECONDS / 4}; exit 3"),
        Work("lasts", f"until [ -e {released(campaign)} ]; do sleep 0.2; done"),
        Work("killed", "sleep 600"),
        Work("waits", options={"hold": True}),
        *(Work(f"filler{n}", "sleep 600") for n in range(6)),
    )
    run = campaign.start("--manifest", str(campaign.manifest), command="submit")
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, out + err
    campaign.wait_for_line("fails")


def cockpit_of(campaign: SlurmCampaign) -> Terminal:
    """A cockpit that owns the campaign's session."""
    where = ["--state-dir", str(campaign.state_dir), "--session", campaign.session()]
    argv = [sys.executable, "-m", "autoexp_tui.cli.tui", *where]
    return Terminal(argv, cwd=str(campaign.root), env=campaign.env)


def stay_away(campaign: SlurmCampaign, terminal: Terminal) -> None:
    """Ends the controller, and has two jobs killed meanwhile."""
    campaign.cluster.ctld_stop()
    began = time.monotonic()
    words = ("kill", campaign.session(), "killed", "waits", "--yes")
    kill = campaign.start(*words, command="sessions")
    while time.monotonic() < began + AWAY_SECONDS:
        terminal.read(1.0)
    kill.communicate(timeout=60)


@dataclass(frozen=True, slots=True)
class Seen:
    """The session while nobody answers, and after that."""

    meanwhile: Jobs
    screen: str
    after: Jobs


@pytest.fixture(scope="module")
def seen(cluster_of_all: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    campaign = SlurmCampaign(tmp_path_factory.mktemp("away"), cluster_of_all)
    submit(campaign)
    with closing(cockpit_of(campaign)) as terminal:
        terminal.wait_for("running")
        stay_away(campaign, terminal)
        meanwhile, screen = campaign.shown(), terminal.text()
        released(campaign).touch()
        cluster_of_all.ctld_start()

        def all_ended() -> bool:
            terminal.read()
            names = ("ends", "fails", "lasts", "killed", "waits")
            return all(campaign.state_of(name) in ENDS for name in names)

        wait_until(all_ended, "the end of those that end", 90.0)
    return Seen(meanwhile, screen, campaign.shown())


def test_nothing_that_may_be_alive_is_marked_dead_and_an_end_is_known_by_its_record(
    seen: Seen,
) -> None:
    jobs = seen.meanwhile
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


def test_the_header_says_that_nobody_answers(seen: Seen) -> None:
    assert "slurm" in seen.screen.splitlines()[0].lower(), seen.screen
