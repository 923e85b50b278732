"""Leaving the cockpit in every way: the runs and the engine go on each time."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from autoexp_tui.model.states import JobState
from tests.e2e.campaign import Campaign, wait_until
from tests.e2e.terminal import Terminal
from tests.e2e.tree_kills import begin_slowly

pytestmark = pytest.mark.pty

PLANTED = """
import pathlib
from autoexp_tui.cockpit.widgets import pane
original = pane.ListPane.render_line
def render_line(self, y):
    if pathlib.Path("trigger").exists():
        raise ZeroDivisionError("planted")
    return original(self, y)
pane.ListPane.render_line = render_line
from autoexp_tui.cli.tui import entry
entry()
"""
COMPLETED = JobState.COMPLETED


class Seats:
    """Cockpits over a campaign."""

    def __init__(self, campaign: Campaign, stack: ExitStack) -> None:
        self.campaign = campaign
        self._stack = stack

    def open(self, *words: str, code: str = "") -> Terminal:
        start = ["-c", code] if code else ["-m", "autoexp_tui.cli.tui"]
        argv = [sys.executable, *start, *words]
        terminal = Terminal(argv, cwd=str(self.campaign.root))
        return self._stack.enter_context(closing(terminal))

    def submit(self, code: str = "") -> Terminal:
        """A cockpit at work, a job running."""
        terminal = self.open("--manifest", "plan.json", code=code)
        terminal.wait_for("not submitted", 60.0)
        terminal.send("S")
        terminal.wait_for("y submit")
        terminal.confirm()
        terminal.until(lambda: bool(self.campaign.living()), what="a running job")
        return terminal

    def come_back(self) -> Terminal:
        where = ("--state-dir", str(self.campaign.state_dir))
        return self.open("--session", self.campaign.session(), *where)


@pytest.fixture
def seats(campaign: Campaign) -> Iterator[Seats]:
    campaign.write(families=2, seconds=12.0)
    with ExitStack() as stack:
        yield Seats(campaign, stack)


def leave(terminal: Terminal) -> None:
    """Leave by q, and yes where it is asked."""
    terminal.send("q")
    terminal.until(lambda: terminal.ended() or "y leave" in terminal.text())
    if not terminal.ended():
        terminal.confirm()
    assert terminal.wait_exit() == 0


def assert_heir(campaign: Campaign) -> None:
    """Another engine has the session now."""
    heir = campaign.owner()
    assert heir is not None
    assert heir.epoch == 2


def assert_ends_well(campaign: Campaign) -> None:
    campaign.until(lambda now: {job.state for job in now.jobs.values()} == {COMPLETED})
    wait_until(lambda: campaign.owner() is None, "the end of the engine")
    assert set(campaign.begun().values()) == {1}
    assert campaign.living() == []


def test_leaving_by_q_hands_the_session_to_a_detached_engine(
    campaign: Campaign, seats: Seats
) -> None:
    terminal = seats.submit()
    terminal.send("q")
    terminal.wait_for("y leave")
    time.sleep(0.4)
    terminal.send("\r")  # Enter never confirms: it stays
    time.sleep(0.3)
    assert terminal.status is None
    leave(terminal)
    assert_heir(campaign)
    assert_ends_well(campaign)


def test_a_closed_terminal_or_its_signal_leaves_the_same_process_running(
    campaign: Campaign, seats: Seats
) -> None:
    terminal = seats.submit()
    terminal.hang_up()
    time.sleep(1.0)
    holder = campaign.owner()
    assert holder is not None
    assert holder.epoch == 1
    assert campaign.owner_pid() == terminal.pid
    assert_ends_well(campaign)


def test_a_fault_in_a_widget_ends_the_screen_and_not_the_engine(
    campaign: Campaign, seats: Seats
) -> None:
    terminal = seats.submit(PLANTED)
    (campaign.root / "trigger").touch()
    terminal.send("j")
    assert terminal.wait_exit() == 70
    said = "The screen failed (ZeroDivisionError); the engine goes on."
    assert said in terminal.text()
    assert_heir(campaign)
    assert "planted" in campaign.session_dir.engine_log.read_text()
    assert_ends_well(campaign)


def test_whoever_comes_back_reads_what_happened_and_steers_on(
    campaign: Campaign, seats: Seats
) -> None:
    campaign.write(families=2, seconds=6.0, first_seconds=200.0)
    leave(seats.submit())
    campaign.until(lambda now: now.jobs["stable1"].state is COMPLETED)
    again = seats.come_back()
    again.wait_for("While you were away")
    again.send("\x1b")
    time.sleep(0.5)
    again.send("K")
    again.wait_for("y kill")
    again.confirm()
    campaign.until(lambda now: now.jobs["stable0"].state is JobState.CANCELLED)
    again.send("q")
    again.wait_exit()


def test_a_cockpit_that_watches_goes_on_when_the_other_one_is_killed(
    campaign: Campaign, seats: Seats
) -> None:
    first, second = seats.submit(), seats.come_back()
    second.wait_for("watching")
    first.signal(signal.SIGKILL)
    second.until(lambda: campaign.owner_pid() == second.pid, what="the take-over")
    second.until(lambda: "watching" not in second.text(), what="its own engine")
    leave(second)
    second.wait_for(f"Come back: autoexp-tui --session {campaign.session()}", 5.0)
    assert_ends_well(campaign)


@pytest.mark.parametrize(
    "moment",
    ["ledger", "outputs/.autoexp/*/tree/manifest.json"],
    ids=["amid a call", "between two depths"],
)
def test_a_search_that_is_left_goes_on_to_its_end(tmp_path: Path, moment: str) -> None:
    search = begin_slowly(tmp_path, 1.5, "++tree.max_depth=2")
    argv = [sys.executable, "-m", "autoexp_tui.cli.tui", "--config-ref"]
    argv += ["experiments/tree", "--submit", "--yes", *search.words]
    with closing(Terminal(argv, cwd=str(tmp_path))) as terminal:
        terminal.until(lambda: bool([*tmp_path.glob(moment)]), 90.0, "the moment")
        leave(terminal)
    wait_until(lambda: search.has_stopped, "the end")
    assert search.finish()["evaluations"] == 2
    assert (tmp_path / "ledger").read_text().split() == ["implement"] * 2
    assert search.list_repeats() == []
