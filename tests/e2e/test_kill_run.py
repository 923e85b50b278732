"""Engines that are killed, interrupted or beside another one, on real processes."""

from __future__ import annotations

import random
import signal
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


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_run_nothing_twice(campaign: Campaign) -> None:
    campaign.write(seconds=6.0)
    score = kill_through(campaign, random.Random(20), 20)
    assert score.problems == []
    assert score.counts["attempts"] == 8


@pytest.mark.parametrize(
    ("ready", "number"),
    [
        (Campaign.living, signal.SIGINT),
        (Campaign.session, signal.SIGTERM),  # amid the start
    ],
)
def test_interrupts_leave_the_jobs_running_and_a_session_that_is_resumed_to_its_end(
    campaign: Campaign, ready: Callable[[Campaign], object], number: signal.Signals
) -> None:
    campaign.write(families=1, seconds=2.0)
    run = campaign.run()
    wait_until(lambda: ready(campaign))
    run.send_signal(number)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    again = f"--session {campaign.session()} --state-dir {campaign.state_dir}"
    assert f"autoexp-run {again}" in err
    assert ready(campaign)
    jobs = finish(campaign)
    assert states_of(jobs) == {"COMPLETED"}
    assert jobs["stable0"]["attempts"] == 2


def test_a_second_session_on_the_same_outputs_is_refused(campaign: Campaign) -> None:
    campaign.write(seconds=3.0)
    first = campaign.run()
    wait_until(campaign.living)
    second = campaign.start("--manifest", str(campaign.manifest), "--json")
    out, err = second.communicate(timeout=30)
    assert (second.returncode, out) == (4, ""), err
    assert f"session {campaign.session()} owns it" in err
    assert len(list(campaign.state_dir.glob("*/plan.json"))) == 1
    first.communicate(timeout=60)
    assert first.returncode == 0


# ---------------------------------------------------------------- beside another engine
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
    campaign.write(families=1, seconds=6.0)
    owner = campaign.run()
    wait_until(campaign.living)
    words = ("--session", campaign.session(), "--json")
    monitor = campaign.start(*words, command="monitor")
    wait_until(lambda: list(campaign.session_dir.path.glob("viewers/*")))
    owner.send_signal(number)
    owner.communicate()
    if number == signal.SIGKILL:
        wait_until(lambda: campaign.owner_pid() == monitor.pid, "the owner", 10.0)
    out, err = monitor.communicate(timeout=90)
    assert monitor.returncode == 0, err
    assert states_of(result_of(out)) == {"COMPLETED"}
    assert set(campaign.begun().values()) == {1}
    for text in said:
        assert text in err
