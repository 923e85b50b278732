"""One job of a Slurm session runs beside, on the engine's host: Slurm never hears of
it, and it outlives an engine that is killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.campaign import wait_until
from tests.slurm.campaign import SlurmCampaign, Work, end_of
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


def test_a_job_beside_a_sweep_is_adopted_after_a_kill_and_takes_nothing_of_slurm(
    forgetful: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, forgetful, client={"array_size": 10})
    go = tmp_path / "go"
    waits = f"until [ -e {go} ]; do sleep 0.1; done"
    campaign.write(
        *(Work(f"sweep{n}", waits, stage="sweep") for n in range(3)),
        Work("call", waits, place="beside", stage="sweep"),
        Work("tries", "exit 3", place="beside", trial=True),
    )
    with campaign.running():
        for name in ("call", "tries", "sweep0", "sweep2"):
            campaign.wait_for_line(name)
    claim = json.loads((campaign.attempt("call") / "claim").read_text())
    os.kill(claim["process"]["pid"], 0)  # its supervisor outlives the engine
    queue = campaign.cluster.run("squeue", "-h", "-r", "-o", "%F").stdout.split()
    assert (len(queue), len({*queue})) == (3, 1)  # one array, and nothing else
    with campaign.running() as run:
        wait_until(lambda: campaign.events("EngineStarted") == 2, "a second engine")
        go.touch()
        jobs = run.finish()
    assert {name: end_of(job) for name, job in jobs.items()} == {
        **dict.fromkeys(("sweep0", "sweep1", "sweep2", "call"), ("COMPLETED", None)),
        "tries": ("FAILED", "exit_code"),
    }
    assert campaign.begun() == dict.fromkeys(jobs, 1)
    assert {job["attempts"] for job in jobs.values()} == {1}
    (begin,), (end,) = (campaign.records("call", kind) for kind in ("begin", "exit"))
    assert (begin["run"], end["exit_code"]) == (0, 0)
    assert run.process.returncode == 0  # a trial may fail
