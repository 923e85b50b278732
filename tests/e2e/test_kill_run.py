"""autoexp-run killed at random moments, on real processes."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
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


@pytest.mark.parametrize(
    ("ready", "signals"),
    [
        (Campaign.living, (signal.SIGINT,)),
        (Campaign.session, (signal.SIGTERM,)),  # amid the start
        (Campaign.living, (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_interrupts_leave_the_jobs_running_and_a_session_that_can_be_resumed(
    campaign: Campaign,
    ready: Callable[[Campaign], object],
    signals: Sequence[signal.Signals],
) -> None:
    campaign.write(families=1, seconds=2.0)
    run = campaign.start(*arguments_of(campaign))
    wait_until(lambda: ready(campaign))
    for number in signals:
        run.send_signal(number)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    if len(signals) == 1:
        again = f"--session {campaign.session()} --state-dir {campaign.state_dir}"
        assert f"autoexp-run {again}" in err
    assert ready(campaign)
    code, out, err = _finish(campaign)
    assert code == 0, err
    assert all(n == 1 for n in campaign.begun().values()), out


@pytest.mark.parametrize(
    ("same_session", "said"), [(True, "is owned by"), (False, "session {} owns it")]
)
def test_a_second_engine_on_one_session_or_its_outputs_is_refused(
    campaign: Campaign, *, same_session: bool, said: str
) -> None:
    campaign.write(seconds=3.0)
    first = campaign.start(*arguments_of(campaign))
    wait_until(lambda: len(campaign.living()) > 0)
    plan = ["--manifest", str(campaign.manifest), "--json"]
    second = campaign.start(*(arguments_of(campaign) if same_session else plan))
    out, err = second.communicate(timeout=30)
    assert second.returncode == 4, err
    assert said.format(campaign.session()) in err
    assert "Traceback" not in err
    assert out == ""
    assert len(list(campaign.state_dir.glob("*/plan.json"))) == 1
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_an_approval_for_a_stage_that_does_not_exist_is_refused(
    campaign: Campaign,
) -> None:
    run = campaign.start("--manifest", str(campaign.manifest), "--approve", "reprot")
    _, err = run.communicate(timeout=30)
    assert run.returncode == 2
    assert "stages: cooldown, report, stable" in err
