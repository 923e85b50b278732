"""Leaving the cockpit in every way: the runs and the engine go on each time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.states import JobState
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.lease import Holder, LeaseWatch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign, wait_until
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.pty

PLANTED = """
import time
from autoexp_tui.cockpit.widgets import list_pane
begun = time.monotonic()
original = list_pane.ListPane.render_line
def render_line(self, y):
    import pathlib
    if pathlib.Path({trigger!r}).exists():
        raise ZeroDivisionError("planted")
    return original(self, y)
list_pane.ListPane.render_line = render_line
from autoexp_tui.cli.tui import entry
entry()
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = Campaign(tmp_path)
    made.write(families=2, seconds=12.0)
    return made


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def cockpit(
    campaign: Campaign, terminals: list[Terminal], *arguments: str, code: str = ""
) -> Terminal:
    start = ["-c", code] if code else ["-m", "autoexp_tui.cli.tui"]
    what = arguments or ("--manifest", str(campaign.manifest))
    terminal = Terminal(
        [sys.executable, *start, "--state-dir", str(campaign.state_dir), *what],
        cwd=str(campaign.root),
    )
    terminals.append(terminal)
    return terminal


def ordered(campaign: Campaign, terminals: list[Terminal], code: str = "") -> Terminal:
    """A cockpit whose plan was submitted this very moment."""
    terminal = cockpit(campaign, terminals, code=code)
    terminal.wait_for("not submitted")
    terminal.send("S")
    terminal.wait_for("y submit")
    time.sleep(0.4)  # dialogs are deaf at first
    terminal.send("y")
    return terminal


def leave(terminal: Terminal) -> None:
    """Leave by q, and yes where it is asked."""
    terminal.send("q")
    terminal.until(lambda: terminal.ended() or "y leave" in terminal.text())
    if not terminal.ended():
        time.sleep(0.4)
        terminal.send("y")
    assert terminal.wait_exit() == 0


def kill_under_cursor(terminal: Terminal) -> None:
    terminal.send("K")
    terminal.wait_for("y kill")
    time.sleep(0.4)
    terminal.send("y")


def submitted(
    campaign: Campaign, terminals: list[Terminal], code: str = ""
) -> Terminal:
    terminal = ordered(campaign, terminals, code)
    terminal.until(lambda: len(campaign.living()) > 0, what="a running job")
    return terminal


def session_dir(campaign: Campaign) -> SessionDir:
    return SessionDir(campaign.state_dir / campaign.session())


def owner(campaign: Campaign) -> Holder | None:
    watch = LeaseWatch(session_dir(campaign))
    holder = watch.find_holder()
    alive = watch.check_alive(holder, SystemClock().monotonic())
    return holder if alive is Alive.YES else None


def all_completed(campaign: Campaign) -> bool:
    jobs = load_state(session_dir(campaign)).state.jobs.values()
    return all(job.state is JobState.COMPLETED for job in jobs)


def _state(campaign: Campaign, job: str) -> JobState:
    return load_state(session_dir(campaign)).state.jobs[job].state


def the_campaign_ends_well(campaign: Campaign) -> None:
    wait_until(lambda: all_completed(campaign), "the end of all jobs")
    wait_until(lambda: owner(campaign) is None, "the end of the engine")
    assert all(count == 1 for count in campaign.begun().values())
    assert campaign.living() == []


