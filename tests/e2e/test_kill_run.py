"""Engines that are killed, interrupted or beside another one, on real processes."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Sequence

import pytest

from tests.e2e.campaign import Campaign, Jobs, result_of, states_of, wait_until
from tests.e2e.kills import kill_through


def finish(campaign: Campaign) -> Jobs:
    """Take the campaign up and let it end well; no attempt ran twice."""
    run = campaign.run()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert set(campaign.begun().values()) == {1}
    return result_of(out)


def test_a_run_completes_and_restarts_what_crashed_once(campaign: Campaign) -> None:
    campaign.write()
    jobs = finish(campaign)
    assert states_of(jobs) == {"COMPLETED"}
    assert jobs["stable0"]["attempts"] == 2


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_run_nothing_twice(campaign: Campaign) -> None:
    campaign.write(seconds=6.0)
    score = kill_through(campaign, random.Random(20), 20)
    assert score.problems == []
    assert score.counts["attempts"] == 8


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
    run = campaign.run()
    wait_until(lambda: ready(campaign))
    for number in signals:
        run.send_signal(number)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    if len(signals) == 1:
        again = f"--session {campaign.session()} --state-dir {campaign.state_dir}"
        assert f"autoexp-run {again}" in err
    assert ready(campaign)
    finish(campaign)


@pytest.mark.parametrize(
    ("same_session", "said"), [(True, "is owned by"), (False, "session {} owns it")]
)
def test_a_second_engine_on_one_session_or_its_outputs_is_refused(
    campaign: Campaign, *, same_session: bool, said: str
) -> None:
    campaign.write(seconds=3.0)
    first = campaign.run()
    wait_until(campaign.living)
    plan = ("--manifest", str(campaign.manifest), "--json")
    second = campaign.run() if same_session else campaign.start(*plan)
    out, err = second.communicate(timeout=30)
    assert (second.returncode, out) == (4, ""), err
    assert said.format(campaign.session()) in err
    assert "Traceback" not in err
    assert len(list(campaign.state_dir.glob("*/plan.json"))) == 1
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_an_approval_for_a_stage_that_does_not_exist_is_refused(
    campaign: Campaign,
) -> None:
    campaign.write()
    run = campaign.start("--manifest", str(campaign.manifest), "--approve", "reprot")
    _, err = run.communicate(timeout=30)
    assert run.returncode == 2
    assert "stages: cooldown, report, stable" in err


# ---------------------------------------------------------------- beside another engine
def start_both(
    campaign: Campaign, seconds: float = 6.0
) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """An engine with a job that runs, and a monitor that watches it."""
    campaign.write(families=1, seconds=seconds)
    owner = campaign.run()
    wait_until(campaign.living)
    words = ("--session", campaign.session(), "--json")
    monitor = campaign.start(*words, command="monitor")
    wait_until(lambda: list(campaign.session_dir.path.glob("viewers/*")))
    return owner, monitor


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, ("is gone", "this process goes on with the session")),
        (signal.SIGINT, ("has left",)),
    ],
)
def test_a_monitor_takes_over_when_the_owner_is_gone_and_ends_the_campaign(
    campaign: Campaign, number: signal.Signals, said: Sequence[str]
) -> None:
    owner, monitor = start_both(campaign)
    owner.send_signal(number)
    owner.communicate()
    if number == signal.SIGKILL:
        wait_until(lambda: campaign.owner_pid() == monitor.pid, "the owner", 10.0)
    out, err = monitor.communicate(timeout=90)
    assert monitor.returncode == 0, err
    assert states_of(result_of(out)) == {"COMPLETED"}
    assert set(campaign.begun().values()) == {1}
    for words in said:
        assert words in err


def test_a_monitor_ends_with_an_engine_that_is_told_to_stop(campaign: Campaign) -> None:
    owner, monitor = start_both(campaign, 60.0)

    def stop(*words: str) -> None:
        told = campaign.start("stop", campaign.session(), *words, command="sessions")
        told.communicate(timeout=30)
        assert told.returncode == 0

    stop()
    _, err = monitor.communicate(timeout=30)
    assert monitor.returncode == 1, err
    assert f"Resume with:\n  autoexp-monitor --session {campaign.session()}" in err
    _, err = owner.communicate(timeout=30)
    assert "the engine was told to stop; what runs goes on" in err
    assert campaign.living()
    stop("--jobs", "--yes")
    wait_until(lambda: not campaign.living())


def test_ctrl_c_of_a_watcher_leaves_the_engine_alone(campaign: Campaign) -> None:
    owner, monitor = start_both(campaign)
    monitor.send_signal(signal.SIGINT)
    _, err = monitor.communicate(timeout=30)
    assert monitor.returncode == 130
    assert "the engine goes on. Watch it again with:" in err
    assert f"autoexp-monitor --session {campaign.session()}" in err
    assert campaign.owner_pid() == owner.pid
    owner.communicate(timeout=60)
    assert owner.returncode == 0
