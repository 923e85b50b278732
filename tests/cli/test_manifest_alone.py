"""Commands that go on from a manifest when the config is gone."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.cli import monitor, plan, run, submit
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.tui import Cockpit
from autoexp_tui.storage.json_codec import NEWER
from tests.config.config_trees import write_tree

pytestmark = pytest.mark.usefixtures("planned_here")

EXP = """
project: {name: "{lr}_{stage}", base_output_dir: out}
lr: 1
backend: {class_name: Bash, script: "echo ${lr} > $AUTOEXP_OUTPUT_DIR/said"}
slurm: {client: {class_name: LocalClient, slots: 2}}
sweep:
  groups:
    - params: {lr: [1, 2]}
    - configs:
        - stage: a
        - stage: b
          start_conditions:
            - {class_name: JobStateCondition, job_name: "{sibling.a.name}",
               state: COMPLETED, timeout_seconds: 600}
"""
NAMES = ["1_a", "1_b", "2_a", "2_b"]

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say) -> str:
    """A manifest whose config directory is gone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "state")
    write_tree(tmp_path / "config", exp=EXP)
    assert say(plan.main)[0] == 0
    shutil.rmtree(tmp_path / "config")
    (found,) = (
        path
        for path in (tmp_path / "state" / "manifests").iterdir()
        if "provenance" not in path.name
    )
    return str(found)


def done(tmp_path: Path) -> list[str]:
    return sorted(path.parent.name for path in tmp_path.glob("out/*/said"))


def test_run_needs_no_config(manifest: str, say: Say, tmp_path: Path) -> None:
    assert say(run.main, "--manifest", manifest, "--quiet")[0] == 0
    assert done(tmp_path) == NAMES
    provenance = tmp_path / "out" / "1_b" / "provenance"
    assert "lr: 1\n" in (provenance / "resolved_config.yaml").read_text()
    assert "${lr}" in (provenance / "unresolved_config.yaml").read_text()
    assert "lr=1" in (provenance / "overrides.txt").read_text()
    assert (provenance / "git.txt").exists()
    assert (provenance / "environment.txt").exists()


def test_submit_and_monitor_need_no_config(
    manifest: str, say: Say, tmp_path: Path
) -> None:
    code, out, _ = say(submit.main, "--manifest", manifest, "--json")
    assert code == 0
    assert sorted(json.loads(out)["jobs"]) == NAMES
    assert say(monitor.main, "--manifest", manifest, "--quiet")[0] == 0
    assert done(tmp_path) == NAMES


def test_monitor_says_when_nobody_has_submitted_the_plan(
    manifest: str, say: Say, tmp_path: Path
) -> None:
    code, _, err = say(monitor.main, "--manifest", manifest)
    assert (code, err) == (
        2,
        f"error: {manifest}: no session in {tmp_path}/state runs this plan\n"
        "  autoexp-submit --manifest FILE makes one.\n",
    )


def test_the_cockpit_needs_no_config(manifest: str, tmp_path: Path) -> None:
    made = Namespace(submit=False, read_only=False, replay=False)
    cockpit = Cockpit(Options(manifest=manifest, state_dir="state"), made)
    handle = cockpit._open_now()
    try:
        assert [job.name for job in handle.snapshot().jobs] == NAMES
    finally:
        handle.close()


def test_a_plan_of_a_newer_version_is_refused_in_words(manifest: str, say: Say) -> None:
    path = Path(manifest)
    tree = json.loads(path.read_bytes())
    path.write_text(json.dumps(tree | {"version": 9, "of_tomorrow": 1}))
    code, _, err = say(run.main, "--manifest", manifest)
    assert (code, err) == (
        2,
        f"error: {manifest}: this is of a newer version: it has version 9; this "
        "program knows 1\n"
        f"  {NEWER}\n",
    )


def test_a_plan_of_an_earlier_version_is_read(manifest: str, say: Say) -> None:
    path = Path(manifest)
    tree = json.loads(path.read_bytes())
    for key in ("search_dirs", "holes", "rule_sets", "environment", "warnings", "cwd"):
        tree.pop(key, None)
    path.write_text(json.dumps(tree))
    code, out, _ = say(plan.main, "--manifest", manifest, "--json")
    assert code == 0
    assert [job["name"] for job in json.loads(out)["jobs"]] == NAMES
