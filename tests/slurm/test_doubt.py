"""No answer, no engine, no controller: no job is lost and none runs twice.

What ran is judged by the jobs' own records and by a ledger that their commands append
to. With AUTOEXP_SLURM_FULL=1 each fault comes 20 times.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.campaign import FULL, SlurmCampaign, Work, ended_after, jobs_of, until
from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings
from tests.slurm.shims import accepts_then_hangs

pytestmark = pytest.mark.slurm

KILLS = 20 if FULL else 3
JOBS = 20
DELAY_SECONDS = 0.4
"""Before the controller knows of a job, and again before the engine knows of it."""


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    """A cluster that forgets ended jobs soon: what is absent is sure after that."""
    with Cluster(Settings(min_job_age_s=3, gpus=0)) as running:
        yield running


@pytest.fixture
def campaign(forgetful: Cluster, tmp_path: Path) -> Iterator[SlurmCampaign]:
    yield SlurmCampaign(tmp_path, forgetful)
    forgetful.clear()


def works(count: int, script: str = "sleep 0.5") -> list[Work]:
    return [Work(f"job{n:02}", script) for n in range(count)]


def assert_each_ran_once(
    campaign: SlurmCampaign, jobs: dict[str, dict[str, object]]
) -> None:
    """By the end that is told, by the ledger, and by the records."""
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    assert {job["attempts"] for job in jobs.values()} == {1}
    assert campaign.begun() == dict.fromkeys(jobs, 1)
    for name in jobs:
        assert (campaign.attempt(name) / "claim").exists()
        assert [one["run"] for one in campaign.records(name, "begin")] == [0]
        assert [one["exit_code"] for one in campaign.records(name, "exit")] == [0]


def finish(
    campaign: SlurmCampaign, patience_s: float = 120.0
) -> dict[str, dict[str, object]]:
    with ended_after(campaign.run()) as run:
        out, err = run.communicate(timeout=patience_s)
    print(err[-1500:])
    return jobs_of(out)


def test_answers_that_never_come_lose_nothing(
    forgetful: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, forgetful, {"submit_seconds": 1.0})
    campaign.write(works(JOBS))
    began = time.monotonic()
    with forgetful.shim("sbatch", accepts_then_hangs()):
        jobs = finish(campaign)
    print(f"{JOBS} answers lost: {time.monotonic() - began:.0f} s")
    assert_each_ran_once(campaign, jobs)
    forgetful.clear()


def test_engines_killed_between_intent_and_answer_lose_nothing(
    campaign: SlurmCampaign,
) -> None:
    rng = random.Random(3)
    campaign.write(works(5 * KILLS, "sleep 0.2"))
    calls = campaign.root / "calls"
    began = time.monotonic()
    with campaign.cluster.shim("sbatch", slow(calls)):
        for _ in range(KILLS):
            sent = size(calls)
            with ended_after(campaign.run()) as run:
                until(lambda sent=sent: size(calls) > sent, "an sbatch")  # type: ignore[misc]
                time.sleep(rng.uniform(0.0, 2 * DELAY_SECONDS))
                run.send_signal(signal.SIGKILL)
                run.wait()
        jobs = finish(campaign)
    absent = campaign.events("SubmissionAbsent")
    print(
        f"{KILLS} engines killed, {len(jobs)} jobs: {time.monotonic() - began:.0f} s; "
        f"{absent} times found not taken"
    )
    assert_each_ran_once(campaign, jobs)


def slow(calls: Path) -> str:
    """An sbatch that takes its time before and after it does its work."""
    sleep = f"sleep {DELAY_SECONDS}\n"
    told = f"echo >> {calls}\n"
    return f'{told}{sleep}"$REAL" "$@"\nstatus=$?\n{sleep}exit $status\n'


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_controller_that_forgets_loses_nothing(campaign: SlurmCampaign) -> None:
    """Killed soon after it accepted, it gives the same ids to others afterwards."""
    cluster = campaign.cluster
    in_the_way = cluster.submit("sleep 600", "--exclusive", "--nodes=4")
    cluster.wait_for_state(in_the_way, "RUNNING")
    cluster.save(in_the_way)
    campaign.write(works(6))
    began = time.monotonic()
    with ended_after(campaign.run()) as run:
        until(lambda: len(campaign.ids()) >= 6, "jobs in the queue")
        ids = campaign.ids()
        time.sleep(0.6)
        cluster.ctld_restart(hard=True)
        others = {cluster.submit("sleep 1") for _ in range(6)}
        cluster.run("scancel", in_the_way)
        out, err = run.communicate(timeout=120)
    print(err[-3000:])
    print(f"forgotten {ids}, {others} after: {time.monotonic() - began:.0f} s")
    assert_each_ran_once(campaign, jobs_of(out))
    assert ids & others
