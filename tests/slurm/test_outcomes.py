"""What Slurm may do to a job, and what the engine makes of it: state, cause, sentence.

One session runs a job for each way to end, at the same time; each test looks at one.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.campaign import SlurmCampaign, Work, ended_after, jobs_of
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_outcomes")]

SLEEPS = "exec sleep 300"
ONCE = '[ -n "$SLURM_RESTART_COUNT" ] || exec sleep 300; exit 0'
"""Is in need of being started again."""
N1 = {"nodelist": "n1"}

WORKS = (
    Work("fine", options=N1),
    Work("exits3", "exit 3", options=N1),
    Work("crashes", "kill -SEGV $$", options=N1),
    Work("too_large", "kill -KILL $$", options=N1),
    Work("no_log_dir", options={**N1, "hold": True}),
    Work("no_cwd", options={**N1, "chdir": "/nowhere"}),
    Work("stopped", SLEEPS, options=N1),
    Work("held", options={"hold": True}),
    Work(
        "limited", "trap 'kill %1; exit 0' TERM; sleep 300 & wait; exit 0", options=N1
    ),
    Work("lost_node", SLEEPS, options={"nodelist": "n2", "no-requeue": True}),
    Work("back_again", ONCE, options={"nodelist": "n2", "requeue": True}),
    Work(
        "given_up",
        SLEEPS,
        options={"nodelist": "n3", "exclusive": True, "partition": "kill"},
    ),
    Work("gives_way", ONCE, options={"nodelist": "n4", "exclusive": True}),
    Work("requeued", ONCE, options=N1),
    Work("heir", options=N1, after=("requeued",)),
    Work("heir_of_node", options=N1, after=("back_again",)),
    Work("never", options={**N1, "dependency": "afterok:{failed}"}),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """What is expected of a job at the end."""

    state: str
    cause: str | None
    why: str
    """A pattern that the whole sentence matches."""
    runs: int = 1


OUTSIDE = r"cancelled outside this session( by .+ \(uid \d+\))?\. R resubmits\."
"""Whose word it was is in the accounts, which may come later."""
EXPECTED = {
    "fine": Ended("COMPLETED", None, ""),
    "exits3": Ended("FAILED", "exit_code", "ended with exit 3"),
    "crashes": Ended("FAILED", "signal", "ended by signal SIGSEGV"),
    "too_large": Ended("FAILED", "signal", "ended by signal SIGKILL"),
    "no_log_dir": Ended(
        "FAILED", "submit_error", r"could not be sent: .*logs/no_log_dir.*", runs=0
    ),
    "no_cwd": Ended("COMPLETED", None, ""),
    "stopped": Ended("CANCELLED", "user", OUTSIDE),
    "held": Ended("CANCELLED", "user", OUTSIDE, runs=0),
    "limited": Ended(
        "FAILED", "timeout", r"ended by its time limit on n1\. R resubmits.*"
    ),
    "lost_node": Ended("FAILED", "node_fail", "its node failed: n2"),
    "back_again": Ended("COMPLETED", None, "", runs=2),
    "given_up": Ended("FAILED", "preempted", "preempted on n3"),
    "gives_way": Ended("COMPLETED", None, "", runs=2),
    "requeued": Ended("COMPLETED", None, "", runs=2),
    "heir": Ended("COMPLETED", None, ""),
    "heir_of_node": Ended("COMPLETED", None, ""),
    "never": Ended("CANCELLED", "user", r"cancelled by a script\..*", runs=0),
}


@dataclass(frozen=True, slots=True)
class Played:
    """A session that is over."""

    campaign: SlurmCampaign
    code: int
    jobs: dict[str, dict[str, object]]
    shown: dict[str, dict[str, object]]
    """By `autoexp-sessions show`."""
    said: str
    """By the run, while it went on."""
    seconds: float


@pytest.fixture(scope="module")
def played(
    accounted: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    campaign = SlurmCampaign(tmp_path_factory.mktemp("outcomes"), accounted)
    yield play(campaign)
    accounted.clear()


def play(campaign: SlurmCampaign) -> Played:
    began = time.monotonic()
    failed = campaign.cluster.submit("exit 1")
    campaign.cluster.wait_for_state(failed, "FAILED")
    campaign.write([with_failed(work, failed) for work in WORKS])
    with ended_after(campaign.run()) as run:
        meddle(campaign)
        out, err = run.communicate(timeout=120)
    print(err, file=sys.stderr)
    return Played(
        campaign=campaign,
        code=run.returncode,
        jobs=jobs_of(out),
        shown=campaign.shown(),
        said=err,
        seconds=time.monotonic() - began,
    )


def with_failed(work: Work, failed: str) -> Work:
    """The work with the id of a failed job put in."""
    options = {
        key: value.replace("{failed}", failed) if isinstance(value, str) else value
        for key, value in work.options.items()
    }
    return Work(work.name, work.script, options, work.stage, work.after)


def meddle(campaign: SlurmCampaign) -> None:
    """Does to each job what its name tells."""
    cluster = campaign.cluster
    for name in ("limited", "lost_node", "back_again", "requeued"):
        campaign.wait_for_line(name)
    cluster.expire(campaign.id_in("limited", "RUNNING"))
    cluster.node_stop("n2", with_steps=True)
    cluster.run("scontrol", "requeue", campaign.id_in("requeued", "RUNNING"))
    for name, node in (("given_up", "n3"), ("gives_way", "n4")):
        campaign.wait_for_line(name)
        cluster.submit("true", "-p", "urgent", "-w", node, "--exclusive")
    campaign.wait_for_line("stopped")
    cluster.run("scancel", campaign.id_in("stopped", "RUNNING"))
    cluster.run("scancel", campaign.id_in("held", "PENDING"))
    no_log_dir = campaign.id_in("no_log_dir", "PENDING")
    shutil.rmtree(campaign.root / "logs" / "no_log_dir")
    cluster.run("scontrol", "release", no_log_dir)
    campaign.id_in("lost_node", "NODE_FAIL")
    cluster.node_start("n2")
    campaign.told("kill", campaign.session(), "never", "--yes")


@pytest.mark.parametrize("name", EXPECTED)
def test_each_end_is_told_as_what_it_is(played: Played, name: str) -> None:
    job, expected = played.jobs[name], EXPECTED[name]
    assert (job["state"], job["cause"], job["attempts"]) == (
        expected.state,
        expected.cause,
        1,
    )
    assert re.fullmatch(expected.why, str(job["why"])), job["why"]


@pytest.mark.parametrize("name", EXPECTED)
def test_each_run_has_its_own_records(played: Played, name: str) -> None:
    begun = [record["run"] for record in played.campaign.records(name, "begin")]
    assert begun == list(range(EXPECTED[name].runs))


def test_scripts_are_told_the_same(played: Played) -> None:
    told = {
        name: {key: shown[key] for key in played.jobs[name]}
        for name, shown in played.shown.items()
    }
    assert told == played.jobs


def test_the_exit_code_tells_that_jobs_failed(played: Played) -> None:
    assert played.code == 1


def test_what_will_never_start_is_said_in_words(played: Played) -> None:
    told = "never: depends on a job that failed: it will never start"
    assert told in played.said


def test_dependants_begin_after_the_further_run_ended(played: Played) -> None:
    ends = [
        record["ended_at"] for record in played.campaign.records("requeued", "exit")
    ]
    [began] = played.campaign.records("heir", "begin")
    assert float(str(began["began_at"])) >= max(float(str(end)) for end in ends)


def test_the_session_took_no_longer_than_needed(played: Played) -> None:
    print(f"\n{len(WORKS)} ways to end: {played.seconds:.0f} s")
    assert played.seconds < 150


# -- memory


def test_a_job_above_its_memory_is_out_of_memory(
    cgroup_cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cgroup_cluster)
    greedy = f'exec {sys.executable} -c "bytearray(200 << 20)"'
    tolerant = f"{greedy.removeprefix('exec ')}; exit 0"
    campaign.write(
        [
            Work("greedy", greedy, {"mem": 30}),
            Work("tolerant", tolerant, {"mem": 30}),
            Work("modest"),
        ]
    )
    out, err = campaign.run().communicate(timeout=90)
    jobs = jobs_of(out)
    assert jobs["modest"]["state"] == "COMPLETED", err
    assert (jobs["greedy"]["state"], jobs["greedy"]["cause"]) == (
        "FAILED",
        "out_of_memory",
    )
    assert str(jobs["greedy"]["why"]).startswith("out of memory"), json.dumps(jobs)
    [end] = campaign.records("tolerant", "exit")
    assert (end["exit_code"], end["oom_kills"]) == (0, 1)
    assert (jobs["tolerant"]["state"], jobs["tolerant"]["cause"]) == (
        "FAILED",
        "out_of_memory",
    )