def test_leaving_by_q_hands_the_session_to_a_detached_engine(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    terminal = submitted(campaign, terminals)
    terminal.send("q")
    terminal.wait_for("y leave")
    time.sleep(0.4)
    terminal.send("\r")  # Enter never confirms: it stays
    time.sleep(0.3)
    assert terminal.status is None
    leave(terminal)
    heir = owner(campaign)
    assert heir is not None
    assert heir.epoch == 2
    the_campaign_ends_well(campaign)


@pytest.mark.parametrize(
    "lose", [Terminal.hang_up, lambda terminal: terminal.signal(signal.SIGHUP)]
)
def test_a_closed_terminal_or_its_signal_leaves_the_same_process_running(
    campaign: Campaign, terminals: list[Terminal], lose: Callable[[Terminal], None]
) -> None:
    terminal = submitted(campaign, terminals)
    lose(terminal)
    time.sleep(1.0)
    holder = owner(campaign)
    assert holder is not None
    assert holder.epoch == 1
    assert _owner_pid(campaign) == terminal.pid
    the_campaign_ends_well(campaign)


def test_a_terminal_that_closes_right_behind_the_submit_leaves_the_engine_running(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    terminal = ordered(campaign, terminals)
    terminal.wait_for("submitting 5 jobs")
    terminal.hang_up()
    wait_until(lambda: _states(campaign) - {JobState.PLANNED}, "the submitted jobs")
    assert _owner_pid(campaign) == terminal.pid
    the_campaign_ends_well(campaign)


def test_leaving_right_behind_the_submit_hands_over_what_was_submitted(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    terminal = ordered(campaign, terminals)
    terminal.wait_for("submitting 5 jobs")
    leave(terminal)
    terminal.wait_for("The engine goes on. Come back: autoexp-tui --session", 5.0)
    the_campaign_ends_well(campaign)


def test_a_fault_in_a_widget_ends_the_screen_and_not_the_engine(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    trigger = campaign.root / "trigger"
    code = PLANTED.format(trigger=str(trigger))
    terminal = submitted(campaign, terminals, code)
    trigger.touch()
    terminal.send("j")
    assert terminal.wait_exit() == 70
    assert "The screen failed (ZeroDivisionError); the engine goes on." in (
        terminal.text()
    )
    heir = owner(campaign)
    assert heir is not None
    assert heir.epoch == 2
    log = session_dir(campaign).engine_log.read_text()
    assert "planted" in log
    the_campaign_ends_well(campaign)


def test_whoever_comes_back_reads_what_happened_and_steers_on(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    campaign.write(families=2, seconds=6.0, first_seconds=200.0)
    terminal = submitted(campaign, terminals)
    leave(terminal)
    wait_until(lambda: _state(campaign, "stable1") is JobState.COMPLETED, "one end")
    again = cockpit(campaign, terminals, "--session", campaign.session())
    again.wait_for("While you were away")
    again.send("\x1b")
    time.sleep(0.5)
    kill_under_cursor(again)
    wait_until(lambda: _state(campaign, "stable0") is JobState.CANCELLED, "the kill")
    again.send("q")
    again.wait_exit()


def test_a_second_cockpit_sees_the_same_and_commands_through_the_inbox(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    campaign.write(families=2, seconds=60.0)
    first = submitted(campaign, terminals)
    second = cockpit(campaign, terminals, "--session", campaign.session())
    second.wait_for("running")
    assert owner(campaign) is not None
    kill_under_cursor(second)
    first.wait_for("cancelled", 30.0)
    second.wait_for("cancelled", 30.0)
    holder = owner(campaign)
    assert holder is not None
    assert holder.epoch == 1
    os.kill(first.pid, signal.SIGTERM)
    for pid in campaign.living():
        os.kill(pid, signal.SIGKILL)


def test_a_cockpit_that_watches_goes_on_when_the_other_one_is_killed(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    first = submitted(campaign, terminals)
    second = cockpit(campaign, terminals, "--session", campaign.session())
    second.wait_for("watching")
    first.signal(signal.SIGKILL)
    second.until(lambda: _owner_pid(campaign) == second.pid, what="the take-over")
    second.until(lambda: "watching" not in second.text(), what="its own engine")
    leave(second)
    second.wait_for(f"Come back: autoexp-tui --session {campaign.session()}", 5.0)
    the_campaign_ends_well(campaign)


def test_leaving_a_cockpit_that_only_watches_says_how_to_come_back(
    campaign: Campaign, terminals: list[Terminal]
) -> None:
    first = submitted(campaign, terminals)
    second = cockpit(campaign, terminals, "--session", campaign.session())
    second.wait_for("watching")
    leave(second)
    second.wait_for("The engine goes on. Come back: autoexp-tui --session", 5.0)
    assert _owner_pid(campaign) == first.pid
    first.signal(signal.SIGKILL)
    for pid in campaign.living():
        os.kill(pid, signal.SIGKILL)


def _states(campaign: Campaign) -> set[JobState]:
    """Of the session's jobs; none before there is one."""
    if not any(campaign.state_dir.glob("*/*.jsonl")):
        return set()
    jobs = load_state(session_dir(campaign)).state.jobs.values()
    return {job.state for job in jobs}


def _owner_pid(campaign: Campaign) -> int:
    holder = owner(campaign)
    return holder.identity.pid if holder and holder.identity else 0
