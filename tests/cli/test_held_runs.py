"""A run in which a job cannot go on: held by what failed, or by a person's word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoexp_tui.cli import run
from autoexp_tui.cli.diagnostics import run_guarded

NEVER = {"class_name": "FileExists", "path": "{sibling.first.output_dir}/saved"}
ASKS = {"class_name": "Approval", "prompt": "Go on?"}


class Site:
    """A directory with a config of two jobs, the second behind a condition."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys

    def write(self, command: str, condition: dict[str, str]) -> None:
        config = {
            "project": {"name": "{stage}", "base_output_dir": "out"},
            "backend": {"class_name": "Command", "command": [command]},
            "slurm": {"client": {"class_name": "LocalClient"}},
            "monitoring": {"doomed": "hold", "doomed_grace_seconds": 0.5},
            "sweep": {
                "type": "list",
                "configs": [
                    {"stage": "first"},
                    {
                        "stage": "second",
                        "backend.command": ["true"],
                        "start_conditions": [condition],
                    },
                ],
            },
        }
        (self.root / "config").mkdir()
        (self.root / "config" / "exp.yaml").write_text(yaml.safe_dump(config))

    def run(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """`autoexp-run`: its exit code, its result, and what it said."""
        code = run_guarded(run.main, [*words, "--json", "--yes"])
        said = self.capsys.readouterr()
        result: dict[str, Any] = json.loads(said.out.splitlines()[-1])
        return code, result, said.err


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Site:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", str(tmp_path / "state"))
    return Site(tmp_path, capsys)


def states(result: dict[str, Any]) -> dict[str, str]:
    return {job["name"]: job["state"] for job in result["jobs"]}


def test_a_job_held_since_it_cannot_start_ends_the_run_with_1(site: Site) -> None:
    site.write("false", NEVER)
    code, result, said = site.run("--config-ref", "exp")
    assert code == 1, said
    assert states(result) == {"first": "FAILED", "second": "WAITING"}
    assert "1 job cannot start" in said


def test_a_later_run_of_the_session_may_approve_what_was_asked(site: Site) -> None:
    site.write("true", ASKS)
    _, first, _ = site.run("--config-ref", "exp", "--no-wait")
    assert states(first)["second"] == "WAITING"
    code, result, said = site.run("--session", first["session"], "--approve", "all")
    assert code == 0, said
    assert states(result)["second"] == "COMPLETED"
