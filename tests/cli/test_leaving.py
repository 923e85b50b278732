"""What is said on leaving, and that a second interrupt does not wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoexp_tui.cli import background, diagnostics, monitor, submit
from autoexp_tui.cli.background import build_command
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.headless import detach, finish_orders, format_farewell
from autoexp_tui.engine.live import POLL_SECONDS, ViewerHandle, make_plan_snapshot
from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.model.snapshot import Role, Snapshot
from autoexp_tui.storage.live_sink import FileSessionWatcher
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock
from tests.cli.session_places import Place
from tests.e2e.campaign import Campaign
from tests.support.journal_contract import PLAN
from tests.support.scripted_handle import ScriptedHandle

Captured = pytest.CaptureFixture[str]


def shown(role: Role, session: str = "k7f2", *, alive: bool = True) -> Snapshot:
    plan = make_plan_snapshot(PLAN)
    directory = "/far/state/k7f2" if session else ""
    view = replace(plan.engine, role=role, owner_alive=alive, directory=directory)
    return replace(plan, session=session, engine=view)


LIVE, UNBORN = shown("live"), shown("plan", session="")
DEAD = shown("viewer", alive=False)


def test_how_to_go_on_is_said_before_the_engine_is_waited_for_or_once_it_is_known(
    capsys: Captured,
) -> None:
    class Slow(ScriptedHandle):
        def close(self, *, hand_over: bool = False) -> None:
            assert not hand_over
            assert "autoexp-run --session k7f2" in capsys.readouterr().err
            super().close()

    class Beginning(ScriptedHandle):
        def close(self, *, hand_over: bool = False) -> None:
            self.push(LIVE)

    handle = Slow(LIVE)
    assert detach(handle, "autoexp-run") == 130
    assert handle.closed
    detach(Beginning(UNBORN), "autoexp-run")
    assert "autoexp-run --session k7f2" in capsys.readouterr().err
    assert detach(ScriptedHandle(UNBORN), "autoexp-run") == 130
    assert capsys.readouterr().err == "interrupted. Nothing was submitted.\n"


class Busy(ScriptedHandle):
    """Has an order under way; `pause` is where its time goes."""

    def __init__(self, snapshot: Snapshot, answer_after: float) -> None:
        super().__init__(snapshot)
        self.is_unanswered, self.now, self._answer_after = True, 0.0, answer_after

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.is_unanswered = self.now < self._answer_after


FULL = replace(LIVE, engine=replace(LIVE.engine, holding="disk full"))


@pytest.mark.parametrize(
    ("snapshot", "answer_after", "waited"),
    [(LIVE, 0.9, 0.9), (LIVE, 3.0, 3.0), (LIVE, 1e9, 20.0), (FULL, 5.0, 0)],
)
def test_who_leaves_right_behind_an_order_waits_for_its_answer_but_not_for_ever(
    snapshot: Snapshot,
    answer_after: float,
    waited: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Busy(snapshot, answer_after)
    clock = SimpleNamespace(monotonic=lambda: busy.now, sleep=busy.pause)
    monkeypatch.setattr(diagnostics, "time", clock)
    finish_orders(busy)
    assert busy.now == pytest.approx(waited, abs=0.1)


def test_who_leaves_an_engine_that_cannot_write_is_told_that_the_order_is_lost(
    capsys: Captured,
) -> None:
    finish_orders(Busy(FULL, 5.0))
    assert "what you ordered last is not on the disk: disk full" in (
        capsys.readouterr().err
    )
    finish_orders(ScriptedHandle(FULL))
    assert capsys.readouterr().err == ""


HANGING = """
import sys, time
from autoexp_tui.cli.headless import end_at_once
with end_at_once():
    print("works", flush=True)
    while True:  # a signal just before one sleep is met before the next
        time.sleep(0.1)
"""
TERMINATED = """
import time
from autoexp_tui.cli.diagnostics import exit_with
def main(argv):
    print("works", flush=True)
    while True:
        time.sleep(0.1)
exit_with(main)
"""


@pytest.mark.parametrize(
    ("code", "number", "said"),
    [
        (HANGING, signal.SIGINT, ""),
        (HANGING, signal.SIGTERM, ""),
        (TERMINATED, signal.SIGTERM, "interrupted\n"),
    ],
)
def test_sigterm_is_an_interrupt_and_the_second_one_ends_at_once(
    code: str, number: signal.Signals, said: str
) -> None:
    words, pipe = [sys.executable, "-c", code], subprocess.PIPE
    child = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "works\n"
    os.kill(child.pid, number)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (130, said)


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (shown("viewer"), "The engine goes on. Come back: autoexp-tui --session k7f2"),
        (DEAD, "What runs goes on; nothing more is submitted until you come back:"),
        (replace(LIVE, open=False), "All jobs have ended."),
        (UNBORN, "Nothing was submitted."),
    ],
)
def test_a_cockpit_says_how_things_stand_and_how_to_come_back(
    snapshot: Snapshot, words: str
) -> None:
    told = format_farewell(snapshot, "autoexp-tui")
    assert words in told
    assert ("--state-dir /far/state" in told) == bool(snapshot.session)
    assert format_farewell(shown("replay"), "autoexp-tui") == ""


def test_an_interrupted_submit_says_how_to_go_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Campaign(place.root)
    campaign.write(families=1, seconds=1.0)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "_wait_sent", interrupted)
    where = ["--state-dir", str(campaign.state_dir)]
    code = run_guarded(submit.main, ["--manifest", str(campaign.manifest), *where])
    assert code == 130
    told = f"autoexp-monitor --session {campaign.session()} {' '.join(where)}"
    assert told in place.capsys.readouterr().err
    place.told("stop", campaign.session(), "--jobs", "--yes")


def test_an_engine_left_behind_starts_beside_files_that_are_called_like_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("raise RuntimeError('not yours')\n")
    command = build_command(SessionDir(tmp_path / "k7f2"), frozenset())
    module = command.index("autoexp_tui.cli.background")
    words = [*command[: module + 1], "--help"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    # Names that engines of earlier versions start lead where they led.
    monkeypatch.setattr(background, "main", len)
    assert monitor.main(["--session", "k7f2", "--heir"]) == 2
    assert find_spec("autoexp_tui.adapters.planning_process")


class SlowDisk(FileSessionWatcher):
    """Writes a command when the view was closed before it, or long after."""

    def __init__(self, session: SessionDir) -> None:
        super().__init__(session, ManualClock())
        self.closed, self.written = threading.Event(), False

    def leave(self, order: Order) -> None:
        if not self.closed.wait(3 * POLL_SECONDS):
            super().leave(order)
            self.written = True

    def close(self) -> None:
        self.closed.set()
        super().close()


def test_closing_waits_for_a_command_that_is_being_written(place: Place) -> None:
    watcher = SlowDisk(place.session("k7f2"))
    handle = ViewerHandle(watcher, ManualClock())
    handle.send(Pause())
    handle.close()
    assert watcher.written
