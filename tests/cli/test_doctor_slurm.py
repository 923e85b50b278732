"""The doctor tells of a cluster what is there, and what mends what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from autoexp_tui.cli.doctor import Finding, examine_slurm
from autoexp_tui.executors.slurm.commands import Ran
from tests.executors.slurm_scripted import CONFIG, Answer, ScriptedCommands, says


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is on PATH; a test may take away from it."""
    found = {"sbatch", "squeue", "scancel", "scontrol", "sacct"}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in found else None)
    return found


def examined(
    place: Path, *, config: Answer | None = None, sacct: Answer | None = None
) -> dict[str, Finding]:
    def scontrol(words: object) -> Ran:
        asked = isinstance(words, tuple) and "nodes" in words
        if asked:
            return says("NodeName=n1 NodeHostName=elsewhere State=IDLE\n")
        return says(CONFIG)

    commands = ScriptedCommands(
        {"scontrol": config or scontrol, "sacct": sacct or says()}
    )
    return {one.what: one for one in examine_slurm(place, commands)}


def test_without_sbatch_jobs_run_here_and_nothing_is_missing(
    programs: set[str], tmp_path: Path
) -> None:
    programs.clear()
    found = examined(tmp_path)
    assert [one.grade for one in found.values()] == ["hint"]


def test_a_cluster_that_answers_is_told_with_its_version_limits_and_what_mends(
    programs: set[str], tmp_path: Path
) -> None:
    found = examined(tmp_path)
    assert found["slurm"].found == "the controller of elwe answers, 23.11.4"
    assert found["arrays"].found == "up to 1000 jobs an array (MaxArraySize)"
    assert found["accounting"].grade == "ok"
    assert not [one for one in found.values() if one.grade == "missing"]
    assert "USR1@120" in found["KillWait"].mend
    assert "srun -N1" in found["shared state"].mend


def test_commands_without_a_cluster_are_a_hint_with_the_next_step(
    programs: set[str], tmp_path: Path
) -> None:
    text = "scontrol: fatal: Could not establish a configuration source\n"
    found = examined(tmp_path, config=says(stderr=text, status=1))
    assert list(found) == ["slurm"]
    assert found["slurm"].grade == "hint"
    assert "SLURM_CONF" in found["slurm"].mend


def test_a_controller_that_hangs_is_told(programs: set[str], tmp_path: Path) -> None:
    found = examined(tmp_path, config=says(status=None))
    assert "did not answer within 10 s" in found["slurm"].found


def test_a_command_that_jobs_need_is_missing_where_a_controller_answers(
    programs: set[str], tmp_path: Path
) -> None:
    programs.discard("scancel")
    assert examined(tmp_path)["scancel"].grade == "missing"


def test_a_cluster_without_accounting_says_what_is_known_of_ended_jobs(
    programs: set[str], tmp_path: Path
) -> None:
    text = CONFIG.replace("accounting_storage/slurmdbd", "accounting_storage/none")
    found = examined(tmp_path, config=says(text.replace("300", "5")))
    assert "by their own records" in found["accounting"].found
    assert "MinJobAge=60" in found["MinJobAge"].mend


def test_an_accounting_that_is_down_is_a_hint(
    programs: set[str], tmp_path: Path
) -> None:
    down = says(stderr="sacct: error: Connection refused\n", status=1)
    found = examined(tmp_path, sacct=down)["accounting"]
    assert (found.grade, "Connection refused" in found.found) == ("hint", True)
