"""Who may answer on a cluster: no job, in whichever way; a person in an allocation."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.slurm.campaign import SlurmCampaign, Work, ended_after, until
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


def approving(campaign: SlurmCampaign) -> str:
    """The command, for a job that finds out the session's id by itself."""
    session = f"$(basename $(dirname $(ls -d {campaign.state_dir}/*/lease)))"
    command = f"{sys.executable} -m autoexp_tui.cli.sessions approve"
    return f"{command} {session} --state-dir {campaign.state_dir}"


def test_no_slurm_job_approves_and_a_person_in_salloc_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    """By the batch step, without its environment, and in a step on its own."""
    campaign = SlurmCampaign(tmp_path, cluster)
    approve = approving(campaign)
    wait = "until ls -d $ASKED 2>/dev/null; do sleep 0.2; done; "
    works = {
        "plainly": approve,
        "bare": f"env -i PATH=$PATH setsid -w {approve}",
        "step": f"env -i PATH=$PATH SLURM_CONF=$SLURM_CONF "
        f"SLURM_JOB_ID=$SLURM_JOB_ID srun -n1 {approve}",
    }
    asked = tmp_path / "asked"
    campaign.write(
        [
            Work("spend", asks="Spend 1000 GPU hours?"),
            *(
                Work(
                    name,
                    f"ASKED={asked}; {wait} {{ {text}; }} > {tmp_path / name} 2>&1",
                )
                for name, text in works.items()
            ),
        ]
    )
    with ended_after(campaign.run()) as run:
        until(lambda: campaign.session() and campaign.events("ApprovalAsked"), "asked")
        asked.touch()
        for name in works:
            until(partial(campaign.records, name, "exit"), f"{name} ended")
            said = (tmp_path / name).read_text()
            assert "only a person may answer" in said, name
        assert campaign.events("ApprovalAnswered") == 0
        person = subprocess.run(
            ["salloc", "-n1", "bash", "-c", f"srun -n1 hostname && {approve}"],
            env=cluster.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert person.returncode == 0, person.stderr
        run.wait(90)
    assert campaign.events("ApprovalAnswered") == 1
    assert campaign.begun()["spend"] == 1
