"""Whole runs of configs on real processes: one family first, again, what logs tell."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.engine.live import FoldedSession
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.sessions import find_sessions
from tests.e2e.campaign import Jobs, result_of, run_command, states_of, write_files

FAMILIES = """
project: {name: "lr{lr}_{stage}", base_output_dir: out}
slurm: {client: {class_name: LocalClient}, log_dir: out/logs}
lr: 1
backend:
  class_name: Command
  command: [bash, -c, 'echo "$0" >> ledger.txt', "lr${lr}_${stage}"]
sweep:
  type: product
  groups:
    - params: {lr: [1, 2, 3]}
    - type: list
      configs:
        - stage: train
        - stage: evaluate
          start_conditions:
            - class_name: SlurmStateCondition
              job_name: "{sibling.train.name}"
              state: COMPLETED
"""
FIRST = {"lr1_train": 1, "lr1_evaluate": 1}
ALL = {f"lr{lr}_{stage}": 1 for lr in (1, 2, 3) for stage in ("train", "evaluate")}


@pytest.mark.parametrize("command", ["run", "submit"])
def test_one_family_goes_first_and_the_command_that_is_told_runs_the_rest(
    tmp_path: Path, command: str
) -> None:
    write_files(tmp_path, {"config/tried.yaml": FAMILIES})
    xdg, ledger = str(tmp_path / "xdg"), tmp_path / "ledger.txt"

    def call(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        done = run_command(tmp_path, name, *words, XDG_STATE_HOME=xdg)
        assert done.returncode == ExitCode.OK, done.stderr
        return done

    first = call(command, "--config-ref", "tried", "--first-family")
    if command == "run":
        assert "4 jobs held. To submit the rest:" in first.stderr
        assert Counter(ledger.read_text().split()) == FIRST
    else:
        # The second of the family may have followed the first before it is counted.
        counts = ("1 submitted, 1 waiting, 4 held", "2 submitted, 0 waiting, 4 held")
        assert first.stdout.splitlines()[0].endswith(counts)
    said = first.stdout + first.stderr
    (way_on,) = re.findall(r"autoexp-run (--session .*--rest)", said)
    rest = result_of(call("run", *shlex.split(way_on), "--json").stdout)
    assert (states_of(rest), len(rest)) == ({"COMPLETED"}, 6)
    assert Counter(ledger.read_text().split()) == ALL


SHORT = (
    *("train_iters=200", "warmup_iters=10", "save_interval=100", "cooldown_from=100"),
    "cooldown_checkpoint=iter_00000100",
)


def test_the_default_experiment_run_twice_starts_nothing_the_second_time(
    tmp_path: Path,
) -> None:
    def run(*words: str) -> Jobs:
        words = ("--config-ref", "exp", "--approve", "all", "--json", *words, *SHORT)
        xdg = str(tmp_path / "xdg")
        done = run_command(tmp_path, "run", *words, XDG_STATE_HOME=xdg)
        assert done.returncode == 0, done.stderr
        return result_of(done.stdout)

    def attempts() -> int:
        """How many any session has records of."""
        return len(list(tmp_path.glob("outputs/.autoexp/*/attempts/*/*")))

    assert (len(run()), attempts()) == (10, 10)
    second = run()
    assert states_of(second) == {"COMPLETED"}
    assert {job["attempts"] for job in second.values()} == {0}
    assert attempts() == 10
    assert {job["attempts"] for job in run("clip_grad=0.5").values()} == {1}


TOLD = r"""
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
    write_files(tmp_path, {"config/told.yaml": TOLD})
    jobs = result_of(run_command(tmp_path, "run", "--config-ref=told", "--json").stdout)
    assert set(jobs) == {"stable", "cool"}
    assert states_of(jobs) == {"COMPLETED"}
    log = (tmp_path / "out/logs/cool/current.log").read_text()
    assert log.strip() == "40 80 /ck/a/x"


# ---------------------------------------------- a log plans into the session that runs
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


def test_a_run_waits_for_all_that_joined_and_each_did_what_it_joined_for(
    tmp_path: Path,
) -> None:
    configs = {"config/train.yaml": TRAIN, "config/evaluate.yaml": EVALUATE}
    write_files(tmp_path, {**configs, "work.py": WORK, "evaluate.py": EVALUATED})
    run = run_command(tmp_path, "run", "--config-ref", "train", "--json")
    assert run.returncode == 0, run.stderr
    jobs = result_of(run.stdout)
    assert set(jobs) == {"train", "train_at_7", "train_listing"}
    assert states_of(jobs) == {"COMPLETED"}
    log = {name: (tmp_path / f"logs/{name}/current.log").read_text() for name in jobs}
    place = f"{tmp_path}/outputs/train/lr=1e-3, first"
    assert f"evaluated w {place}" in log["train_at_7"]
    assert "good enough" in jobs["train"]["why"]
    assert "7 /" in log["train_listing"]
    own = tmp_path / "outputs/train_at_7/provenance"
    assert "load=" in (own / "overrides.txt").read_text()
    assert "load:" in (own / "resolved_config.yaml").read_text()

    # Who reads the session later sees all plans in one.
    (session,) = find_sessions(tmp_path / "state")
    plan = FoldedSession(load_state(session).state).state.plan
    assert plan is not None
    assert sorted(job.name for job in plan.jobs) == sorted(jobs)
    waits = [(edge.before, edge.after) for edge in plan.edges]
    assert ("train_at_7", "train_listing") in waits
