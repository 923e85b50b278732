"""One family first, then the rest: real processes, each of which leaves a line."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from tests.e2e.campaign import result_of, run_command

CONFIG = """
project:
  name: "lr{lr}_{stage}"
  base_output_dir: out
slurm:
  client: {class_name: LocalClient}
  log_dir: out/logs
lr: 1
code: 0
backend:
  class_name: Command
  command:
    - bash
    - -c
    - echo "$0" >> ledger.txt; exit "$1"
    - lr${lr}_${stage}
    - ${code}
sweep:
  type: product
  groups:
    - params:
        lr: [1, 2, 3]
    - type: list
      configs:
        - stage: train
        - stage: evaluate
          start_conditions:
            - class_name: SlurmStateCondition
              job_name: "{sibling.train.name}"
              state: COMPLETED
"""
pytestmark = pytest.mark.slow
FIRST = {"lr1_train": 1, "lr1_evaluate": 1}
ALL = {f"lr{lr}_{stage}": 1 for lr in (1, 2, 3) for stage in ("train", "evaluate")}


@dataclass(frozen=True, slots=True)
class Place:
    """A directory with a config of three families, two jobs each."""

    root: Path

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of ours, to its end."""
        xdg = str(self.root / "xdg")
        return run_command(self.root, command, *words, XDG_STATE_HOME=xdg)

    def begun(self) -> Counter[str]:
        """How often each job began, by its own word."""
        ledger = self.root / "ledger.txt"
        return Counter(ledger.read_text().split() if ledger.exists() else [])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tried.yaml").write_text(CONFIG)
    return Place(tmp_path)


def states(done: subprocess.CompletedProcess[str]) -> Counter[str]:
    """How many jobs `--json` tells in each state."""
    return Counter(str(job["state"]) for job in result_of(done.stdout).values())


def way_on(said: str) -> list[str]:
    """The options of the command that is told to go on with."""
    (told,) = re.findall(r"autoexp-run (--session .*--rest)", said)
    return shlex.split(told)


def test_one_family_goes_first_and_the_command_that_is_told_runs_the_rest(
    place: Place,
) -> None:
    first = place.run("run", "--config-ref", "tried", "--first-family")
    assert first.returncode == ExitCode.OK, first.stderr
    assert "4 jobs held. To submit the rest:" in first.stderr
    assert place.begun() == FIRST
    rest = place.run("run", *way_on(first.stderr), "--json")
    assert rest.returncode == ExitCode.OK, rest.stderr
    assert states(rest) == {"COMPLETED": 6}
    assert place.begun() == ALL


def test_a_submitted_family_is_followed_by_the_rest_of_its_session(
    place: Place,
) -> None:
    words = ("--config-ref", "tried", "--first-family")
    sent = place.run("submit", *words)
    assert sent.returncode == ExitCode.OK, sent.stderr
    # The second of the family may have followed the first before it is counted.
    counts = ("1 submitted, 1 waiting, 4 held", "2 submitted, 0 waiting, 4 held")
    assert sent.stdout.splitlines()[0].endswith(counts)
    rest = place.run("run", *way_on(sent.stdout), "--json")
    assert rest.returncode == ExitCode.OK, rest.stderr
    assert states(rest) == {"COMPLETED": 6}
    assert place.begun() == ALL
