"""Parameters that only the logs of other jobs tell, planned and run for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.config.config_trees import write_tree

LIMIT_SECONDS = 200.0
"""Far above what it takes; a busy machine is no fault of the product."""
EXP = r"""
defaults: [{slurm: local}, _self_]
project: {name: "{stage}", base_output_dir: out}
start: 5
path: ""
twice: "${oc.eval:${start} * 2}"
backend: {class_name: Command, command: [echo, "${start}", "${twice}", "${path}"]}
slurm: {client: {slots: 64}}
monitoring:
  state_dir: state
  log_events:
    - name: saved
      pattern: "saved (?P<where>\\S+) at (?P<at>\\d+)"
      pattern_type: regex
      extract_groups: {ckpt: where, at: at}
sweep:
  configs:
    - {stage: stable, backend.command: [echo, "saved /ck/a at 40"]}
    - stage: cool
      path: "{sibling.stable.metadata.ckpt}/x"
      start: "{runtime.{sibling.stable.name}.at}"
"""


def test_jobs_run_with_what_the_logs_of_others_have_told(tmp_path: Path) -> None:
    write_tree(tmp_path / "config", exp=EXP)
    command = ["-m", "autoexp_tui.cli.run", "--config-ref", "exp", "--json"]
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    told = {one["name"]: one["state"] for one in json.loads(ran.stdout)["jobs"]}
    log = (tmp_path / "out/logs/cool/current.log").read_text()

    assert told == {"stable": "COMPLETED", "cool": "COMPLETED"}
    assert log.strip() == "40 80 /ck/a/x"
