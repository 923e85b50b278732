"""What commands do when the storm breaker has paused a session, on real processes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import ExitCode, run_guarded
from autoexp_tui.cli.headless import Watching, finish, is_over
from autoexp_tui.cli.run import main as run
from autoexp_tui.cli.sessions import main as sessions
from autoexp_tui.model.rules import Storm
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import JobState, why
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from tests.e2e.campaign import Campaign
from tests.support.campaigns import all_running, campaign

STORM = why("storm", count=5, what="in stage stable", job="a", line="no space left")


def stormy(base: Snapshot) -> Snapshot:
    """Paused by a storm, nothing outside."""
    rest = tuple(
        replace(job, state=JobState.RETRYING) if not job.ended else job
        for job in base.jobs
    )
    engine = replace(base.engine, directory="/state/k7f2")
    return replace(base, paused=STORM, jobs=rest, pending=(), engine=engine)


# -------------------------------------------------------------------------- the end
def test_a_storm_is_over_once_nothing_runs() -> None:
    assert is_over(stormy(campaign(31)), Watching())


def test_what_still_runs_is_watched_to_its_end() -> None:
    assert not is_over(replace(all_running(4), paused=STORM), Watching())


def test_an_engine_that_was_left_behind_stays_in_a_storm() -> None:
    assert not is_over(stormy(campaign(31)), Watching(stop_in_storm=False))


def test_a_person_s_pause_ends_nothing() -> None:
    paused = replace(stormy(campaign(31)), paused=why("paused_by", by="cockpit"))
    assert not is_over(paused, Watching())


def test_a_storm_s_end_says_why_and_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    snapshot = stormy(campaign(31))
    assert finish(snapshot, as_json=True) == ExitCode.GUARD
    told = capsys.readouterr()
    assert json.loads(told.out)["session"] == snapshot.session
    assert "5 quick failures in a row in stage stable" in told.err
    assert "no space left" in told.err
    assert f"autoexp-sessions resume {snapshot.session} --state-dir /state" in told.err
    assert f"autoexp-run --session {snapshot.session}" in told.err


# ---------------------------------------------------------------------- whole runs
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
