"""autoexp-monitor beside another engine: it goes on when that one is gone."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign, result_of, wait_until


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = Campaign(tmp_path)
    made.write(families=1, seconds=6.0)
    return made


@pytest.fixture
def started(campaign: Campaign) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str, command: str = "run") -> subprocess.Popen[str]:
        processes.append(campaign.start(*arguments, command=command))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


Start = Callable[..., subprocess.Popen[str]]


def _owner_pid(campaign: Campaign) -> int:
    holder = LeaseWatch(
        SessionDir(campaign.state_dir / campaign.session())
    ).find_holder()
    return holder.identity.pid if holder and holder.identity else 0


def _watched(campaign: Campaign) -> bool:
    viewers = campaign.state_dir / campaign.session() / "viewers"
    return viewers.is_dir() and any(viewers.iterdir())


def _both(campaign: Campaign, started: Start) -> list[subprocess.Popen[str]]:
    """An engine with a job that runs, and a monitor that watches it."""
    owner = started("--manifest", str(campaign.manifest))
    wait_until(lambda: len(campaign.living()) > 0)
    session = campaign.session()
    monitor = started("--session", session, "--json", command="monitor")
    wait_until(lambda: _watched(campaign))
    return [owner, monitor]


def test_a_monitor_takes_over_when_the_owner_is_killed_and_ends_the_campaign(
    campaign: Campaign, started: Start
) -> None:
    owner, monitor = _both(campaign, started)
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: _owner_pid(campaign) == monitor.pid, "the owner", 10.0)
    out, err = monitor.communicate(timeout=60)
    assert monitor.returncode == 0, err
    assert {job["state"] for job in result_of(out).values()} == {"COMPLETED"}
    assert all(count == 1 for count in campaign.begun().values())
    assert "is gone" in err
    assert "this process goes on with the session" in err


@pytest.mark.slow
def test_a_monitor_goes_on_when_the_owner_leaves_by_ctrl_c(
    campaign: Campaign, started: Start
) -> None:
    owner, monitor = _both(campaign, started)
    owner.send_signal(signal.SIGINT)
    owner.communicate()
    out, err = monitor.communicate(timeout=90)
    assert monitor.returncode == 0, err
    assert "has left" in err
    assert {job["state"] for job in result_of(out).values()} == {"COMPLETED"}


def test_a_monitor_ends_with_an_engine_that_is_told_to_stop(
    campaign: Campaign, started: Start
) -> None:
    campaign.write(families=1, seconds=60.0)
    owner, monitor = _both(campaign, started)
    stop = started("stop", campaign.session(), command="sessions")
    stop.communicate(timeout=30)
    assert stop.returncode == 0
    _, err = monitor.communicate(timeout=30)
    assert monitor.returncode == 1, err
    assert f"Resume with:\n  autoexp-monitor --session {campaign.session()}" in err
    _, err = owner.communicate(timeout=30)
    assert "the engine was told to stop; what runs goes on" in err
    assert campaign.living()
    ended = started("stop", campaign.session(), "--jobs", "--yes", command="sessions")
    ended.communicate(timeout=30)
    assert ended.returncode == 0
    wait_until(lambda: not campaign.living())


def test_ctrl_c_of_a_watcher_leaves_the_engine_alone(
    campaign: Campaign, started: Start
) -> None:
    owner, monitor = _both(campaign, started)
    monitor.send_signal(signal.SIGINT)
    _, err = monitor.communicate(timeout=30)
    assert monitor.returncode == 130
    assert "the engine goes on. Watch it again with:" in err
    assert f"autoexp-monitor --session {campaign.session()}" in err
    assert _owner_pid(campaign) == owner.pid
    owner.communicate(timeout=60)
    assert owner.returncode == 0
