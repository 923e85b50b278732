"""What is said on leaving, and that a second interrupt does not wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from autoexp_tui.cli import background, monitor, submit
from autoexp_tui.cli.background import build_command
from autoexp_tui.cli.detach import (
    detach,
    finish_orders,
    format_farewell,
    format_interrupted,
)
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.sessions import main as sessions_main
from autoexp_tui.engine.live import make_plan_snapshot
from autoexp_tui.model.snapshot import Role, Snapshot
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign
from tests.support.journal_contract import PLAN
from tests.support.scripted_handle import ScriptedHandle


def shown(role: Role, session: str = "k7f2", *, alive: bool = True) -> Snapshot:
    plan = make_plan_snapshot(PLAN)
    directory = "/far/state/k7f2" if session else ""
    view = replace(plan.engine, role=role, owner_alive=alive, directory=directory)
    return replace(plan, session=session, engine=view)


def test_a_watcher_of_a_dead_engine_says_that_nothing_more_is_submitted() -> None:
    told = format_interrupted(shown("viewer", alive=False), "autoexp-monitor")
    assert "nothing more is submitted" in told


def test_how_to_resume_is_said_before_the_engine_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Slow(ScriptedHandle):
        def close(self, *, hand_over: bool = False) -> None:
            assert not hand_over
            assert "autoexp-run --session k7f2" in capsys.readouterr().err
            super().close()

    handle = Slow(shown("live"))
    assert detach(handle, "autoexp-run") == 130
    assert handle.closed


def test_a_session_that_came_into_being_meanwhile_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Beginning(ScriptedHandle):
        def close(self, *, hand_over: bool = False) -> None:
            del hand_over
            self.push(shown("live"))

    detach(Beginning(shown("plan", session="")), "autoexp-run")
    assert "autoexp-run --session k7f2" in capsys.readouterr().err


def test_without_a_session_nothing_was_submitted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert detach(ScriptedHandle(shown("plan", session="")), "autoexp-run") == 130
    assert capsys.readouterr().err == "interrupted; nothing was submitted\n"


class Busy(ScriptedHandle):
    """Has an order under way; `pause` is where its time goes."""

    def __init__(self, snapshot: Snapshot, answer_after: float) -> None:
        super().__init__(snapshot)
        self.is_unanswered = True
        self.now = 0.0
        self._answer_after = answer_after

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.is_unanswered = self.now < self._answer_after

    def answered(self) -> float:
        """How long was waited."""
        finish_orders(self, monotonic=lambda: self.now, pause=self.pause)
        return self.now


LIVE = shown("live")
WRITING = "The last order is being written ...\n"


@pytest.mark.parametrize(
    ("snapshot", "answer_after", "waited", "said"),
    [
        (LIVE, 0.9, 0.9, ""),
        (LIVE, 3.0, 3.0, WRITING),
        (LIVE, 1e9, 20.0, WRITING),
        (replace(LIVE, engine=replace(LIVE.engine, holding="disk full")), 5.0, 0, ""),
    ],
)
def test_who_leaves_right_behind_an_order_waits_for_its_answer_but_not_for_ever(
    capsys: pytest.CaptureFixture[str],
    snapshot: Snapshot,
    answer_after: float,
    waited: float,
    said: str,
) -> None:
    found = Busy(snapshot, answer_after).answered()
    assert found == pytest.approx(waited, abs=0.1)
    assert capsys.readouterr().err == said


HANGING = """
import sys, time
from autoexp_tui.cli import submit
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.detach import end_at_once
with end_at_once():
    print("closing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_ends_at_once(number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "closing\n"
    os.kill(child.pid, number)
    child.communicate(timeout=20)
    assert child.returncode == 130


TERMINATED = """
import time
from autoexp_tui.cli.diagnostics import exit_with
def main(argv):
    print("works", flush=True)
    time.sleep(60)
    return 0
exit_with(main)
"""


def test_sigterm_is_an_interrupt_for_every_command() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", TERMINATED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "works\n"
    os.kill(child.pid, signal.SIGTERM)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (130, "interrupted\n")


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (shown("viewer"), "The engine goes on. Come back: autoexp-tui --session k7f2"),
        (shown("viewer", alive=False), "No engine runs this session now"),
        (replace(shown("live"), open=False), "All jobs have ended."),
        (shown("plan", session=""), "Nothing was submitted."),
    ],
)
def test_a_cockpit_says_how_things_stand_and_how_to_come_back(
    snapshot: Snapshot, words: str
) -> None:
    told = format_farewell(snapshot)
    assert words in told
    assert ("--state-dir /far/state" in told) == bool(snapshot.session)


def test_a_replay_has_nothing_to_say() -> None:
    assert format_farewell(shown("replay")) == ""


def test_an_interrupted_submit_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Campaign(tmp_path)
    campaign.write(families=1, seconds=1.0)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "_wait_sent", interrupted)
    place = ["--state-dir", str(campaign.state_dir)]
    code = run_guarded(submit.main, ["--manifest", str(campaign.manifest), *place])
    assert code == 130
    told = f"autoexp-monitor --session {campaign.session()} {' '.join(place)}"
    assert told in capsys.readouterr().err
    sessions = ["stop", campaign.session(), "--jobs", "--yes", *place]
    assert run_guarded(sessions_main, sessions) == 0


def test_an_engine_left_behind_starts_beside_files_that_are_called_like_modules(
    tmp_path: Path,
) -> None:
    (tmp_path / "argparse.py").write_text("raise RuntimeError('not yours')\n")
    command = build_command(SessionDir(tmp_path / "k7f2"), frozenset())
    module = command.index("autoexp_tui.cli.background")

    ran = subprocess.run(
        [*command[: module + 1], "--help"], cwd=tmp_path, capture_output=True
    )
    assert ran.returncode == 0, ran.stderr


def test_names_that_engines_of_earlier_versions_start_lead_where_they_led(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "main", len)
    assert monitor.main(["--session", "k7f2", "--heir"]) == 2
    assert find_spec("autoexp_tui.adapters.planning_process")
