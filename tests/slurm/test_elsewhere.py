"""What others do to our jobs, and what a real controller refuses, is told as it is.

Each test is a session of its own on a cluster that forgets ended jobs soon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.specs import Scalar
from tests.slurm.campaign import SlurmCampaign, Work, ended_after, jobs_of, until
from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings
from tests.slurm.shims import fails, hangs

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_elsewhere")]

SLEEPS = "exec sleep 300"


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    settings = Settings(min_job_age_s=5, gpus=0, failing_prolog=True)
    with Cluster(settings) as running:
        yield running


@pytest.fixture
def campaign(forgetful: Cluster, tmp_path: Path) -> Iterator[SlurmCampaign]:
    yield SlurmCampaign(tmp_path, forgetful, {"array_size": 10})
    forgetful.run("scontrol", "update", "partitionname=main", "state=UP")
    forgetful.clear()


def tasks(cluster: Cluster) -> dict[str, str]:
    """State of each task of an array, by id."""
    shown = cluster.run("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T").stdout
    rows = (line.split("|") for line in shown.splitlines())
    return {id_: state for id_, state in rows if "_" in id_}


def state(campaign: SlurmCampaign, job: str) -> str:
    """How the job is shown; before there is a session, None."""
    return str(told(campaign, job).get("state"))


def told(campaign: SlurmCampaign, job: str) -> dict[str, object]:
    return campaign.shown().get(job, {}) if campaign.session() else {}


def wait_for(campaign: SlurmCampaign, job: str, wanted: str, seconds: float) -> None:
    until(lambda: state(campaign, job) == wanted, f"{job} {wanted}", seconds)


# --------------------------------------------------------------------- whose, and who
def test_waiting_tasks_that_others_cancel_stay_cancelled(
    campaign: SlurmCampaign,
) -> None:
    cluster = campaign.cluster
    in_the_way = cluster.submit("sleep 600", "--exclusive", "--nodes=4")
    cluster.wait_for_state(in_the_way, "RUNNING")
    campaign.write([Work(f"job{n}", "exit 0", stage="train") for n in range(4)])
    with ended_after(campaign.run()) as run:
        until(lambda: len(tasks(cluster)) == 4, "an array")
        array = next(iter(tasks(cluster))).partition("_")[0]
        cluster.run("scancel", f"{array}_[1-2]")
        began = time.monotonic()
        wait_for(campaign, "job1", "CANCELLED", 60.0)
        print(f"known after {time.monotonic() - began:.0f} s")
        cluster.run("scancel", in_the_way)
        out, err = run.communicate(timeout=120)
    jobs = jobs_of(out)
    assert {name: job["state"] for name, job in jobs.items()} == {
        "job0": "COMPLETED",
        "job1": "CANCELLED",
        "job2": "CANCELLED",
        "job3": "COMPLETED",
    }, err
    assert campaign.begun() == {"job0": 1, "job3": 1}


def test_who_cancelled_is_told_and_logname_is_nobody(
    campaign: SlurmCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "nobody")
    monkeypatch.setenv("USER", "nobody")
    campaign.write([Work("stopped", SLEEPS)])
    with ended_after(campaign.run()) as run:
        campaign.wait_for_line("stopped")
        campaign.cluster.run("scancel", campaign.id_in("stopped", "RUNNING"))
        out, _ = run.communicate(timeout=120)
    [job] = jobs_of(out).values()
    assert (job["state"], job["cause"]) == ("CANCELLED", "user")
    assert f"(uid {os.getuid()})" in str(job["why"])


# --------------------------------------------------------------- suspended, held, over
def test_a_suspended_job_is_told_as_that_and_completes(
    campaign: SlurmCampaign,
) -> None:
    campaign.write([Work("stops", "sleep 12; exit 0")])
    with ended_after(campaign.run()) as run:
        campaign.wait_for_line("stops")
        id_ = campaign.id_in("stops", "RUNNING")
        campaign.cluster.run("scontrol", "suspend", id_)
        wait_for(campaign, "stops", "SUSPENDED", 30.0)
        time.sleep(5.0)
        assert state(campaign, "stops") == "SUSPENDED"
        campaign.cluster.run("scontrol", "resume", id_)
        out, _ = run.communicate(timeout=120)
    [job] = jobs_of(out).values()
    assert (job["state"], job["attempts"]) == ("COMPLETED", 1)


def test_a_job_that_could_not_be_launched_is_released(campaign: SlurmCampaign) -> None:
    cluster = campaign.cluster
    campaign.write([Work("launched", "exit 0", {"nodelist": "n1"})])
    with cluster.failing_prolog(), ended_after(campaign.run()) as run:
        until(lambda: "drain" in node_state(cluster), "a failed launch")
        cluster.launch_again()
        cluster.run("scontrol", "update", "nodename=n1", "state=resume")
        out, err = run.communicate(timeout=180)
    [job] = jobs_of(out).values()
    assert (job["state"], job["attempts"]) == ("COMPLETED", 1), err
    assert campaign.begun() == {"launched": 1}


def node_state(cluster: Cluster) -> str:
    return cluster.run("sinfo", "-h", "-n", "n1", "-o", "%T").stdout


def test_a_job_that_is_over_is_not_said_to_run(campaign: SlurmCampaign) -> None:
    given_up: dict[str, Scalar] = {
        "nodelist": "n3",
        "exclusive": True,
        "partition": "kill",
    }
    campaign.write([Work("dies", SLEEPS, given_up)])
    with ended_after(campaign.run()) as run:
        campaign.wait_for_line("dies")
        campaign.cluster.submit("true", "-p", "urgent", "-w", "n3", "--exclusive")
        whys: set[str] = set()

        def is_told() -> bool:
            whys.add(str(campaign.shown()["dies"]["why"]))
            return any("waits up to" in why for why in whys) or run.poll() is not None

        until(is_told, "what is waited for", 60.0)
        run.communicate(timeout=120)
    print(whys)
    assert any("waits up to" in why for why in whys)


# --------------------------------------------------------------------------- refusals
@pytest.mark.parametrize("how", ["INACTIVE", "DRAIN", "DOWN"])
def test_a_partition_that_takes_nothing_fails_no_job(
    campaign: SlurmCampaign, how: str
) -> None:
    campaign.cluster.run("scontrol", "update", "partitionname=main", f"state={how}")
    campaign.write([Work("waits")])
    with ended_after(campaign.run()) as run:
        sent = ("SUBMITTING", "QUEUED")
        until(lambda: state(campaign, "waits") in sent, "an order", 90.0)
        time.sleep(5.0)
        assert state(campaign, "waits") in sent
        campaign.cluster.run("scontrol", "update", "partitionname=main", "state=UP")
        out, err = run.communicate(timeout=120)
    [job] = jobs_of(out).values()
    assert (job["state"], job["attempts"]) == ("COMPLETED", 1), err


def test_a_controller_that_is_away_costs_little_more_than_it_was_away(
    campaign: SlurmCampaign,
) -> None:
    cluster = campaign.cluster
    cluster.ctld_stop()
    campaign.write([Work("late")])
    with ended_after(campaign.run()) as run:
        time.sleep(20.0)
        assert state(campaign, "late") == "SUBMITTING"
        cluster.ctld_start()
        began = time.monotonic()
        out, err = run.communicate(timeout=200)
        took = time.monotonic() - began
    print(f"ended {took:.0f} s after the controller was back")
    assert jobs_of(out)["late"]["state"] == "COMPLETED", err
    assert took < 60.0
    assert campaign.events("SubmissionUncertain") == 0


def test_words_that_nobody_knows_fail_no_job(campaign: SlurmCampaign) -> None:
    said = "sbatch: error: Batch job submission failed: Rebalancing tranches"
    campaign.write([Work("asked")])
    with ended_after(campaign.run()) as run:
        with campaign.cluster.shim("sbatch", fails(said)):
            until(
                lambda: "Rebalancing" in str(told(campaign, "asked").get("why")),
                "the refusal",
            )
            assert state(campaign, "asked") == "SUBMITTING"
        out, err = run.communicate(timeout=120)
    assert jobs_of(out)["asked"]["state"] == "COMPLETED", err


# ------------------------------------------------------------------------- unconfirmed
def test_a_kill_that_squeue_cannot_confirm_is_said_and_settled_at_the_end(
    forgetful: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, forgetful, {"ask_seconds": 2.0})
    campaign.write([Work("killed", SLEEPS)])
    with ended_after(campaign.run()) as run:
        campaign.wait_for_line("killed")
        wait_for(campaign, "killed", "RUNNING", 30.0)
        with forgetful.shim("squeue", hangs()):
            kill = campaign.start(
                "kill", campaign.session(), "killed", "--yes", command="sessions"
            )
            _, said = kill.communicate(timeout=90)
            print(said)
            out, err = run.communicate(timeout=120)
    [job] = jobs_of(out).values()
    assert (job["state"], job["cause"]) == ("CANCELLED", "user"), err
    assert "not confirmed" in err + said
    forgetful.clear()


def test_a_banner_before_the_rows_hides_nothing(campaign: SlurmCampaign) -> None:
    banner = 'echo "*** Maintenance on Friday ***"\nexec "$REAL" "$@"\n'
    campaign.write([Work("seen", SLEEPS)])
    with (
        campaign.cluster.shim("squeue", banner),
        campaign.cluster.shim("sacct", banner),
        ended_after(campaign.run()) as run,
    ):
        campaign.wait_for_line("seen")
        campaign.cluster.run("scancel", campaign.id_in("seen", "RUNNING"))
        out, err = run.communicate(timeout=120)
    assert jobs_of(out)["seen"]["state"] == "CANCELLED", err
    assert "Maintenance" not in err
