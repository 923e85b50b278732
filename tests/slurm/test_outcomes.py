"""What Slurm may do to a job, and what the engine makes of it: state, cause, sentence.

One session runs a job for each way to end, at the same time; each test looks at one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoexp_tui.model.specs import Scalar
from tests.slurm.campaign import SLEEPS, Run, SlurmCampaign, Work, end_of
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_outcomes")]

ONCE = '[ -n "$SLURM_RESTART_COUNT" ] || exec sleep 300; exit 0'
"""Is in need of being started again."""
TRAPS = "trap 'kill %1; exit 0' TERM; sleep 300 & wait; exit 0"
WELL = ("COMPLETED", None)
BY_USER = ("CANCELLED", "user")
# Whose word it was is in the accounts, which may come later.
OUTSIDE = r"cancelled outside this session( by .+)?"
NO_LOGS = r"could not be sent: .*logs/no_log_dir.*"
N1 = {"nodelist": "n1"}
N2 = {"nodelist": "n2"}
N3: dict[str, Scalar] = {"nodelist": "n3", "exclusive": True, "partition": "kill"}
N4: dict[str, Scalar] = {"nodelist": "n4", "exclusive": True}


@dataclass(frozen=True, slots=True)
class Way:
    """What is expected of a job at the end, and the job."""

    end: tuple[str, str | None] = WELL
    why: str = ""
    """A pattern that the whole sentence matches."""
    script: str = "exit 0"
    options: Mapping[str, Scalar] = field(default_factory=lambda: N1)
    after: tuple[str, ...] = ()
    runs: int = 1


WAYS = {
    "fine": Way(),
    "exits3": Way(("FAILED", "exit_code"), "ended with exit 3", "exit 3"),
    "crashes": Way(("FAILED", "signal"), "ended by signal SIGSEGV", "kill -SEGV $$"),
    "too_large": Way(("FAILED", "signal"), "ended by signal SIGKILL", "kill -KILL $$"),
    "no_log_dir": Way(
        ("FAILED", "submit_error"), NO_LOGS, options={**N1, "hold": True}, runs=0
    ),
    "no_cwd": Way(options={**N1, "chdir": "/nowhere"}),
    "stopped": Way(BY_USER, OUTSIDE, SLEEPS),
    "held": Way(BY_USER, OUTSIDE, options={"hold": True}, runs=0),
    "limited": Way(("FAILED", "timeout"), "ended by its time limit on n1", TRAPS),
    "lost_node": Way(
        ("FAILED", "node_fail"),
        "its node failed: n2",
        SLEEPS,
        N2 | {"no-requeue": True},
    ),
    "back_again": Way(script=ONCE, options={**N2, "requeue": True}, runs=2),
    "given_up": Way(("FAILED", "preempted"), "preempted on n3", SLEEPS, N3),
    "gives_way": Way(script=ONCE, options=N4, runs=2),
    "requeued": Way(script=ONCE, runs=2),
    "heir": Way(after=("requeued",)),
    "heir_of_node": Way(after=("back_again",)),
    "never": Way(BY_USER, "cancelled by a script", runs=0),
}


@pytest.fixture(scope="module")
def played(cluster_of_all: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    campaign = SlurmCampaign(tmp_path_factory.mktemp("outcomes"), cluster_of_all)
    failed = cluster_of_all.submit("exit 1")
    cluster_of_all.wait_for_state(failed, "FAILED")
    after_failed = {"never": {"dependency": f"afterok:{failed}"}}
    campaign.write(
        *(
            Work(
                name,
                way.script,
                {**way.options, **after_failed.get(name, {})},
                after=way.after,
            )
            for name, way in WAYS.items()
        )
    )
    with campaign.running() as run:
        meddle(campaign)
        run.finish()
    return run


def meddle(campaign: SlurmCampaign) -> None:
    """Does to each job what its name tells."""
    cluster = campaign.cluster
    for name in ("limited", "lost_node", "back_again", "requeued"):
        campaign.wait_for_line(name)
    cluster.expire(campaign.id_in("limited", "RUNNING"))
    cluster.node_stop("n2")
    cluster.run("scontrol", "requeue", campaign.id_in("requeued", "RUNNING"))
    for name, node in (("given_up", "n3"), ("gives_way", "n4")):
        campaign.wait_for_line(name)
        cluster.submit("true", "-p", "urgent", "-w", node, "--exclusive")
    campaign.wait_for_line("stopped")
    campaign.cancel("stopped")
    campaign.cancel("held", "PENDING")
    no_log_dir = campaign.id_in("no_log_dir", "PENDING")
    shutil.rmtree(campaign.root / "logs" / "no_log_dir")
    cluster.run("scontrol", "release", no_log_dir)
    campaign.id_in("lost_node", "NODE_FAIL")
    cluster.node_start("n2")
    campaign.told("kill", campaign.session(), "never", "--yes")


@pytest.mark.parametrize("name", WAYS)
def test_each_end_is_told_as_what_it_is_and_each_run_has_its_own_records(
    played: Run, name: str
) -> None:
    job, way = played.jobs[name], WAYS[name]
    assert (end_of(job), job["attempts"]) == (way.end, 1)
    assert re.fullmatch(way.why, str(job["why"])), job["why"]
    begun = [one["run"] for one in played.campaign.records(name, "begin")]
    assert begun == list(range(way.runs))


def test_scripts_are_told_the_same_and_that_jobs_failed(played: Run) -> None:
    jobs, shown = played.jobs, played.campaign.shown()
    assert {
        name: {key: shown[name][key] for key in jobs[name]} for name in shown
    } == jobs
    assert played.process.returncode == 1


def test_what_will_never_start_is_said_in_words(played: Run) -> None:
    told = "never  depends on a job that failed: it will never start"
    assert told in played.err


def test_dependants_begin_after_the_further_run_ended(played: Run) -> None:
    campaign = played.campaign
    ends = [record["ended_at"] for record in campaign.records("requeued", "exit")]
    [began] = campaign.records("heir", "begin")
    assert began["began_at"] >= max(ends)


def test_a_job_above_its_memory_is_out_of_memory(
    cgroup_cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cgroup_cluster)
    takes = f'{sys.executable} -c "bytearray(200 << 20)"'
    greedy = Work("greedy", f"exec {takes}", {"mem": 30})
    tolerant = Work("tolerant", f"{takes}; exit 0", {"mem": 30})
    campaign.write(greedy, tolerant, Work("modest"))
    jobs = campaign.finish().jobs
    assert jobs["modest"]["state"] == "COMPLETED"
    assert end_of(jobs["greedy"]) == ("FAILED", "out_of_memory")
    assert jobs["greedy"]["why"].startswith("out of memory")
    [end] = campaign.records("tolerant", "exit")
    assert (end["exit_code"], end["oom_kills"]) == (0, 1)
    assert end_of(jobs["tolerant"]) == ("FAILED", "out_of_memory")


# ------------------------------------------------ what Slurm does not tell, or late
GO = "until [ -e ../../go ]; do sleep 0.1; done"
KILLED = (
    "echo 'slurmstepd: error: StepId=1.0 exceeded memory limit (9 > 8), being killed'; "
    "kill -KILL $$"
)


def test_a_bad_output_directory_fails_its_job_alone_and_a_text_tells_of_memory(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A job of an array has a file in its way; another one says that it is killed."""
    campaign = SlurmCampaign(tmp_path, cluster, {"array_size": 10})
    array = (Work(f"w{number}", stage="w") for number in range(4))
    campaign.write(*array, Work("greedy", KILLED))
    place = tmp_path / "out" / "w2"
    place.rmdir()
    place.write_text("in the way")
    jobs = campaign.finish().jobs
    assert end_of(jobs.pop("greedy")) == ("FAILED", "out_of_memory")
    good = dict.fromkeys(("w0", "w1", "w3"), "COMPLETED")
    states = {name: job["state"] for name, job in jobs.items()}
    assert states == {**good, "w2": "FAILED"}
    assert "cannot make the directory" in jobs["w2"]["why"]


def read_only(place: Path) -> None:
    for words in (["--bind", place, place], ["-o", "remount,ro,bind", place]):
        try:
            subprocess.run(["mount", *map(str, words)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("file systems cannot be mounted here")


def test_a_job_that_could_not_write_its_end_is_known_by_the_copy_it_left(
    cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cluster, {"record_patience_seconds": 12.0})
    campaign.write(Work("a", f"{GO}; exit 3"), Work("b", GO))
    with campaign.running() as run:
        for name in ("a", "b"):
            campaign.wait_for_line(name)
        place = campaign.attempt("a").parent.parent
        read_only(place)
        try:
            (tmp_path / "go").touch()
            jobs = run.finish(90)
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
    assert (jobs["a"]["state"], jobs["a"]["exit_code"]) == ("FAILED", 3)
    assert jobs["b"]["state"] == "COMPLETED"
    assert campaign.begun() == {"a": 1, "b": 1}
    assert not campaign.records("a", "exit")
