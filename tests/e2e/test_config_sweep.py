"""A plan of ours as the measurement of candidates: two stages, a condition, a run that
diverges."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.campaign import run_command

SWEEP = """
# @package _global_
defaults: [{/backend: command}, _self_]
project: {name: "${what}_${part}", base_output_dir: outputs}
slurm: {client: {class_name: LocalClient}}
what: train
part: 1
backend: {command: []}
monitoring: {anomalies: {nan: kill}}
sweep:
  type: product
  defaults:
    backend.command: [python, run.py, "${what}", "${part}", "{output_dir}"]
  groups:
    - params: {part: [1, 2]}
    - type: list
      configs:
        - {stage: train, what: train}
        - stage: judge
          what: judge
          start_conditions:
            - class_name: SlurmStateCondition
              job_name: "{sibling.train.name}"
              state: COMPLETED
"""
RUN = """
import json, pathlib, sys, time
what, part, out = sys.argv[1:]
known = pathlib.Path(out).parent / f"{pathlib.Path(out).name.replace(what, 'train')}"
if what == "train":
    gain = float(open("gain.txt").read())
    loss = float("nan") if gain > 2 and part == "2" else 3 - gain
    for step in range(1, 400 if loss != loss else 3):
        print(json.dumps({"step": step, "loss": loss}), flush=True)
        time.sleep(0.05)
    (known / "gain").write_text(str(gain))
else:
    gain = float((known / "gain").read_text())
    print(json.dumps({"step": 1, "score": gain * int(part)}), flush=True)
"""
SEARCH = """
# @package _global_
project: {name: search, base_output_dir: outputs}
slurm: {client: {class_name: LocalClient}}
agents: {edit: {backend: command, command: [sh, -c, "sed -n 's/^gain //p' > gain.txt"]}}
tree:
  max_depth: 1
  beam_width: 2
  ideas_per_node: 2
  max_parallel_evals: 2
  sweep_config_limit: 2
  ideas: {dir: ideas}
  implement: {agent: edit, review_rounds: 0}
  evaluate: {config_ref: measure, stage: judge}
  metrics: [score]
"""
FILES = {
    "config/measure.yaml": SWEEP,
    "config/search.yaml": SEARCH,
    "run.py": RUN,
    "gain.txt": "1\n",
    ".gitignore": "outputs\n",
    "ideas/1.md": "# Two\n\ngain 2\n",
    "ideas/2.md": "# Three, which diverges\n\ngain 3\n",
}


def find_tree(place: Path) -> Path:
    (found,) = (place / "outputs/.autoexp").glob("*/tree")
    return found


def read_rows(path: Path) -> list[Mapping[str, str]]:
    with path.open(newline="") as file:
        return [*csv.DictReader(file)]


def search(
    place: Path, *words: str, files: Mapping[str, str] = FILES
) -> dict[str, Any]:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for step in (("init", "-q"), ("add", "."), ("commit", "-qm", "root")):
        subprocess.run([*git, *step], cwd=place, check=True)
    done = run_command(place, "tree", "--config-ref", "search", "--json", *words)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.slow
def test_a_plan_measures_candidates_and_a_run_that_diverges_closes_the_gate(
    tmp_path: Path,
) -> None:
    told = search(tmp_path)
    tree = find_tree(tmp_path)
    assert (told["evaluations"], told["stopped"]) == (2, "max_depth_reached")
    assert told["best"]["chain"] == ["Two"]
    scores = [row["score"] for row in read_rows(tree / "artifacts/e1.csv")]
    assert [*map(float, scores)] == [2.0, 4.0]
    first, second = read_rows(tree / "artifacts/e2.csv")
    assert (first["status"], float(first["score"])) == ("ok", 3.0)
    assert (second["status"][:7], second["score"]) == ("skipped", "")
    search_of = json.loads((tree / "manifest.json").read_text())["search"]
    reason = search_of["evaluations"]["e2"]["decision"]["gate_reason"]
    assert reason == "incomplete_or_failed_rows"
    ended = run_command(tmp_path, "sessions", "show", "--json", told["session"])
    assert "e2_train_2" in ended.stdout
    for name in ("e1_prepare", "e1_train_1"):
        words = ("show", "--json", told["session"], name)
        shown = json.loads(run_command(tmp_path, "sessions", *words).stdout)
        made = shown["job"]["made_from"]
        assert made["asked_by"] == "evaluation e1"
        assert made["commit"] == search_of["evaluations"]["e1"]["candidate_commit"]
