"""Leaving the cockpit in every way: the runs and the engine go on each time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from autoexp_tui.model.states import JobState
from tests.e2e.campaign import Campaign, wait_until, write_files
from tests.e2e.terminal import Terminal

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
COME_BACK = "The engine goes on. Come back: autoexp-tui --session"


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

    def order(self, *words: str, code: str = "") -> Terminal:
        """A cockpit whose plan was submitted this very moment."""
        terminal = self.open(*(words or ("--manifest", "plan.json")), code=code)
        terminal.wait_for("not submitted", 60.0)
        terminal.send("S")
        terminal.wait_for("y submit")
        terminal.confirm()
        return terminal

    def submit(self, code: str = "") -> Terminal:
        """A cockpit at work, a job running."""
        terminal = self.order(code=code)
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


def kill_under_cursor(terminal: Terminal) -> None:
    terminal.send("K")
    terminal.wait_for("y kill")
    terminal.confirm()


def wait_for_state(campaign: Campaign, job: str, state: JobState) -> None:
    campaign.until(lambda now: now.jobs[job].state is state)


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


def kill_workers(campaign: Campaign) -> None:
    for pid in campaign.living():
        os.kill(pid, signal.SIGKILL)


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


@pytest.mark.parametrize(
    "lose", [Terminal.hang_up, lambda terminal: terminal.signal(signal.SIGHUP)]
)
def test_a_closed_terminal_or_its_signal_leaves_the_same_process_running(
    campaign: Campaign, seats: Seats, lose: Callable[[Terminal], None]
) -> None:
    terminal = seats.submit()
    lose(terminal)
    time.sleep(1.0)
    holder = campaign.owner()
    assert holder is not None
    assert holder.epoch == 1
    assert campaign.owner_pid() == terminal.pid
    assert_ends_well(campaign)


def test_a_terminal_that_closes_right_behind_the_submit_leaves_the_engine_running(
    campaign: Campaign, seats: Seats
) -> None:
    terminal = seats.order()
    terminal.wait_for("submitting 5 jobs")
    terminal.hang_up()
    campaign.until(
        lambda now: {job.state for job in now.jobs.values()} - {JobState.PLANNED}
    )
    assert campaign.owner_pid() == terminal.pid
    assert_ends_well(campaign)


def test_leaving_right_behind_the_submit_hands_over_what_was_submitted(
    campaign: Campaign, seats: Seats
) -> None:
    terminal = seats.order()
    terminal.wait_for("submitting 5 jobs")
    leave(terminal)
    terminal.wait_for(COME_BACK, 5.0)
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
    wait_for_state(campaign, "stable1", COMPLETED)
    again = seats.come_back()
    again.wait_for("While you were away")
    again.send("\x1b")
    time.sleep(0.5)
    kill_under_cursor(again)
    wait_for_state(campaign, "stable0", JobState.CANCELLED)
    again.send("q")
    again.wait_exit()


def test_a_second_cockpit_sees_the_same_commands_through_the_inbox_and_leaves_alone(
    campaign: Campaign, seats: Seats
) -> None:
    campaign.write(families=2, seconds=60.0)
    first = seats.submit()
    second = seats.come_back()
    second.wait_for("running")
    assert campaign.owner() is not None
    kill_under_cursor(second)
    first.wait_for("cancelled", 30.0)
    second.wait_for("cancelled", 30.0)
    leave(second)
    second.wait_for(COME_BACK, 5.0)
    holder = campaign.owner()
    assert holder is not None
    assert holder.epoch == 1
    first.signal(signal.SIGTERM)
    kill_workers(campaign)


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


# --------------------------------------------------------------------- a plan to come
TRAIN = """
project: {name: train, base_output_dir: outputs}
backend: {class_name: Command, command: [echo, saved]}
slurm: {client: {class_name: LocalClient, slots: 2}, log_dir: logs}
monitoring:
  state_dir: state
  poll_seconds: 0.2
  log_events:
    - name: saved
      pattern: saved
      pattern_type: substring
      actions: [{class_name: RunAutoexpAction, config_ref: evaluate}]
"""
EVALUATE = """
project: {name: evaluation, base_output_dir: outputs}
backend: {class_name: "held_back:HeldBack"}
slurm: {log_dir: logs}
"""
HELD_BACK = """
import pathlib, time


class HeldBack:
    def problems(self, backend, config):
        while pathlib.Path("hold").exists():
            time.sleep(0.05)
        return []

    def command(self, backend, config):
        return ["echo", "evaluated"]
"""


def test_leaving_by_q_leaves_an_engine_that_plans_and_runs_what_a_rule_ordered(
    campaign: Campaign, seats: Seats
) -> None:
    """All jobs have ended, and the rule's plan is all that is left."""
    root, hold = campaign.root, campaign.root / "hold"
    configs = {"config/train.yaml": TRAIN, "config/evaluate.yaml": EVALUATE}
    write_files(root, {**configs, "held_back.py": HELD_BACK, "hold": ""})
    try:
        terminal = seats.order("--config-ref", "train")

        def only_the_plan_is_left() -> bool:
            now = campaign.state()
            ended = all(job.ended for job in now.jobs.values())
            return bool(now.jobs) and ended and bool(now.pending)

        terminal.until(only_the_plan_is_left, 60.0, "the pending plan")
        leave(terminal)
        assert_heir(campaign)
    finally:
        hold.unlink()
    wait_until(lambda: campaign.owner() is None, "the end of the engine")
    states = {name: job.state for name, job in campaign.state().jobs.items()}
    assert states == dict.fromkeys(("train", "evaluation"), COMPLETED)
    assert "evaluated" in (root / "logs/evaluation/current.log").read_text()
