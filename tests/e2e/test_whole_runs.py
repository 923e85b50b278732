"""Whole runs of configs on real processes: one family first, again, what logs tell."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
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


def test_a_run_waits_for_all_that_joined_and_each_did_what_it_joined_for(
    tmp_path: Path,
) -> None:
    """The shipped example: what a log says plans an evaluation, a list, and the end."""
    short = ("train_iters=100000", "save_interval=500", "warmup_iters=5")
    goal = ("target_loss=9", "backend.args.eval_interval=500")
    words = ("--config-ref", "experiments/reacting", "--json", *short, *goal)
    run = run_command(tmp_path, "run", *words)
    assert run.returncode == 0, run.stderr
    jobs, out = result_of(run.stdout), tmp_path / "outputs/reacting"
    assert states_of(jobs) == {"COMPLETED"}
    stable = "lr3e-3_stable"
    assert {stable, f"{stable}_at_500", f"{stable}_listing"} <= set(jobs)
    assert "the loss is low enough" in jobs[stable]["why"]
    saved = out / stable / "checkpoints/iter_00000500"
    assert (out / stable / "saved.txt").read_text().startswith(f"500 {saved}\n")
    listed = (out / f"logs/{stable}_listing/current.log").read_text()
    assert saved.name in listed
    own = out / f"{stable}_at_500"
    found = json.loads((own / "results.json").read_text())
    assert found["checkpoint"] == str(saved)
    assert f"load={saved}" in (own / "provenance/overrides.txt").read_text()
    assert f"load: {saved}" in (own / "provenance/resolved_config.yaml").read_text()

    # Who reads the session later sees all plans in one.
    (session,) = find_sessions(tmp_path / "outputs/.autoexp")
    plan = load_state(session).state.plan
    assert plan is not None
    assert sorted(job.name for job in plan.jobs) == sorted(jobs)
