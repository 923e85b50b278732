"""The commands on a real cluster: whole campaigns, bad input, what is asked before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.campaign import SlurmCampaign, Work, jobs_of
from tests.slurm.cluster import Cluster
from tests.slurm.shims import hangs

pytestmark = pytest.mark.slurm

SMALL = (
    "--config-ref",
    "exp",
    "slurm=generic",
    "slurm.client.poll_seconds=2",
    "train_iters=400",
    "warmup_iters=20",
    "save_interval=80",
    "cooldown_from=320",
    "cooldown_checkpoint=iter_00000320",
)
"""The default experiment, with a twenty-fifth of its steps."""


def ours(
    command: str, *arguments: str, env: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """A command of ours, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", f"autoexp_tui.cli.{command}", *arguments],
        env=dict(env) | {"AUTOEXP_STATE_DIR": str(cwd / "state")},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# ------------------------------------------------------------------- whole campaigns
@pytest.mark.parametrize("kind", ["accounted", "bare"])
def test_the_default_experiment_completes_with_and_without_accounting(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    cluster: Cluster = request.getfixturevalue(kind)
    done = ours(
        "run", *SMALL, "--approve", "all", "--json", env=cluster.env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    states = [job["state"] for job in json.loads(done.stdout)["jobs"]]
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


@dataclass(frozen=True, slots=True)
class Ran:
    """A campaign of good and bad jobs, run to its end."""

    code: int
    err: str
    jobs: dict[str, dict[str, object]]
    root: Path

    def why(self, job: str) -> str:
        return str(self.jobs[job]["why"])


@pytest.fixture(scope="module")
def mixed(
    accounted: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ran]:
    """One run with a job for everything that a person may write."""
    root = tmp_path_factory.mktemp("mixed")
    template = root / "job.sh"
    template.write_text(TEMPLATE)
    client = {"template_path": str(template)}
    campaign = SlurmCampaign(root, accounted, client)
    campaign.write(
        [
            Work("good"),
            Work("partition", options={"partition": "nope"}),
            Work("option", options={"frobnicate": 1}),
            Work("large", options={"mem": "999G"}),
            Work("value", options={"mem": "lots"}),
            Work("logs"),
            Work("template", script='test -n "$FROM_TEMPLATE"'),
            Work("mem", options={"mem": "32M"}),
            Work("gpus", script='test "$SLURM_GPUS" = 1', options={"gpus": 1}),
            Work(
                "exclude",
                script='test "$SLURMD_NODENAME" = n4',
                options={"exclude": "n[1-3]"},
            ),
            Work("requeue", options={"requeue": True}),
            Work("no-requeue", options={"no-requeue": True}),
            Work("dependency", options={"dependency": "afterany:1"}),
            Work("signal", script=USR1, options={"signal": "USR1@60", "time": 1}),
        ]
    )
    in_the_way(root / "logs" / "logs")
    process = campaign.run()
    try:
        out, err = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    assert out, err
    yield Ran(process.returncode, err, jobs_of(out), root)
    accounted.clear()


def in_the_way(path: Path) -> None:
    """A file where a directory should be made."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("")


BAD = {
    "partition": ("there is no partition `nope`", "sinfo -o %R"),
    "option": ("sbatch here knows no option `frobnicate`", "null leaves it out"),
    "large": ("no node of the default partition has that much memory", "sinfo"),
    "value": ("sbatch cannot read the value of `mem`", "man sbatch"),
    "logs": ("/logs/logs: cannot make", "move it away"),
}
GOOD = (
    "good",
    "template",
    "mem",
    "gpus",
    "exclude",
    "requeue",
    "no-requeue",
    "dependency",
    "signal",
)


@pytest.mark.parametrize("job", BAD)
def test_a_bad_job_fails_and_says_what_is_wrong_and_the_next_step(
    mixed: Ran, job: str
) -> None:
    assert mixed.jobs[job]["state"] == "FAILED"
    for words in BAD[job]:
        assert words in mixed.why(job)
    assert "Nothing was started" in mixed.why(job)


@pytest.mark.parametrize("job", GOOD)
def test_the_other_jobs_of_that_run_complete(mixed: Ran, job: str) -> None:
    assert mixed.jobs[job]["state"] == "COMPLETED", mixed.why(job)


def test_a_run_with_bad_jobs_says_so_by_its_exit_code_and_without_a_traceback(
    mixed: Ran,
) -> None:
    assert mixed.code == 1
    assert "Traceback" not in mixed.err
    assert not list(mixed.root.glob("state/*/engine.log"))


def test_a_signal_before_the_time_limit_reaches_the_command(mixed: Ran) -> None:
    assert (mixed.root / "out" / "signal" / "warned").exists()


def test_an_output_directory_that_cannot_be_made_is_told_of_each_job(
    cluster: Cluster, tmp_path: Path
) -> None:
    place = "project.base_output_dir=/proc/nowhere"
    done = ours("run", *SMALL, place, "--json", env=cluster.env, cwd=tmp_path)
    assert done.returncode == 1
    stable = jobs_of(done.stdout)["lr5e-3_stable"]
    assert "/proc/nowhere/lr5e-3_stable/.autoexp: cannot make" in str(stable["why"])


def test_a_template_that_is_gone_is_told_before_anything_runs(
    cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cluster, {"template_path": "/nowhere/job.sh"})
    campaign.write([Work("a")])
    process = campaign.run()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "cannot read /nowhere/job.sh" in err
    assert not campaign.begun()


def test_without_sbatch_on_path_each_job_says_so_and_what_mends_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cluster)
    campaign.write([Work("a"), Work("b")])
    done = ours(
        "run",
        "--manifest",
        str(campaign.manifest),
        "--json",
        env=cluster.env | {"PATH": "/nowhere"},
        cwd=tmp_path,
    )
    assert done.returncode == 1
    for job in jobs_of(done.stdout).values():
        assert "sbatch is not on this machine's PATH" in str(job["why"])
        assert "module load slurm" in str(job["why"])


def test_a_state_that_nobody_knows_is_alive_until_its_records_say_otherwise(
    cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cluster)
    campaign.write([Work("a", script="sleep 3")])
    dreams = '"$REAL" "$@" | sed -E "s/[|](PENDING|RUNNING)[|]/|DREAMING|/"\n'
    with cluster.shim("squeue", dreams):
        process = campaign.run()
        out, _ = process.communicate(timeout=60)
    assert jobs_of(out)["a"]["state"] == "COMPLETED"
    assert campaign.begun() == {"a": 1}


# ------------------------------------------------------------------- asked beforehand
def check(
    cluster: Cluster, place: Path, *overrides: str
) -> subprocess.CompletedProcess[str]:
    return ours(
        "plan", *SMALL, "--check-cluster", *overrides, env=cluster.env, cwd=place
    )


def test_a_plan_that_fits_is_told_when_it_would_start(
    cluster: Cluster, tmp_path: Path
) -> None:
    done = check(cluster, tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["cluster"]["checks"]
    assert (one["verdict"], len(one["jobs"]), one["partition"]) == ("taken", 10, "main")
    assert one["starts_at"] > 1e9
    assert cluster.run("squeue", "-h").stdout == ""


def test_a_plan_that_would_be_refused_is_told_with_the_option(
    cluster: Cluster, tmp_path: Path
) -> None:
    done = check(cluster, tmp_path, "slurm.sbatch.partition=nope")
    assert done.returncode == 3
    assert "✗ 10 jobs   would be refused: lr1e-3_stable" in done.stdout
    assert "slurm.sbatch.partition: there is no partition `nope`" in done.stdout


def test_without_a_cluster_the_check_says_so(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.shim(
        "scontrol",
        'echo "slurm_load: Unable to contact slurm controller" >&2; exit 1\n',
    ):
        done = check(cluster, tmp_path)
    assert done.returncode == 5
    assert "Unable to contact slurm controller" in done.stderr


def test_the_doctor_looks_at_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    done = ours("doctor", "--json", env=cluster.env, cwd=tmp_path)
    found = {one["what"]: one for one in json.loads(done.stdout)}
    assert "the controller of throwaway answers, " in found["slurm"]["found"]
    assert found["accounting"]["found"] == "sacct answers"
    assert "srun -N1" in found["shared state"]["mend"]


def test_the_doctor_is_not_kept_by_a_controller_that_hangs(
    cluster: Cluster, tmp_path: Path
) -> None:
    with cluster.shim("scontrol", hangs(60)):
        done = ours("doctor", env=cluster.env, cwd=tmp_path)
    assert done.returncode == 0
    assert "the controller did not answer within 10 s" in done.stdout
