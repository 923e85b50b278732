"""Leaving while a rule's plan is to come, after all jobs have ended: it runs later."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.journal import load_state
from tests.e2e.campaign import Campaign, wait_until
from tests.e2e.terminal import Terminal
from tests.e2e.test_leaving import leave, owner, session_dir

pytestmark = pytest.mark.pty

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


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    (tmp_path / "config").mkdir()
    for name, text in {
        "config/train.yaml": TRAIN,
        "config/evaluate.yaml": EVALUATE,
        "held_back.py": HELD_BACK,
        "hold": "",
    }.items():
        (tmp_path / name).write_text(text)
    return Campaign(tmp_path)


@pytest.fixture
def terminal(campaign: Campaign) -> Iterator[Terminal]:
    argv = [sys.executable, "-m", "autoexp_tui.cli.tui", "--config-ref", "train"]
    opened = Terminal(argv, cwd=str(campaign.root))
    yield opened
    opened.close()
    (campaign.root / "hold").unlink(missing_ok=True)


def state(campaign: Campaign) -> SessionState:
    return load_state(session_dir(campaign)).state


def planning_is_all_that_is_left(campaign: Campaign) -> bool:
    if not campaign.session():
        return False
    now = state(campaign)
    jobs = now.jobs.values()
    return bool(jobs) and all(job.ended for job in jobs) and bool(now.pending)


def run_until_the_plan_is_all_that_is_left(
    campaign: Campaign, terminal: Terminal
) -> None:
    terminal.wait_for("not submitted", 60.0)
    terminal.send("S")
    terminal.wait_for("y submit")
    time.sleep(0.4)  # dialogs are deaf at first
    terminal.send("y")
    terminal.until(
        lambda: planning_is_all_that_is_left(campaign), 60.0, "the pending plan"
    )


def test_leaving_by_q_leaves_an_engine_that_plans_and_runs_what_a_rule_ordered(
    campaign: Campaign, terminal: Terminal
) -> None:
    run_until_the_plan_is_all_that_is_left(campaign, terminal)
    leave(terminal)
    heir = owner(campaign)
    assert heir is not None
    assert heir.epoch == 2
    (campaign.root / "hold").unlink()
    wait_until(lambda: owner(campaign) is None, "the end of the engine")
    states = {name: job.state for name, job in state(campaign).jobs.items()}
    assert states == dict.fromkeys(("train", "evaluation"), JobState.COMPLETED)
    log = campaign.root / "logs" / "evaluation" / "current.log"
    assert "evaluated" in log.read_text()
