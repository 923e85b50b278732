"""The same pipelines once for real: processes of this machine, and the wall clock."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

JOBS = "test_lr1e-4_stable test_lr1e-4_cooldown test_lr5e-4_stable test_lr5e-4_cooldown"
CONFIG = """
project: {name: "test_lr{lr}_{stage}", base_output_dir: outputs}
lr: 1e-4
backend: {class_name: Command, command: []}
slurm: {client: {class_name: LocalClient, slots: 4}, log_dir: logs}
monitoring:
  state_dir: state
  poll_seconds: 0.2
  log_events:
    - name: checkpoint_saved
      pattern: 'saved checkpoint from iteration (?P<iteration>[0-9]+)'
      extract_groups: {checkpoint_iteration: iteration}
sweep:
  groups:
    - params: {lr: [1e-4, 5e-4]}
    - type: list
      configs:
        - stage: stable
          backend.command: [python3, work.py, "${lr}", "{output_dir}"]
        - stage: cooldown
          backend.command: [test, -f, "{sibling.stable.output_dir}/done.txt"]
          start_conditions:
            - class_name: FileExistsCondition
              path: "{sibling.stable.output_dir}/done.txt"
              timeout_seconds: 60
            - class_name: MetadataCondition
              key: "{runtime.{sibling.stable.name}.checkpoint_iteration}"
              equals: 1000
              timeout_seconds: 60
          cancel_conditions:
            - class_name: LogPatternCondition
              log_path: "{sibling.stable.log_path_current}"
              pattern: FATAL ERROR
"""
WORK = """
import pathlib, sys, time
lr, out = sys.argv[1:]
print("Starting training...", flush=True)
if float(lr) > 2e-4:
    print("FATAL ERROR: Out of memory", flush=True)
else:
    (pathlib.Path(out) / "done.txt").write_text("done")
    print("saved checkpoint from iteration 1000", flush=True)
time.sleep(1.5)
"""
Jobs = Mapping[str, Mapping[str, object]]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """What `autoexp-run --json` says of each job in the end."""
    root = tmp_path_factory.mktemp("real")
    (root / "config").mkdir()
    (root / "config" / "pipeline.yaml").write_text(CONFIG)
    work = root / "work.py"
    work.write_text(WORK)
    words = ["--config-ref", "pipeline", "--json", "--yes"]
    run = subprocess.run(
        [sys.executable, "-m", "autoexp_tui.cli.run", *words],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=60,
        check=False,
    )
    assert run.stdout, run.stderr
    jobs = json.loads(run.stdout.strip().splitlines()[-1])["jobs"]
    return {job["name"]: job for job in jobs}


def test_all_jobs_of_both_families_are_told(ended: Jobs) -> None:
    assert sorted(ended) == sorted(JOBS.split())


def test_a_cooldown_runs_on_what_its_stable_run_left(ended: Jobs) -> None:
    assert ended["test_lr1e-4_cooldown"]["state"] == "COMPLETED"


def test_a_fatal_line_cancels_the_other_familys_cooldown(ended: Jobs) -> None:
    cooldown = ended["test_lr5e-4_cooldown"]
    assert (cooldown["state"], cooldown["attempts"]) == ("CANCELLED", 0)


def test_the_reason_for_scripts_names_the_cancel_condition(ended: Jobs) -> None:
    cooldown = ended["test_lr5e-4_cooldown"]
    assert cooldown["cause"] == "cancel_condition"
    assert str(cooldown["why"]).startswith("cancel condition: the log says: FATAL")
