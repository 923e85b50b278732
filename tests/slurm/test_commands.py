"""The commands on a real cluster: whole campaigns, bad input, what is asked before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.model.specs import Scalar
from tests.e2e.campaign import result_of, run_command, wait_until
from tests.slurm.campaign import Run, SlurmCampaign, Work
from tests.slurm.cluster import HANGS, Cluster, fails

pytestmark = pytest.mark.slurm

SMALL = (
    *("--config-ref", "exp", "slurm=generic", "slurm.client.poll_seconds=2"),
    *("train_iters=400", "warmup_iters=20", "save_interval=80"),
    *("cooldown_from=320", "cooldown_checkpoint=iter_00000320"),
)
"""The default experiment, with a twenty-fifth of its steps."""
Ours = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Ours:
    """A command of ours beside the cluster, run to its end."""
    env: Any = {**cluster.env, "AUTOEXP_STATE_DIR": str(tmp_path / "state")}
    return partial(run_command, tmp_path, **env)


# ------------------------------------------------------------------- whole campaigns
@pytest.mark.parametrize("kind", ["cluster", "bare_cluster"])
def test_the_default_experiment_completes_with_and_without_accounting(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    words = (*SMALL, "--approve", "all", "--json")
    done = run_command(tmp_path, "run", *words, **request.getfixturevalue(kind).env)
    assert done.returncode == 0, done.stderr
    states = [job["state"] for job in result_of(done.stdout).values()]
    assert states == ["COMPLETED"] * 10
    assert (tmp_path / "outputs/exp/report/report.md").exists()


# ------------------------------------------------------------------------- bad input
USR1 = (
    "trap 'echo warned > warned; exit 0' USR1; for i in $(seq 600); do sleep 0.1; done"
)
TEMPLATE = """\
#!/bin/bash
# {job_name} logs to {log_dir}
#SBATCH --comment=from-a-template
export FROM_TEMPLATE={session}
exec {command}
"""
GOOD = (
    Work("good"),
    Work("template", 'test -n "$FROM_TEMPLATE"'),
    Work("mem", options={"mem": "32M"}),
    Work("gpus", 'test "$SLURM_GPUS" = 1', {"gpus": 1}),
    Work("exclude", 'test "$SLURMD_NODENAME" = n4', {"exclude": "n[1-3]"}),
    Work("requeue", options={"requeue": True}),
    Work("no-requeue", options={"no-requeue": True}),
    Work("dependency", options={"dependency": "afterany:1"}),
    Work("signal", USR1, {"signal": "USR1@60", "time": 1}),
)
BAD: dict[str, tuple[dict[str, Scalar], str, str]] = {
    "partition": ({"partition": "nope"}, "there is no partition `nope`", "sinfo -o %R"),
    "option": (
        {"frobnicate": 1},
        "sbatch here knows no option `frobnicate`",
        "null leaves it out",
    ),
    "large": (
        {"mem": "999G"},
        "no nodes of the default partition have all of that: mem 999G",
        "sinfo",
    ),
    "value": ({"mem": "lots"}, "sbatch cannot read the value of `mem`", "man sbatch"),
    "logs": ({}, "/logs/logs: cannot make", "move it away"),
}
"""What each asks for, what is said of it, and the next step."""


@pytest.fixture(scope="module")
def mixed(cluster_of_all: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run with a job for everything that a person may write."""
    root = tmp_path_factory.mktemp("mixed")
    (root / "job.sh").write_text(TEMPLATE)
    client = {"template_path": str(root / "job.sh")}
    campaign = SlurmCampaign(root, cluster_of_all, client)
    bad = (Work(name, options=options) for name, (options, _, _) in BAD.items())
    campaign.write(*GOOD, *bad)
    (root / "logs").mkdir(exist_ok=True)
    (root / "logs" / "logs").write_text("in the way of a directory")
    return campaign.finish(100)


def test_bad_jobs_fail_with_what_is_wrong_and_the_next_step_and_the_others_complete(
    mixed: Run,
) -> None:
    for name, (_, said, next_step) in BAD.items():
        job = mixed.jobs[name]
        assert job["state"] == "FAILED", name
        for words in (said, next_step, "Nothing was started"):
            assert words in job["why"], name
    for work in GOOD:
        job = mixed.jobs[work.name]
        assert job["state"] == "COMPLETED", job["why"]
    assert mixed.process.returncode == 1
    assert "Traceback" not in mixed.err
    assert not mixed.campaign.session_dir.engine_log.exists()


def test_a_signal_before_the_time_limit_reaches_the_command(mixed: Run) -> None:
    assert (mixed.campaign.root / "out" / "signal" / "warned").exists()


