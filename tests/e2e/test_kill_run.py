"""autoexp-run killed at random moments, on real processes."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.e2e.campaign import Campaign, result_of, wait_until
from tests.e2e.kills import arguments_of, kill_through

KILLS = 20


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = Campaign(tmp_path)
    made.write()
    return made


def _finish(campaign: Campaign) -> tuple[int, str, str]:
    run = campaign.start(*arguments_of(campaign))
    out, err = run.communicate(timeout=120)
    return run.returncode, out, err


def test_a_run_completes_and_restarts_what_crashed_once(campaign: Campaign) -> None:
    code, out, err = _finish(campaign)
    assert code == 0, err
    jobs = result_of(out)
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    assert jobs["stable0"]["attempts"] == 2
    assert all(count == 1 for count in campaign.begun().values())


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_run_nothing_twice(campaign: Campaign) -> None:
    campaign.write(seconds=6.0)
    score = kill_through(campaign, random.Random(20), KILLS)
    assert score.problems == []
    assert score.attempts == 8


def test_ctrl_c_says_how_to_resume_and_leaves_the_jobs_running(
    campaign: Campaign,
) -> None:
    campaign.write(seconds=3.0)
    run = campaign.start(*arguments_of(campaign))
    wait_until(lambda: len(campaign.living()) > 0)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert f"autoexp-run --session {campaign.session()}" in err
    assert campaign.living()
    code, out, _ = _finish(campaign)
    assert code == 0
    assert all(n == 1 for n in campaign.begun().values()), out


def test_sigterm_amid_the_start_leaves_a_session_that_can_be_resumed(
    campaign: Campaign,
) -> None:
    campaign.write(families=1, seconds=1.0)
    run = campaign.start("--manifest", str(campaign.manifest))
    wait_until(lambda: bool(campaign.session()))
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert f"--session {campaign.session()} --state-dir {campaign.state_dir}" in err
    code, _, err = _finish(campaign)
    assert code == 0, err
    assert all(n == 1 for n in campaign.begun().values())


def test_two_interrupts_in_a_row_lose_nothing(campaign: Campaign) -> None:
    campaign.write(families=1, seconds=2.0)
    run = campaign.start(*arguments_of(campaign))
    wait_until(lambda: len(campaign.living()) > 0)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=30)
    assert run.returncode == 130
    code, out, _ = _finish(campaign)
    assert code == 0
    assert all(n == 1 for n in campaign.begun().values()), out


def test_a_second_engine_on_one_session_is_refused(campaign: Campaign) -> None:
    campaign.write(seconds=3.0)
    first = campaign.start(*arguments_of(campaign))
    wait_until(lambda: bool(campaign.session()))
    second = campaign.start("--session", campaign.session(), "--json")
    _, err = second.communicate(timeout=30)
    assert second.returncode == 4
    assert "is owned by" in err
    assert "Traceback" not in err
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_outputs_of_a_living_session_are_refused_before_a_session_is_made(
    campaign: Campaign,
) -> None:
    campaign.write(seconds=4.0)
    first = campaign.start(*arguments_of(campaign))
    wait_until(lambda: len(campaign.living()) > 0)
    second = campaign.start("--manifest", str(campaign.manifest), "--json")
    out, err = second.communicate(timeout=30)
    assert second.returncode == 4, err
    assert f"session {campaign.session()} owns it" in err
    assert out == ""
    assert len(list(campaign.state_dir.glob("*/journal.jsonl"))) == 1
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_an_approval_for_a_stage_that_does_not_exist_is_refused(
    campaign: Campaign,
) -> None:
    run = campaign.start("--manifest", str(campaign.manifest), "--approve", "reprot")
    _, err = run.communicate(timeout=30)
    assert run.returncode == 2
    assert "stages: cooldown, report, stable" in err
