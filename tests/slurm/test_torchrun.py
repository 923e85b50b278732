"""torchrun on several nodes of a real cluster: one on each, meeting at the first.

A script stands in for torchrun: it leaves its words and the variables that torchrun
reads (`PET_*`).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path

import pytest

from tests.backends.backend_configs import launched, slurm
from tests.slurm.campaign import until
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


class Torchrun:
    """Jobs whose torchrun is a script that tells what it was given."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self._cluster = cluster
        self._place = place
        self.told_at = place / "told"
        self.told_at.mkdir()
        tool = place / "torchrun"
        tool.write_text(FAKE)
        tool.chmod(0o755)

    def submit(self, **env: str) -> str:
        """A job on two nodes; its id."""
        backend = {
            "class_name": "MegatronTorchrun", "script": "pretrain_gpt.py",
            "torchrun": {"nproc_per_node": 2},
            "megatron": {"lr": 1e-4, "save": "$x; y"},
        }  # fmt: skip
        command = launched(backend, slurm=slurm(nodes=2)).command
        given = {"PATH": f"{self._place}:{os.environ['PATH']}", **env}
        given |= {"TOLD": str(self.told_at)}
        lines = [f"export {name}={shlex.quote(text)}" for name, text in given.items()]
        script = "\n".join([*lines, f"exec {shlex.join(command)}"])
        return self._cluster.submit(script, "--nodes=2", "--ntasks-per-node=1")

    def told(self) -> dict[str, dict[str, object]]:
        """What each node was given."""
        files = (file for file in self.told_at.iterdir() if not file.suffix)
        return {file.name: json.loads(file.read_text()) for file in files}

    def asked(self, number: int) -> int:
        """How many nodes had time to end well after this signal."""
        return len(list(self.told_at.glob(f"*.{number}")))


@pytest.fixture
def torchrun(bare_cluster: Cluster, tmp_path: Path) -> Torchrun:
    return Torchrun(bare_cluster, tmp_path)


def test_each_node_has_one_and_all_meet_at_the_first(
    torchrun: Torchrun, bare_cluster: Cluster
) -> None:
    job = torchrun.submit()
    bare_cluster.wait_for_state(job, "COMPLETED")

    told = torchrun.told()
    first = sorted(told)[0]
    port = 10000 + int(job) % 20000
    assert len(told) == 2
    assert {one["PET_RDZV_ENDPOINT"] for one in told.values()} == {f"{first}:{port}"}
    assert {one["PET_RDZV_ID"] for one in told.values()} == {f"{job}.0"}
    assert {node: one["PET_NODE_RANK"] for node, one in told.items()} == {
        node: str(rank) for rank, node in enumerate(sorted(told))
    }
    assert told[first]["words"] == [
        "--nnodes", "2", "--nproc_per_node", "2", "--rdzv_backend", "c10d",
        "pretrain_gpt.py", "--lr", "0.0001", "--save", "$x; y",
    ]  # fmt: skip


def test_the_exit_code_of_a_node_is_the_jobs(
    torchrun: Torchrun, bare_cluster: Cluster
) -> None:
    job = torchrun.submit(ENDS="7")

    bare_cluster.wait_for_state(job, "FAILED")
    shown = bare_cluster.run("scontrol", "show", "job", job).stdout
    assert "ExitCode=7:0" in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_batch_script_reaches_every_node(
    number: signal.Signals, torchrun: Torchrun, bare_cluster: Cluster
) -> None:
    job = torchrun.submit(LASTS="100")
    until(lambda: len(torchrun.told()) == 2, "both nodes run")

    bare_cluster.run("scancel", "--batch", f"--signal={number.name}", job)

    until(lambda: torchrun.asked(number) == 2, "both have ended well")
