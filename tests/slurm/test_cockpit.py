"""The cockpit over jobs on a real cluster: what it shows, and that its keys go on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoexp_tui.model.specs import Scalar
from tests.e2e.terminal import Terminal
from tests.slurm.campaign import SLEEPS, SlurmCampaign, Work
from tests.slurm.cluster import HANGS, Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.pty]

ALL_NODES: Mapping[str, Scalar] = {
    "nodes": 4,
    "exclusive": True,
    "partition": "main",
    "time": 60,
}
"""One such job runs at a time."""
KEY_SECONDS = 1.0
"""For a key to show on the screen, whatever the controller does."""


@pytest.fixture
def campaign(cluster: Cluster, tmp_path: Path) -> SlurmCampaign:
    """Two jobs, of which the second waits for the first one's nodes."""
    made = SlurmCampaign(tmp_path, cluster, {"ask_seconds": 3.0})
    made.write(*(Work(name, SLEEPS, ALL_NODES, stage="s") for name in "ab"))
    return made


@pytest.fixture
def seat(campaign: SlurmCampaign) -> Iterator[Terminal]:
    """The cockpit, all jobs submitted, the first one running."""
    command = [sys.executable, "-m", "autoexp_tui.cli.tui", "--manifest"]
    command += [str(campaign.manifest), "--state-dir", str(campaign.state_dir)]
    env = {**campaign.env, "COLUMNS": "120", "LINES": "40"}
    terminal = Terminal(command, cwd=str(campaign.root), env=env)
    try:
        terminal.wait_for("2 planned")
        terminal.send("S")
        terminal.wait_for("all 2 jobs")
        assert "On slurm, partition main" in terminal.text()
        terminal.confirm()
        terminal.wait_for("1 running")
        yield terminal
    finally:
        terminal.close()


def go_to(seat: Terminal, state: str) -> None:
    """Put the cursor on the job in that state: either may have got the nodes."""
    shown = seat.text()
    if f">  {state}" not in shown:
        seat.send("k" if shown.index(f"  {state}") < shown.index(">  ") else "j")
    seat.wait_for(f">  {state}")


def test_queued_and_running_jobs_show_what_slurm_knows_of_them(seat: Terminal) -> None:
    go_to(seat, "⧗ queued")
    seat.wait_for("no free room in partition main")
    seat.wait_for("Slurm expects ")
    go_to(seat, "▸ running")
    seat.wait_for("(node n")
    assert "partition main" in seat.text()


def test_a_kill_is_sent_to_slurm_and_shown_as_it_was_sent(
    seat: Terminal, campaign: SlurmCampaign
) -> None:
    other = "b" if campaign.begun()["a"] else "a"
    go_to(seat, "▸ running")
    seat.send("K")
    seat.wait_for("Kill 1 running job?")
    seat.confirm()
    seat.wait_for("1 cancelled", 40)
    seat.send("8")
    seat.send("]]")  # cancels alone
    seat.wait_for("$ scancel --state=RUNNING --batch --signal=TERM")
    campaign.wait_for_line(other)


def test_while_the_controller_hangs_it_says_so_and_keys_go_on(
    seat: Terminal, campaign: SlurmCampaign
) -> None:
    with campaign.cluster.shim("squeue", HANGS):
        seat.wait_for("squeue did not answer within 3 s")
        assert max(paint_seconds(seat, key) for key in "jkjkjk") < KEY_SECONDS
    assert "1 running" in seat.text()
    seat.until(lambda: "did not answer" not in seat.text(), 40, "an answer")


def paint_seconds(seat: Terminal, key: str) -> float:
    """From a key to the first thing that it paints."""
    before, written = time.monotonic(), seat.written
    seat.send(key)
    seat.until(lambda: seat.written > written, 10, f"what {key!r} paints")
    return time.monotonic() - before
