"""Commands that go on from a manifest when the config is gone; rendered configs."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import doctor, monitor, plan, render_config, run, submit
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.tui import Cockpit
from autoexp_tui.probes.config_files import find_shipped
from autoexp_tui.storage.json_codec import NEWER
from tests.config.config_trees import write_tree

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
def manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say, planned_here: None
) -> str:
    """A manifest whose config directory is gone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "state")
    write_tree(tmp_path / "config", exp=EXP)
    assert say(plan.main)[0] == 0
    shutil.rmtree(tmp_path / "config")
    found = (tmp_path / "state" / "manifests").iterdir()
    return next(str(path) for path in found if "provenance" not in path.name)


def done(tmp_path: Path) -> list[str]:
    return sorted(path.parent.name for path in tmp_path.glob("out/*/said"))


def test_run_needs_no_config(manifest: str, say: Say, tmp_path: Path) -> None:
    code, _, err = say(run.main, "--manifest", manifest, "--approve", "reprot")
    assert (code, "stages: a, b" in err) == (2, True)
    assert say(run.main, "--manifest", manifest, "--quiet")[0] == 0
    assert done(tmp_path) == NAMES
    provenance = tmp_path / "out" / "1_b" / "provenance"
    for name, text in (
        ("resolved_config.yaml", "lr: 1\n"),
        ("unresolved_config.yaml", "${lr}"),
        ("overrides.txt", "lr=1"),
        ("git.txt", ""),
        ("environment.txt", ""),
    ):
        assert text in (provenance / name).read_text()


def test_submit_monitor_and_cockpit_need_no_config(
    manifest: str, say: Say, tmp_path: Path
) -> None:
    said = f"error: {manifest}: no session in {tmp_path}/state runs this plan\n"
    said += "  autoexp-submit --manifest FILE makes one.\n"
    assert say(monitor.main, "--manifest", manifest) == (2, "", said)
    screen = dict.fromkeys(("ascii", "keymap", "mouse", "slow", "theme"))
    made = Namespace(submit=False, read_only=False, replay=False, **screen)
    cockpit = Cockpit(Options(manifest=manifest, state_dir="state"), made)
    handle = cockpit._open_now()
    try:
        assert [job.name for job in handle.snapshot().jobs] == NAMES
    finally:
        handle.close()
    code, out, _ = say(submit.main, "--manifest", manifest, "--json")
    assert (code, sorted(json.loads(out)["jobs"])) == (0, NAMES)
    assert say(monitor.main, "--manifest", manifest, "--quiet")[0] == 0
    assert done(tmp_path) == NAMES


def test_a_plan_of_a_newer_version_is_refused_and_an_earlier_one_read(
    manifest: str, say: Say
) -> None:
    path = Path(manifest)
    tree = json.loads(path.read_bytes())
    path.write_text(json.dumps(tree | {"version": 9, "of_tomorrow": 1}))
    said = "this is of a newer version: it has version 9; this program knows 1"
    told = f"error: {manifest}: {said}\n  {NEWER}\n"
    assert say(run.main, "--manifest", manifest) == (2, "", told)
    for key in ("search_dirs", "holes", "rule_sets", "environment", "warnings", "cwd"):
        tree.pop(key, None)
    path.write_text(json.dumps(tree))
    code, out, _ = say(plan.main, "--manifest", manifest, "--json")
    assert (code, [job["name"] for job in json.loads(out)["jobs"]]) == (0, NAMES)


ODD = """
project: {name: "x{lr}", base_output_dir: out}
backend: {class_name: Command, command: [echo]}
lr: .nan
most: .inf
note: "a\\u202eb"
sweep: {params: {lr: [.nan, 1.0]}}
"""


def test_a_config_is_printed_with_where_it_was_looked_for_and_odd_numbers_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    def strict(*words: Any) -> Any:
        """JSON as other programs read it: a bare NaN is none."""
        return json.loads(say(*words)[1], parse_constant=pytest.fail)

    write_tree(tmp_path / "config", exp=ODD)
    monkeypatch.chdir(tmp_path)
    exp = ("--config-ref", "exp")
    searched = f"{tmp_path / 'config'}, then {find_shipped('config')}"
    code, out, _ = say(render_config.main, *exp)
    assert (code, out.splitlines()[0]) == (0, f"# searched: {searched}")
    assert 'note: "a\\u202Eb"' in out
    found = {each["what"]: each for each in strict(doctor.main, "--json")}
    assert found["configs"]["found"] == searched
    config = strict(render_config.main, *exp, "--json")
    assert (config["lr"], config["most"]) == ("nan", "inf")
    for option in ("--points", "--json"):
        strict(plan.main, *exp, option)
