"""Slurm's commands are run with a limit and a clean environment; nothing is left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.commands import ClusterCommands, build_environment
from tests.executors.wrapper_runs import until


def write(path: Path, text: str, mode: int = 0o755) -> None:
    """A script that stands for one of Slurm's programs."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)


@pytest.fixture
def commands(tmp_path: Path) -> ClusterCommands:
    return ClusterCommands({"PATH": f"{tmp_path}:/usr/bin:/bin"})


def test_what_it_says_and_how_it_ends_is_kept(
    tmp_path: Path, commands: ClusterCommands
) -> None:
    write(tmp_path / "sbatch", r'echo "51;c"; printf "\377 $1\n" >&2; exit 3')
    ran = commands.run(("sbatch", "a b"), 5)
    assert (ran.status, ran.stdout, ran.stderr) == (3, "51;c\n", "\ufffd a b\n")
    assert (ran.ok, ran.timed_out, ran.missing) == (False, False, "")
    assert ran.sent == "sbatch 'a b'"
    for name in ("sbatch", "squeue"):  # times are seconds for us, not for the jobs
        write(tmp_path / name, 'echo "${SLURM_TIME_FORMAT:-as the site has it}"')
    assert commands.run(("squeue",), 5).stdout == "%s\n"
    assert commands.run(("sbatch",), 5).stdout == "as the site has it\n"


def test_what_cannot_be_started_is_told_and_counted(
    tmp_path: Path, commands: ClusterCommands
) -> None:
    write(tmp_path / "squeue-here", "true", 0o644)
    for words in (("squeue-here",), ("squeue-here", "a\0b")):
        assert "cannot start squeue-here" in commands.run(words, 5).missing
    ran = commands.run(("sbatch-of-nowhere",), 5)
    assert "not on this machine's PATH" in ran.missing
    assert "slurm=local" in ran.missing
    assert not ran.timed_out


def test_one_that_does_not_end_is_ended_with_all_it_started(
    tmp_path: Path, commands: ClusterCommands
) -> None:
    write(tmp_path / "squeue", f"echo began; sleep 60 & echo $! > {tmp_path}/pid; wait")
    began = time.monotonic()
    ran = commands.run(("squeue",), 0.5)
    assert time.monotonic() - began < 30  # the child holds the pipes
    assert (ran.timed_out, ran.stdout) == (True, "began\n")
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    assert until(lambda: not child.exists() or child.read_bytes() == b"")  # a zombie


def test_a_job_s_own_settings_are_not_handed_on_to_the_jobs_it_submits() -> None:
    kept = {"SLURM_CONF": "/etc/slurm.conf", "PATH": "/bin", "HOME": "/h"}
    own = ("SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "SBATCH_PARTITION")
    mine = dict.fromkeys((*own, "SQUEUE_FORMAT", "SACCT_FORMAT"), "5")
    assert build_environment({**mine, **kept}) == kept
