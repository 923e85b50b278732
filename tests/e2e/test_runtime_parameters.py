"""Parameters that only the logs of other jobs tell, planned and run for real."""

from __future__ import annotations

from pathlib import Path

from tests.config.config_trees import write_tree
from tests.e2e.campaign import result_of, run_command

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
    ran = run_command(tmp_path, "run", "--config-ref", "exp", "--json")
    states = {name: job["state"] for name, job in result_of(ran.stdout).items()}
    log = (tmp_path / "out/logs/cool/current.log").read_text()

    assert states == {"stable": "COMPLETED", "cool": "COMPLETED"}
    assert log.strip() == "40 80 /ck/a/x"
