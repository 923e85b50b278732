"""Who may answer on a cluster: no job, in whichever way; a person in an allocation."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.campaign import wait_until
from tests.slurm.campaign import SlurmCampaign, Work
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


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