# ------------------------------------------------------------------- asked beforehand
def test_a_plan_is_told_when_it_would_start_or_which_option_would_be_refused(
    ours: Ours, cluster: Cluster
) -> None:
    done = ours("plan", *SMALL, "--check-cluster", "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["cluster"]["checks"]
    assert (one["verdict"], len(one["jobs"]), one["partition"]) == ("taken", 10, "main")
    assert one["starts_at"] > 1e9
    assert cluster.run("squeue", "-h").stdout == ""
    done = ours("plan", *SMALL, "--check-cluster", "slurm.sbatch.partition=nope")
    assert done.returncode == 3
    assert "✗ 10 jobs   would be refused: lr1e-3_stable" in done.stdout
    assert "there is no partition `nope` (slurm.sbatch.partition)" in done.stdout
    said = "slurm_load: Unable to contact slurm controller"
    with cluster.shim("scontrol", fails(said)):
        done = ours("plan", *SMALL, "--check-cluster")
    assert done.returncode == 5
    assert "Unable to contact slurm controller" in done.stderr


def test_the_doctor_looks_at_the_cluster_and_waits_for_no_controller_that_hangs(
    ours: Ours, cluster: Cluster
) -> None:
    found = {one["what"]: one for one in json.loads(ours("doctor", "--json").stdout)}
    assert "the controller of throwaway answers, " in found["slurm"]["found"]
    assert found["accounting"]["found"] == "sacct answers"
    assert "srun -N1" in found["shared state"]["mend"]
    with cluster.shim("scontrol", HANGS):
        done = ours("doctor")
    assert done.returncode == 0
    assert "did not answer within 10 s" in done.stdout


# ---------------------------------------------------------------- who may answer
def test_no_slurm_job_approves_and_a_person_in_salloc_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    """By the batch step, without its environment, and in a step on its own."""
    campaign = SlurmCampaign(tmp_path, cluster)
    # A job finds out the session's id by itself.
    session = f"$(basename $(dirname $(ls -d {campaign.state_dir}/*/lease)))"
    command = f"{sys.executable} -m autoexp_tui.cli.sessions approve"
    approve = f"{command} {session} --state-dir {campaign.state_dir}"
    bare, asked = "env -i PATH=$PATH", tmp_path / "asked"
    slurm = "SLURM_CONF=$SLURM_CONF SLURM_JOB_ID=$SLURM_JOB_ID"
    ways = {
        "plainly": approve,
        "bare": f"{bare} setsid -w {approve}",
        "step": f"{bare} {slurm} srun -n1 {approve}",
    }
    wait = f"until ls -d {asked} 2>/dev/null; do sleep 0.2; done; "
    works = (
        Work(name, f"{wait} {{ {text}; }} > {tmp_path / name} 2>&1")
        for name, text in ways.items()
    )
    campaign.write(Work("spend", asks="Spend 1000 GPU hours?"), *works)
    with campaign.running() as run:
        wait_until(lambda: campaign.events("ApprovalAsked"), "asked")
        asked.touch()
        for name in ways:
            wait_until(partial(campaign.records, name, "exit"), f"the end of {name}")
            assert "only a person may answer" in (tmp_path / name).read_text(), name
        assert campaign.events("ApprovalAnswered") == 0
        person = f"srun -n1 hostname && {approve}"
        cluster.run("salloc", "-n1", "bash", "-c", person, timeout_s=120)
        run.finish(90)
    assert campaign.events("ApprovalAnswered") == 1
    assert campaign.begun()["spend"] == 1


# --------------------------------------------------------------------------- growth
GROWING = """
project: {name: "n{n}_{stage}", base_output_dir: out}
n: 0
backend:
  class_name: Command
  command:
    [sh, -c, 'until [ -e "$1/go" ]; do sleep 0.2; done; echo "$0" >> "$1/ledger"',
     "${n}", %s]
slurm: {client: {class_name: SlurmClient, poll_seconds: 2}, log_dir: out/logs}
sweep:
  groups:
    - params: {n: [1, 2]}
    - configs:
        - stage: first
        - stage: then
          start_conditions:
            - {class_name: JobState, job_name: "{sibling.first.name}",
               state: COMPLETED, timeout_seconds: 600}
"""


def test_more_joins_a_session_whose_engine_runs_and_each_job_runs_once(
    ours: Ours, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/exp.yaml").write_text(GROWING % tmp_path)
    begun = ours("submit", "--detach", "--json")
    assert begun.returncode == 0, begun.stderr
    session = json.loads(begun.stdout)["session"]
    grown = ours("submit", "--session", session, "n=[1,2,3,4]", "--yes", "--json")
    assert grown.returncode == 0, grown.stderr
    told = json.loads(grown.stdout)
    assert (len(told["added"]), len(told["same"])) == (4, 4)
    (tmp_path / "go").touch()
    done = ours("monitor", "--session", session, "--json")
    states = [job["state"] for job in result_of(done.stdout).values()]
    assert states == ["COMPLETED"] * 8, done.stderr
    ran = sorted((tmp_path / "ledger").read_text().split())
    assert ran == ["1", "1", "2", "2", "3", "3", "4", "4"]
