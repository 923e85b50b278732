"""A trainer's log plans an evaluation into the session that runs, for real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.engine.viewer import FoldedSession
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import find_sessions
from tests.e2e.campaign import result_of, run_command

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
    run = run_command(root, "run", "--config-ref", "train", "--json")
    assert run.stdout, run.stderr
    (session,) = find_sessions(root / "state")
    return Ended(root, run.returncode, session, result_of(run.stdout))


def test_the_run_waits_for_all_that_joined(ended: Ended) -> None:
    states = {name: job["state"] for name, job in ended.jobs.items()}
    assert states == dict.fromkeys(
        ("train", "train_at_7", "train_listing"), "COMPLETED"
    )
    assert ended.code == 0


def test_each_did_what_it_joined_for(ended: Ended) -> None:
    place = f"{ended.root}/outputs/train/lr=1e-3, first"
    assert f"evaluated w {place}" in ended.log("train_at_7")
    assert "good enough" in str(ended.jobs["train"]["why"])
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
