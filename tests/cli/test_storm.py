"""Runs that stop before their end: in a storm, held by what failed, or asked."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.run import main as run
from autoexp_tui.cli.sessions import main as sessions
from autoexp_tui.model.rules import Storm
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from tests.e2e.campaign import Campaign


@pytest.fixture
def broken(tmp_path: Path) -> Campaign:
    """Jobs that all fail at once while `tmp_path/mended` is missing."""
    made = Campaign(tmp_path)
    made.write(families=3, seconds=0.2)
    plan = decode_plan(made.manifest.read_bytes())
    test = f"import os, sys; sys.exit(not os.path.exists({str(tmp_path / 'mended')!r}))"
    jobs = tuple(
        replace(
            job,
            command=(sys.executable, "-c", test),
            start_conditions=(),
            cancel_conditions=(),
            depends_on=(),
        )
        for job in plan.jobs
    )
    rules = replace(plan.monitoring, state_events=(), storm=Storm(failures=3))
    single = replace(plan.executor, settings={"slots": 1})
    changed = replace(plan, jobs=jobs, edges=(), monitoring=rules, executor=single)
    made.manifest.write_bytes(encode_plan(changed))
    return made


def test_a_run_in_a_storm_ends_with_6_and_goes_on_when_resumed(
    broken: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--state-dir", str(broken.state_dir)]
    assert run_guarded(run, ["--manifest", str(broken.manifest), *place]) == 6
    session = broken.session()
    told = capsys.readouterr()
    assert "stopped by the storm breaker" in told.err
    assert "3 failed" in told.out
    assert run_guarded(run, ["--session", session, *place]) == 6

    (broken.root / "mended").touch()
    assert run_guarded(sessions, ["resume", session, *place]) == 0
    assert run_guarded(sessions, ["retry", session, "--all", *place]) == 0
    capsys.readouterr()
    assert run_guarded(run, ["--session", session, "--json", *place]) == 0
    states = {job["state"] for job in json.loads(capsys.readouterr().out)["jobs"]}
    assert states == {"COMPLETED"}


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
        code = run_guarded(run, [*words, "--json", "--yes"])
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
