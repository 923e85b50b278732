"""What srun and torchrun start on nodes of a real cluster: who meets, who is asked."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.executors.slurm.script import with_grace
from tests.backends.backend_configs import launched, slurm
from tests.e2e.campaign import wait_until
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm

FAKE = """\
#!/usr/bin/env python3
import json, os, signal, sys, time
def asked(number, _):
    time.sleep(0.5)  # saving
    open(os.path.join(os.environ["TOLD"], node + "." + str(number)), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, asked)
signal.signal(signal.SIGUSR1, asked)
told = {name: os.environ.get(name, "") for name in os.environ if name[:4] == "PET_"}
told["words"] = sys.argv[1:]
told["cpus"] = len(os.sched_getaffinity(0))
node = os.environ["SLURMD_NODENAME"]
with open(os.path.join(os.environ["TOLD"], node + ".tmp"), "w") as file:
    json.dump(told, file)
os.rename(file.name, file.name[:-4])
time.sleep(float(os.environ.get("LASTS", "0")))
while len([name for name in os.listdir(os.environ["TOLD"]) if "." not in name]) < 2:
    time.sleep(0.05)  # one that fails ends the others, which may not have begun
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os._exit(int(os.environ.get("ENDS", "0")))
"""
"""Stands in for torchrun: leaves its words and the variables that torchrun reads."""
TASK = """\
trap 'sleep 0.5; touch "$TOLD/saved.$me"; exit 0' TERM
touch "$TOLD/up.$me"
while :; do sleep 0.2; done"""
"""Saves when it is asked, which takes its time."""
OF_A_NODE = f"me=$SLURM_PROCID\n{TASK}"
OF_AN_ARRAY = f"me=$SLURM_ARRAY_TASK_ID.$SLURM_JOB_ID\n{TASK}"


def submit(
    cluster: Cluster, command: Sequence[str], options: Sequence[str], **env: str
) -> str:
    """A job whose script becomes the command, as behind a user's launcher; its id."""
    lines = [f"export {name}={shlex.quote(text)}" for name, text in env.items()]
    return cluster.submit("\n".join([*lines, f"exec {shlex.join(command)}"]), *options)


# ----------------------------------------------------------------------------- torchrun
class Torchrun:
    """Jobs whose torchrun is a script that tells what it was given."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster = cluster
        self.env = {"PATH": f"{place}:{os.environ['PATH']}", "TOLD": f"{place}/told"}
        self.told_at = place / "told"
        self.told_at.mkdir()
        (place / "torchrun").write_text(FAKE)
        (place / "torchrun").chmod(0o755)

    def submit(self, **env: str) -> str:
        """A job on two nodes; its id."""
        backend = {
            "class_name": "MegatronTorchrun",
            "script": "pretrain_gpt.py",
            "torchrun": {"nproc_per_node": 2},
            "megatron": {"lr": 1e-4, "save": "$x; y"},
        }
        command = launched(backend, slurm=slurm(nodes=2)).command
        options = ("--nodes=2", "--ntasks-per-node=1")
        return submit(self.cluster, command, options, **self.env, **env)

    def told(self) -> dict[str, dict[str, Any]]:
        """What each node was given."""
        files = (file for file in self.told_at.iterdir() if not file.suffix)
        return {file.name: json.loads(file.read_text()) for file in files}


@pytest.fixture
def torchrun(bare_cluster: Cluster, tmp_path: Path) -> Torchrun:
    return Torchrun(bare_cluster, tmp_path)


def test_each_node_has_one_and_all_meet_at_the_first(torchrun: Torchrun) -> None:
    job = torchrun.submit()
    torchrun.cluster.wait_for_state(job, "COMPLETED")
    told = torchrun.told()
    first, second = sorted(told)
    port = 10000 + int(job) % 20000
    assert {one["PET_RDZV_ENDPOINT"] for one in told.values()} == {f"{first}:{port}"}
    assert {one["PET_RDZV_ID"] for one in told.values()} == {f"{job}.0"}
    assert [told[name]["PET_NODE_RANK"] for name in (first, second)] == ["0", "1"]
    assert told[first]["words"] == [
        *("--nnodes", "2", "--nproc_per_node", "2", "--rdzv_backend", "c10d"),
        *("pretrain_gpt.py", "--lr", "0.0001", "--save", "$x; y"),
    ]


def test_the_exit_code_of_a_node_is_the_jobs(torchrun: Torchrun) -> None:
    job = torchrun.submit(ENDS="7")
    torchrun.cluster.wait_for_state(job, "FAILED")
    shown = torchrun.cluster.run("scontrol", "show", "job", job).stdout
    assert "ExitCode=7:0" in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_batch_script_reaches_every_node(
    number: signal.Signals, torchrun: Torchrun
) -> None:
    job = torchrun.submit(LASTS="100")
    wait_until(lambda: len(torchrun.told()) == 2, "the run of both nodes")
    torchrun.cluster.run("scancel", "--batch", f"--signal={number.name}", job)
    ended_well = f"*.{int(number)}"
    wait_until(lambda: len(list(torchrun.told_at.glob(ended_well))) == 2, "both ends")


# ------------------------------------------------------------------------ srun's tasks
def who_said(place: Path, word: str) -> list[str]:
    return sorted(file.name.partition(".")[2] for file in place.glob(f"{word}.*"))


def submit_tasks(cluster: Cluster, place: Path, task: str, *options: str) -> str:
    """Two tasks that run; the job's id."""
    command = with_grace(("srun", "sh", "-c", task))
    env = {"TOLD": str(place), "PATH": os.environ["PATH"]}
    job = submit(cluster, command, options, **env)
    wait_until(lambda: len(who_said(place, "up")) == 2, "the run of both tasks")
    return job


def test_all_tasks_have_time_to_save(bare_cluster: Cluster, tmp_path: Path) -> None:
    options = ("--nodes=2", "--ntasks=2")
    job = submit_tasks(bare_cluster, tmp_path, OF_A_NODE, *options)
    bare_cluster.run("scancel", "--batch", "--signal=TERM", job)
    bare_cluster.wait_for_state(job, "COMPLETED")
    assert who_said(tmp_path, "saved") == ["0", "1"]


def test_of_an_array_only_the_one_is_asked(
    bare_cluster: Cluster, tmp_path: Path
) -> None:
    array = submit_tasks(bare_cluster, tmp_path, OF_AN_ARRAY, "--array=0-1")
    # One task of an array goes by the array's own id.
    (alike,) = [me for me in who_said(tmp_path, "up") if me.endswith(f".{array}")]
    index = int(alike.partition(".")[0])
    bare_cluster.run("scancel", "--batch", "--signal=TERM", f"{array}_{index}")
    bare_cluster.wait_for_state(f"{array}_{index}", "COMPLETED")
    assert who_said(tmp_path, "saved") == [alike]
    assert bare_cluster.state_of(f"{array}_{1 - index}") == "RUNNING"
