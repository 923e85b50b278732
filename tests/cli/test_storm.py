"""What commands do when the storm breaker has paused a session, on real processes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

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


def test_a_session_is_paused_and_resumed_by_a_script(
    broken: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    (broken.root / "mended").touch()
    place = ["--state-dir", str(broken.state_dir)]
    assert run_guarded(run, ["--manifest", str(broken.manifest), *place]) == 0
    session = broken.session()
    assert run_guarded(sessions, ["resume", session, *place]) == 0
    assert "it is not paused" in capsys.readouterr().out
    assert run_guarded(sessions, ["pause", session, *place]) == 0
    assert run_guarded(sessions, ["resume", session, *place]) == 0
