"""Two starts of one search at a time: one of them owns it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from autoexp_tui.cli import headless, tree
from autoexp_tui.cli import open as opening
from autoexp_tui.engine.live import LiveHandle
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.storage import lease
from autoexp_tui.storage.sessions import find_sessions
from tests.model.builders import plan

NEEDED = ("assemble", "executors", "tree_runs")
"""Loaded before a child is made, so that it need not."""
for name in NEEDED:
    import_module(f"autoexp_tui.cli.{name}")
import_module("autoexp_tui.evaluation.disk_trees")
import_module("autoexp_tui.executors.local.executor")
MANY = int(os.environ.get("RACES", "50"))


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where searches begin whose plan is there already, and whose engines do nothing
    but own their session."""
    parts = {part: {"agent": ["a"]} for part in ("ideas", "implement")}
    parts["evaluate"] = {"command": ["true"]}
    made = replace(plan(), tree={"repository": "demo", "run": "X", **parts})
    monkeypatch.setattr(opening, "make_plan", lambda _options: (made, ()))
    monkeypatch.setattr(LiveHandle, "_run", lambda *_: None)
    monkeypatch.setattr(lease, "WAIT_STEP_SECONDS", 0.02)
    return tmp_path / "state"


@pytest.mark.parametrize("races", [6, pytest.param(MANY, marks=pytest.mark.slow)])
def test_of_two_starts_of_one_search_one_owns_it(state_dir: Path, races: int) -> None:
    found = [race_once(state_dir) for _ in range(races)]
    assert found == [("01", 1)] * races


def race_once(state_dir: Path) -> tuple[str, int]:
    """Who of two became the owner, and how many sessions there are."""
    gate, go = os.pipe()
    verdicts, tell = os.pipe()
    hold, let_go = os.pipe()
    pids = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.close(let_go)
            start(state_dir, gate, tell, hold)
        pids.append(pid)
    os.close(go)  # both read its end at once
    os.close(tell)
    told = sorted(os.read(verdicts, 1).decode() for _ in pids)
    os.close(let_go)  # an owner that ended would be a dead one
    for pid in pids:
        os.waitpid(pid, 0)
    for descriptor in (gate, verdicts, hold):
        os.close(descriptor)
    sessions = find_sessions(state_dir)
    shutil.rmtree(state_dir)
    return "".join(told), len(sessions)


def start(state_dir: Path, gate: int, tell: int, hold: int) -> None:
    """Start the search in a child of the test."""

    def say(verdict: bytes) -> None:
        os.write(tell, verdict)
        os.read(hold, 1)
        os._exit(0)

    headless.watch = lambda *_: say(b"1")  # type: ignore[assignment]
    os.read(gate, 1)
    try:
        tree.main(["--run", "X", "--quiet", "--state-dir", str(state_dir)])
    except SessionOwned:
        say(b"0")
    except BaseException as error:  # noqa: BLE001 - a child tells its parent
        print(repr(error), file=sys.stderr, flush=True)
        say(b"x")
