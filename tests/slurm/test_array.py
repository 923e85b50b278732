"""Many alike jobs go as one array, and each stays a job of its own.

With AUTOEXP_SLURM_FULL=1 there are 200 of them.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.campaign import FULL, SlurmCampaign, Work, ended_after, jobs_of, until
from tests.slurm.cluster import Cluster
from tests.slurm.shims import counted

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_array")]

SIZE = 200 if FULL else 80
REQUEUED, PREEMPTED, STOPPED = "point000", "point001", "point002"
TAKEN_BACK = (f"point{SIZE - 10:03}", f"point{SIZE - 5:03}")
"""Cancelled while they wait."""
ONCE = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 300'
PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol")
POLL_SECONDS = 3.0
CLIENT = {"array_size": 1000, "poll_seconds": POLL_SECONDS, "slowest_poll_seconds": 6.0}


def work(n: int, released: Path) -> Work:
    """A job that tells its own name in its log and in its directory.

    Most go on until `released` comes, so that those behind them wait as long.
    """
    name = f"point{n:03}"
    until_released = f"until [ -e {released} ]; do sleep 0.5; done; sleep 2"
    once_long = {REQUEUED: ONCE, PREEMPTED: ONCE, STOPPED: "sleep 300"}
    long = once_long.get(name, until_released)
    script = f"echo I am {name}; echo {name} >> own.txt; {long}"
    return Work(name, script, stage="sweep")


@dataclass(frozen=True, slots=True)
class Played:
    """A session that is over."""

    campaign: SlurmCampaign
    jobs: dict[str, dict[str, object]]
    calls: Counter[str]
    submitted: str
    """The arguments of the one sbatch."""
    seconds: float

    @property
    def stopped(self) -> set[str]:
        return {name for name, job in self.jobs.items() if job["state"] != "COMPLETED"}


@pytest.fixture(scope="module")
def played(
    accounted: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    root = tmp_path_factory.mktemp("array")
    yield play(SlurmCampaign(root, accounted, CLIENT))
    accounted.clear()


def play(campaign: SlurmCampaign) -> Played:
    campaign.write([work(n, released(campaign)) for n in range(SIZE)])
    began = time.monotonic()
    with ExitStack() as shims:
        for name in PROGRAMS:
            shim = campaign.cluster.shim(name, counted(campaign.root / name))
            shims.enter_context(shim)
        with ended_after(campaign.run()) as run:
            meddle(campaign)
            out, err = run.communicate(timeout=120)
        seconds = time.monotonic() - began
        calls = {name: lines_of(campaign, name) for name in PROGRAMS}
    print(err[-1500:], file=sys.stderr)
    return Played(
        campaign=campaign,
        jobs=jobs_of(out),
        calls=Counter({name: len(lines) for name, lines in calls.items()}),
        submitted=calls["sbatch"][0],
        seconds=seconds,
    )


def lines_of(campaign: SlurmCampaign, program: str) -> list[str]:
    """A line for each call of a program by the run."""
    path = campaign.root / program
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if campaign_s_own(line)]


def campaign_s_own(line: str) -> bool:
    """Whether a call is the engine's and not of this test, which looks too."""
    return not any(mark in line for mark in (TEST_MARK, "urgent", "requeue", "-o %N "))


TEST_MARK = "%i|%T|%j"


def meddle(campaign: SlurmCampaign) -> None:
    """Cancels three, requeues one, has one preempted."""
    cluster = campaign.cluster
    campaign.wait_for_line(STOPPED)
    for name in (*TAKEN_BACK, STOPPED):
        campaign.told("kill", campaign.session(), name, "--yes")
    released(campaign).touch()
    tasks = task_ids(campaign)
    campaign.wait_for_line(REQUEUED)
    cluster.run("scontrol", "requeue", tasks[REQUEUED])
    campaign.wait_for_line(REQUEUED, 2)
    until(lambda: len(campaign.begun()) >= SIZE - len(TAKEN_BACK), "all others", 200.0)
    node = cluster.run("squeue", "-h", "-j", tasks[PREEMPTED], "-o", "%N").stdout
    until(lambda: len(living(campaign)) <= 1, "only one that runs")
    cluster.submit("true", "-p", "urgent", "-w", node.strip(), "--exclusive")


def released(campaign: SlurmCampaign) -> Path:
    """The file whose coming lets the jobs end."""
    return campaign.root / "released"


def task_ids(campaign: SlurmCampaign) -> dict[str, str]:
    """Slurm's names of our tasks, by the claims they made."""
    found = campaign.state_dir.glob("*/attempts/*/1/claim")
    return {
        path.parts[-3]: json.loads(path.read_text())["executor_id"] for path in found
    }


def living(campaign: SlurmCampaign) -> list[str]:
    shown = campaign.cluster.run("squeue", "-h", "-r", "-o", f"%T {TEST_MARK}").stdout
    return shown.splitlines()


def test_all_go_by_one_call(played: Played) -> None:
    assert played.calls["sbatch"] == 1
    assert f"--array=0-{SIZE - 1}" in played.submitted


def test_all_but_the_cancelled_complete(played: Played) -> None:
    assert played.stopped == {STOPPED, *TAKEN_BACK}
    assert len(played.jobs) == SIZE


def test_the_cancelled_were_cancelled_by_a_person(played: Played) -> None:
    told = {
        (played.jobs[name]["state"], played.jobs[name]["cause"])
        for name in played.stopped
    }
    assert told == {("CANCELLED", "user")}


def test_each_found_its_own_entry(played: Played) -> None:
    out = played.campaign.root / "out"
    begun = [name for name in played.jobs if name not in TAKEN_BACK]
    wrong = {
        name: text
        for name in begun
        if set(text := (out / name / "own.txt").read_text().split()) != {name}
    }
    assert wrong == {}


def test_what_was_taken_back_never_began(played: Played) -> None:
    assert [name for name in TAKEN_BACK if played.campaign.begun()[name]] == []


def test_each_log_lies_with_its_job(played: Played) -> None:
    logs = played.campaign.root / "logs"
    begun = [name for name in played.jobs if name not in TAKEN_BACK]
    wrong = [
        name
        for name in begun
        if f"I am {name}\n" not in (logs / name / "current.log").read_text()
    ]
    assert wrong == []


@pytest.mark.parametrize("name", [REQUEUED, PREEMPTED])
def test_a_further_run_is_of_the_same_attempt(played: Played, name: str) -> None:
    begun = [record["run"] for record in played.campaign.records(name, "begin")]
    assert begun == [0, 1]
    assert played.jobs[name]["attempts"] == 1


def test_the_others_ran_once(played: Played) -> None:
    twice = {name for name, times in played.campaign.begun().items() if times > 1}
    assert twice == {REQUEUED, PREEMPTED}


def test_the_controller_is_asked_by_the_clock_not_by_the_task(played: Played) -> None:
    looks = played.seconds / POLL_SECONDS
    print(f"\n{SIZE} tasks, {played.seconds:.0f} s: {dict(played.calls)}")
    assert played.calls["squeue"] <= looks + 5
    assert played.calls["sacct"] <= played.calls["squeue"] + 2
    assert played.calls["scancel"] <= 2 * len(played.stopped) + 2
