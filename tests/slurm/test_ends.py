"""Ends on a real cluster that Slurm's own word does not tell, or tells late."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.slurm.campaign import SlurmCampaign, Work, end_of
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm_ends")]

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


def test_a_job_that_ended_well_is_completed_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    campaign = SlurmCampaign(tmp_path, cluster)
    campaign.write(Work("a", GO), Work("next", after=("a",)))
    with campaign.running() as run:
        campaign.wait_for_line("a")
        (tmp_path / "go").touch()
        campaign.wait_for_line("next")
        run.finish(60)
    [end] = campaign.records("a", "exit")
    [part] = campaign.session_dir.path.glob("journal.[0-9]*.jsonl")
    events = map(json.loads, part.read_text().splitlines())
    ends = [one for one in events if one["type"] == "AttemptEnded"]
    known = next(one["t"] for one in ends if one["job"] == "a")
    assert end["oom_kills"] in (0, None)
    assert known - end["ended_at"] < 3.0
