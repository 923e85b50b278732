"""Many alike jobs go as one array, and each stays a job of its own.

With AUTOEXP_SLURM_FULL=1 there are 200 of them.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.campaign import wait_until
from tests.slurm.campaign import FULL, Run, SlurmCampaign, Work, end_of
from tests.slurm.cluster import Cluster, counted

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_array")]

SIZE = 200 if FULL else 80
REQUEUED, PREEMPTED, STOPPED = "point000", "point001", "point002"
TAKEN_BACK = (f"point{SIZE - 10:03}", f"point{SIZE - 5:03}")
"""Cancelled while they wait."""
ONCE = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 300'
PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol")
TEST_MARK = "%i|%T|%j"
OF_THE_TEST = (TEST_MARK, "urgent", "requeue", "-o %N ")
"""In calls that are not the engine's: this test looks, too."""
POLL_SECONDS = 3.0
CLIENT = {"array_size": 1000, "poll_seconds": POLL_SECONDS, "slowest_poll_seconds": 6.0}


def work(name: str, released: Path) -> Work:
    """A job that tells its own name in its log and in its directory.

    Most go on until `released` comes, so that those behind them wait as long.
    """
    until_released = f"until [ -e {released} ]; do sleep 0.5; done; sleep 2"
    once_long = {REQUEUED: ONCE, PREEMPTED: ONCE, STOPPED: "sleep 300"}
    long = once_long.get(name, until_released)
    return Work(name, f"echo I am {name}; echo {name} >> own.txt; {long}", stage="s")


@dataclass(frozen=True, slots=True)
class Played:
    """A session that is over."""

    run: Run
    calls: dict[str, list[str]]
    """A line of arguments for each call of a program by the engine."""
    seconds: float

    @property
    def begun(self) -> list[str]:
        return [name for name in self.run.jobs if name not in TAKEN_BACK]


@pytest.fixture(scope="module")
def played(cluster_of_all: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Played:
    root = tmp_path_factory.mktemp("array")
    campaign = SlurmCampaign(root, cluster_of_all, CLIENT)
    released = root / "released"
    campaign.write(*(work(f"point{n:03}", released) for n in range(SIZE)))
    began = time.monotonic()
    with ExitStack() as stack:
        for name in PROGRAMS:
            (root / name).touch()
            stack.enter_context(cluster_of_all.shim(name, counted(root / name)))
        run = stack.enter_context(campaign.running())
        meddle(campaign, released)
        run.finish()
    calls = {
        name: [
            line
            for line in (root / name).read_text().splitlines()
            if not any(mark in line for mark in OF_THE_TEST)
        ]
        for name in PROGRAMS
    }
    return Played(run, calls, time.monotonic() - began)


def meddle(campaign: SlurmCampaign, released: Path) -> None:
    """Cancels three, requeues one, has one preempted."""
    cluster = campaign.cluster
    campaign.wait_for_line(STOPPED)
    for name in (*TAKEN_BACK, STOPPED):
        campaign.told("kill", campaign.session(), name, "--yes")
    released.touch()
    campaign.wait_for_line(REQUEUED)
    cluster.run("scontrol", "requeue", task_id(campaign, REQUEUED))
    campaign.wait_for_line(REQUEUED, 2)
    others = SIZE - len(TAKEN_BACK)
    wait_until(lambda: len(campaign.begun()) >= others, "all others", 200.0)
    at = ("squeue", "-h", "-j", task_id(campaign, PREEMPTED), "-o", "%N")
    node = cluster.run(*at).stdout.strip()
    living = ("squeue", "-h", "-r", "-o", f"%T {TEST_MARK}")
    wait_until(lambda: cluster.run(*living).stdout.count("\n") <= 1, "one that runs")
    cluster.submit("true", "-p", "urgent", "-w", node, "--exclusive")


def task_id(campaign: SlurmCampaign, job: str) -> str:
    """Slurm's name of a task of ours, by the claim it made."""
    claim = json.loads((campaign.attempt(job) / "claim").read_text())
    return str(claim["executor_id"])


def test_all_go_by_one_call_and_the_controller_is_asked_by_the_clock(
    played: Played,
) -> None:
    print(f"\n{SIZE} tasks, {played.seconds:.0f} s")
    [submitted] = played.calls["sbatch"]
    assert f"--array=0-{SIZE - 1}" in submitted
    count = {name: len(lines) for name, lines in played.calls.items()}
    assert count["squeue"] <= played.seconds / POLL_SECONDS + 5
    assert count["sacct"] <= count["squeue"] + 2
    assert count["scancel"] <= 2 * len((STOPPED, *TAKEN_BACK)) + 2


def test_all_but_those_that_a_person_cancelled_complete(played: Played) -> None:
    ends = {name: end_of(job) for name, job in played.run.jobs.items()}
    stopped = {name for name, end in ends.items() if end != ("COMPLETED", None)}
    assert stopped == {STOPPED, *TAKEN_BACK}
    assert {ends[name] for name in stopped} == {("CANCELLED", "user")}
    assert len(ends) == SIZE


def test_each_found_its_own_entry_and_its_log_lies_with_it(played: Played) -> None:
    root = played.run.campaign.root
    for name in played.begun:
        assert set((root / "out" / name / "own.txt").read_text().split()) == {name}
        assert f"I am {name}\n" in (root / "logs" / name / "current.log").read_text()


def test_each_ran_once_but_for_further_runs_of_the_same_attempt(played: Played) -> None:
    campaign = played.run.campaign
    assert campaign.begun() == dict.fromkeys(played.begun, 1) | {
        REQUEUED: 2,
        PREEMPTED: 2,
    }
    for name in (REQUEUED, PREEMPTED):
        assert [one["run"] for one in campaign.records(name, "begin")] == [0, 1]
        assert played.run.jobs[name]["attempts"] == 1
