"""What others do to our jobs, and what a real controller refuses, is told as it is.

Each test is a session of its own on a cluster that forgets ended jobs soon.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.specs import Scalar
from tests.e2e.campaign import wait_until
from tests.slurm.campaign import SLEEPS, SlurmCampaign, Work, end_of
from tests.slurm.cluster import HANGS, Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_elsewhere")]
WELL = {"state": "COMPLETED", "attempts": 1}


@pytest.fixture
def campaign(forgetful: Cluster, tmp_path: Path) -> Iterator[SlurmCampaign]:
    yield SlurmCampaign(tmp_path, forgetful, {"array_size": 10})
    set_partition(forgetful, "UP")


def set_partition(cluster: Cluster, state: str) -> None:
    cluster.run("scontrol", "update", "partitionname=main", f"state={state}")


# --------------------------------------------------------------------- whose, and who
def test_waiting_tasks_that_others_cancel_stay_cancelled(
    campaign: SlurmCampaign,
) -> None:
    cluster = campaign.cluster
    in_the_way = cluster.submit("sleep 600", "--exclusive", "--nodes=4")
    cluster.wait_for_state(in_the_way, "RUNNING")
    campaign.write(*(Work(f"job{n}", stage="train") for n in range(4)))
    tasks = ("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i")
    with campaign.running() as run:
        wait_until(lambda: cluster.run(*tasks).stdout.count("_") == 4, "an array")
        array = cluster.run(*tasks).stdout.partition("_")[0]
        cluster.run("scancel", f"{array}_[1-2]")
        campaign.wait_for("job1", "CANCELLED")
        cluster.run("scancel", in_the_way)
        states = [job["state"] for _, job in sorted(run.finish().items())]
    assert states == ["COMPLETED", "CANCELLED", "CANCELLED", "COMPLETED"]
    assert campaign.begun() == {"job0": 1, "job3": 1}


# --------------------------------------------------------------- suspended, held, over
def test_a_suspended_job_is_told_as_that_and_completes(
    campaign: SlurmCampaign,
) -> None:
    campaign.write(Work("stops", "sleep 12; exit 0"))
    with campaign.running() as run:
        campaign.wait_for_line("stops")
        id_ = campaign.id_in("stops", "RUNNING")
        campaign.cluster.run("scontrol", "suspend", id_)
        campaign.wait_for("stops", "SUSPENDED", seconds=30.0)
        time.sleep(5.0)
        assert campaign.state_of("stops") == "SUSPENDED"
        campaign.cluster.run("scontrol", "resume", id_)
        assert run.finish()["stops"].items() >= WELL.items()


def test_a_job_that_could_not_be_launched_is_released(campaign: SlurmCampaign) -> None:
    cluster = campaign.cluster
    campaign.write(Work("launched", options={"nodelist": "n1"}))
    state = ("sinfo", "-h", "-n", "n1", "-o", "%T")
    with cluster.failing_prolog(), campaign.running() as run:
        wait_until(lambda: "drain" in cluster.run(*state).stdout, "a failed launch")
        cluster.launch_again()
        cluster.run("scontrol", "update", "nodename=n1", "state=resume")
        assert run.finish(180)["launched"].items() >= WELL.items()
    assert campaign.begun() == {"launched": 1}


def test_a_job_that_is_over_is_not_said_to_run(campaign: SlurmCampaign) -> None:
    asks: dict[str, Scalar] = {"nodelist": "n3", "exclusive": True, "partition": "kill"}
    campaign.write(Work("dies", SLEEPS, asks))
    with campaign.running() as run:
        campaign.wait_for_line("dies")
        campaign.cluster.submit("true", "-p", "urgent", "-w", "n3", "--exclusive")

        def is_told() -> bool:
            assert run.process.poll() is None, "it was never told"
            return "waits up to" in str(campaign.shown()["dies"]["why"])

        wait_until(is_told, "what is waited for")
        run.finish()


# --------------------------------------------------------------------------- refusals
# INACTIVE refuses, as DRAIN does; DOWN lets jobs wait.
@pytest.mark.parametrize("how", ["INACTIVE", "DOWN"])
def test_a_partition_that_takes_nothing_fails_no_job(
    campaign: SlurmCampaign, how: str
) -> None:
    set_partition(campaign.cluster, how)
    campaign.write(Work("waits"))
    sent = ("SUBMITTING", "QUEUED")
    with campaign.running() as run:
        campaign.wait_for("waits", *sent, seconds=90.0)
        time.sleep(5.0)
        assert campaign.state_of("waits") in sent
        set_partition(campaign.cluster, "UP")
        assert run.finish()["waits"].items() >= WELL.items()


def test_a_controller_that_is_away_costs_little_more_than_it_was_away(
    campaign: SlurmCampaign,
) -> None:
    campaign.cluster.ctld_stop()
    campaign.write(Work("late"))
    with campaign.running() as run:
        time.sleep(20.0)
        assert campaign.state_of("late") == "SUBMITTING"
        campaign.cluster.ctld_start()
        began = time.monotonic()
        assert run.finish(200)["late"]["state"] == "COMPLETED"
        assert time.monotonic() - began < 60.0
    assert campaign.events("SubmissionUncertain") == 0


# ------------------------------------------------------------------------- unconfirmed
def test_a_kill_that_squeue_cannot_confirm_is_said_and_settled_at_the_end(
    forgetful: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, forgetful, {"ask_seconds": 2.0})
    campaign.write(Work("killed", SLEEPS))
    with campaign.running() as run:
        campaign.wait_for_line("killed")
        campaign.wait_for("killed", "RUNNING", seconds=30.0)
        with forgetful.shim("squeue", HANGS):
            words = ("kill", campaign.session(), "killed", "--yes")
            said = campaign.start(*words, command="sessions").communicate(timeout=90)[1]
            job = run.finish()["killed"]
    assert end_of(job) == ("CANCELLED", "user")
    assert "not confirmed" in run.err + said


def test_a_banner_before_the_rows_hides_nothing(campaign: SlurmCampaign) -> None:
    banner = 'echo "*** Maintenance on Friday ***"\nexec "$REAL" "$@"\n'
    campaign.write(Work("seen", SLEEPS))
    with (
        campaign.cluster.shim("squeue", banner),
        campaign.cluster.shim("sacct", banner),
        campaign.running() as run,
    ):
        campaign.wait_for_line("seen")
        campaign.cancel("seen")
        assert run.finish()["seen"]["state"] == "CANCELLED"
    assert "Maintenance" not in run.err
