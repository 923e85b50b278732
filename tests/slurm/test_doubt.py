"""No engine, no controller: no job is lost and none runs twice.

What ran is judged by the jobs' own records and by a ledger that their commands append
to. With AUTOEXP_SLURM_FULL=1 each fault comes 20 times.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.e2e.campaign import states_of, wait_until
from tests.slurm.campaign import FULL, Run, SlurmCampaign, Work
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm

KILLS = 20 if FULL else 3
DELAY_SECONDS = 0.4
"""Before the controller knows of a job, and again before the engine knows of it."""


@pytest.fixture
def campaign(forgetful: Cluster, tmp_path: Path) -> SlurmCampaign:
    return SlurmCampaign(tmp_path, forgetful)


def works(count: int, script: str = "sleep 0.5", name: str = "job") -> list[Work]:
    return [Work(f"{name}{n:02}", script) for n in range(count)]


def assert_each_ran_once(run: Run) -> None:
    """By the end that is told, by the ledger, and by the records."""
    campaign, jobs = run.campaign, run.jobs
    assert states_of(jobs) == {"COMPLETED"}
    assert {job["attempts"] for job in jobs.values()} == {1}
    assert campaign.begun() == dict.fromkeys(jobs, 1)
    for name in jobs:
        assert (campaign.attempt(name) / "claim").exists()
        assert [one["run"] for one in campaign.records(name, "begin")] == [0]
        assert [one["exit_code"] for one in campaign.records(name, "exit")] == [0]


def test_engines_killed_between_intent_and_answer_lose_nothing(
    campaign: SlurmCampaign,
) -> None:
    rng = random.Random(3)
    campaign.write(*works(5 * KILLS, "sleep 0.2"))
    calls = campaign.root / "calls"
    calls.touch()
    with campaign.cluster.shim("sbatch", slow(calls)):
        for _ in range(KILLS):
            kill_amid_an_sbatch(campaign, calls, rng.uniform(0.0, 2 * DELAY_SECONDS))
        run = campaign.finish()
    print(f"{campaign.events('SubmissionAbsent')} times found not taken")
    assert_each_ran_once(run)


def kill_amid_an_sbatch(campaign: SlurmCampaign, calls: Path, after_s: float) -> None:
    sent = calls.stat().st_size
    with campaign.running():
        wait_until(lambda: calls.stat().st_size > sent, "an sbatch")
        time.sleep(after_s)


def slow(calls: Path) -> str:
    """An sbatch that takes its time before and after it does its work."""
    sleep = f"sleep {DELAY_SECONDS}\n"
    return f'echo >> {calls}\n{sleep}"$REAL" "$@"\nstatus=$?\n{sleep}exit $status\n'


def test_a_controller_that_forgets_loses_nothing(campaign: SlurmCampaign) -> None:
    """Killed soon after it accepted, it gives the same ids to others afterwards."""
    cluster = campaign.cluster
    in_the_way = cluster.submit("sleep 600", "--exclusive", "--nodes=4")
    cluster.wait_for_state(in_the_way, "RUNNING")
    cluster.save(in_the_way)
    # The queue shows ended jobs of earlier tests for a while: names of its own.
    campaign.write(*works(6, name="forgotten"))
    with campaign.running() as run:
        wait_until(lambda: len(campaign.queue()) >= 6, "jobs in the queue")
        ids = {id_ for id_, _ in campaign.queue().values()}
        time.sleep(0.6)
        cluster.ctld_stop(hard=True)
        cluster.ctld_start()
        others = {cluster.submit("sleep 1") for _ in range(6)}
        cluster.run("scancel", in_the_way)
        run.finish()
    assert_each_ran_once(run)
    assert ids & others
