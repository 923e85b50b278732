"""A trainer's log plans an evaluation into the session that runs, for real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.engine.viewer import FoldedSession
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.session_dir import SessionDir

TRAIN = """
project: {name: train, base_output_dir: outputs}
backend: {class_name: Command, command: []}
slurm: {client: {class_name: LocalClient, slots: 4}, log_dir: logs}
monitoring:
  state_dir: state
  poll_seconds: 0.2
  log_events:
    - name: saved
      pattern: 'saved checkpoint (?P<n>[0-9]+) to (?P<path>.+)$'
      extract_groups: {iteration: n, checkpoint_path: path}
      stages: [train]
      actions:
        - class_name: RunAutoexpAction
          mode: now
          config_ref: evaluate
          overrides:
            - load={checkpoint_path}
            - project.name={name}_at_{iteration}
        - class_name: AppendToFileAction
          path: saved.txt
          text: "{iteration} {checkpoint_path}"
    - name: enough
      pattern: target reached
      pattern_type: substring
      actions: [{class_name: FinishAction, reason: good enough}]
  state_events:
    - name: listing
      state: success
      stages: [train]
      actions:
        - class_name: NewJobAction
          command: [cat, saved.txt]
          start_conditions:
            - {class_name: JobStateCondition, job_name: "{name}", state: COMPLETED}
            - {class_name: JobStateCondition, job_name: "{name}_at_7",
               state: COMPLETED, timeout_seconds: 30}
sweep:
  configs:
    - stage: train
      backend.command: [python3, work.py, "{output_dir}"]
"""
EVALUATE = """
project: {name: evaluation, base_output_dir: outputs}
load: ???
backend: {class_name: Command, command: [python3, evaluate.py, "${load}"]}
slurm: {log_dir: logs}
sweep: {configs: [{stage: evaluate}]}
"""
WORK = """
import pathlib, sys, time
place = pathlib.Path(sys.argv[1], "lr=1e-3, first")
place.mkdir()
(place / "weights").write_text("w")
print(f"saved checkpoint 7 to {place}", flush=True)
time.sleep(0.5)
print("target reached", flush=True)
time.sleep(600)
"""
EVALUATED = """
import pathlib, sys
print("evaluated", pathlib.Path(sys.argv[1], "weights").read_text(), sys.argv[1])
"""
Jobs = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    root: Path
    code: int
    session: SessionDir
    jobs: Jobs

    def log(self, job: str) -> str:
        return (self.root / "logs" / job / "current.log").read_text()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """What `autoexp-run --json` says in the end."""
    root = tmp_path_factory.mktemp("joining")
    (root / "config").mkdir()
    for name, text in {
        "config/train.yaml": TRAIN,
        "config/evaluate.yaml": EVALUATE,
        "work.py": WORK,
        "evaluate.py": EVALUATED,
    }.items():
        (root / name).write_text(text)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "autoexp_tui.cli.run",
            "--config-ref",
            "train",
            "--json",
        ],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=100,
        check=False,
    )
    assert run.stdout, run.stderr
    told = json.loads(run.stdout.strip().splitlines()[-1])
    jobs = {job["name"]: job for job in told["jobs"]}
    session = SessionDir(root / "state" / told["session"])
    return Ended(root, run.returncode, session, jobs)


def test_the_run_waits_for_all_that_joined(ended: Ended) -> None:
    states = {name: job["state"] for name, job in ended.jobs.items()}
    assert states == dict.fromkeys(
        ("train", "train_at_7", "train_listing"), "COMPLETED"
    )
    assert ended.code == 0


def test_the_evaluation_ran_on_the_checkpoint_of_the_log(ended: Ended) -> None:
    place = f"{ended.root}/outputs/train/lr=1e-3, first"
    assert f"evaluated w {place}" in ended.log("train_at_7")


def test_the_trainer_was_finished_by_its_own_log(ended: Ended) -> None:
    assert "good enough" in str(ended.jobs["train"]["why"])


def test_the_job_of_a_command_ran_when_the_others_were_done(ended: Ended) -> None:
    assert "7 /" in ended.log("train_listing")


def test_what_joined_says_where_it_came_from(ended: Ended) -> None:
    own = ended.root / "outputs" / "train_at_7" / "provenance"
    assert "load=" in (own / "overrides.txt").read_text()
    assert "load:" in (own / "resolved_config.yaml").read_text()


def test_who_reads_the_session_later_sees_all_plans_in_one(ended: Ended) -> None:
    folded = FoldedSession(load_state(ended.session).state)
    plan = folded.state.plan
    assert plan is not None
    assert sorted(job.name for job in plan.jobs) == sorted(ended.jobs)
    waits = [(edge.before, edge.after) for edge in plan.edges]
    assert ("train_at_7", "train_listing") in waits
