"""Ends on a real cluster that Slurm's own word does not tell, or tells late."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm.campaign import SlurmCampaign, Work, ended_after, jobs_of
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_ends")]

GO = "until [ -e ../../go ]; do sleep 0.1; done"
KILLED = (
    "echo 'slurmstepd: error: StepId=1.0 exceeded memory limit (9 > 8), being killed'; "
    "kill -KILL $$"
)


@dataclass(frozen=True, slots=True)
class Played:
    """A session that is over."""

    campaign: SlurmCampaign
    jobs: dict[str, dict[str, object]]
    said: str


@pytest.fixture(scope="module")
def played(
    accounted: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    """An array of which one job has a file in its way; and a kill for memory."""
    campaign = SlurmCampaign(
        tmp_path_factory.mktemp("ends"), accounted, {"array_size": 10}
    )
    array = [Work(f"w{number}", stage="w") for number in range(4)]
    campaign.write([*array, Work("greedy", KILLED)])
    place = campaign.root / "out" / "w2"
    place.rmdir()
    place.write_text("in the way")
    with ended_after(campaign.run()) as run:
        out, err = run.communicate(timeout=120)
    yield Played(campaign, jobs_of(out), err)
    accounted.clear()


def test_a_file_for_an_output_directory_fails_that_job_of_an_array_alone(
    played: Played,
) -> None:
    states = {
        name: job["state"] for name, job in played.jobs.items() if name != "greedy"
    }
    good = dict.fromkeys(("w0", "w1", "w3"), "COMPLETED")
    assert states == {**good, "w2": "FAILED"}, played.said
    assert "cannot make the directory" in str(played.jobs["w2"]["why"])


def test_a_kill_for_memory_without_cgroups_is_told_by_its_text(played: Played) -> None:
    greedy = played.jobs["greedy"]
    assert (greedy["state"], greedy["cause"]) == ("FAILED", "out_of_memory")


# ----------------------------------------------------------------- a disk of the node's
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
    campaign.write([Work("a", f"{GO}; exit 3"), Work("b", GO)])
    with ended_after(campaign.run()) as run:
        for name in ("a", "b"):
            campaign.wait_for_line(name)
        place = campaign.attempt("a").parent.parent
        read_only(place)
        try:
            (tmp_path / "go").touch()
            out, err = run.communicate(timeout=90)
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
    jobs = jobs_of(out)
    assert (jobs["a"]["state"], jobs["a"]["exit_code"]) == ("FAILED", 3), err
    assert jobs["b"]["state"] == "COMPLETED"
    assert campaign.begun() == {"a": 1, "b": 1}
    assert not campaign.records("a", "exit")


# ----------------------------------------------------------------------- exit 0 at once
def ended_at(campaign: SlurmCampaign, job: str) -> float:
    """When the engine recorded a job's end."""
    [part] = (campaign.state_dir / campaign.session()).glob("journal.[0-9]*.jsonl")
    events = map(json.loads, part.read_text().splitlines())
    ends = [one for one in events if one["type"] == "AttemptEnded"]
    return next(float(one["t"]) for one in ends if one["job"] == job)


def test_a_job_that_ended_well_is_completed_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cluster)
    campaign.write([Work("a", GO), Work("next", after=("a",))])
    with ended_after(campaign.run()) as run:
        campaign.wait_for_line("a")
        (tmp_path / "go").touch()
        campaign.wait_for_line("next")
        run.communicate(timeout=60)
    [end] = campaign.records("a", "exit")
    known = ended_at(campaign, "a")
    waited = known - float(str(end["ended_at"]))
    print(f"\nend to COMPLETED: {waited:.2f} s")
    assert end["oom_kills"] in (0, None)
    assert waited < 3.0
