"""A real process that hangs: its stack is kept, it is ended, and runs again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.model.rules import Monitoring, StateEvent
from tests.e2e.campaign import build_job, run_command, save_plan

WORK = """
import os, time
def stuck_in_all_reduce():
    while True:
        print("still here", flush=True)
        time.sleep(0.2)
for step in range(1, 4):
    print(f"iteration {step}/4 | lm loss: 2.5", flush=True)
    time.sleep(0.3)
    if step == 2 and os.environ["AUTOEXP_ATTEMPT"] == "1":
        stuck_in_all_reduce()
"""
PY_SPY = '#!/bin/sh\necho "Thread $3 (active): stuck_in_all_reduce (work.py:6)"\n'


@dataclass(frozen=True, slots=True)
class Ended:
    """What `autoexp-run` and `autoexp-sessions show` say."""

    job: dict[str, object]
    shown: str
    evidence: Path


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    root = tmp_path_factory.mktemp("hung")
    (root / "work.py").write_text(WORK)
    (root / "bin").mkdir()
    spy = root / "bin" / "py-spy"
    spy.write_text(PY_SPY)
    spy.chmod(0o755)
    again = Restart(reason="hung", conditions=(MaxAttempts(max_attempts=2),))
    hung = StateEvent(name="hung", state="stall", actions=(again,))
    rules = Monitoring(poll_seconds=0.2, stall_after_seconds=2.0, state_events=(hung,))
    job = build_job(root, "train", 0, sys.executable, str(root / "work.py"))
    save_plan(root, [job], rules, slots=1)
    run = _command(root, "run", "--manifest", "plan.json", "--json", "--yes")
    assert run.stdout, run.stderr
    result = json.loads(run.stdout.strip().splitlines()[-1])
    shown = _command(root, "sessions", "show", result["session"])
    detail = _command(root, "sessions", "show", result["session"], "--json")
    (place,) = json.loads(detail.stdout)["jobs"][0]["evidence"]
    return Ended(result["jobs"][0], shown.stdout, Path(place))


def _command(root: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return run_command(root, name, *words, "--state-dir", "state", PATH=path)


def test_the_run_is_ended_although_its_log_grows_and_the_next_one_completes(
    ended: Ended,
) -> None:
    assert (ended.job["state"], ended.job["attempts"]) == ("COMPLETED", 2)


def test_what_is_shown_of_the_session_names_where_the_evidence_is(ended: Ended) -> None:
    assert f"evidence: {ended.evidence}" in ended.shown
    assert str(ended.evidence).endswith("/attempts/train/1/evidence/1-stall")


def test_the_evidence_holds_the_stack_the_processes_and_the_log(ended: Ended) -> None:
    place = ended.evidence
    (stack,) = place.glob("*/py-spy.*.txt")
    (table,) = place.glob("*/processes.txt")
    assert "stuck_in_all_reduce" in stack.read_text()
    assert "work.py" in table.read_text()
    assert (place / "log-tail.txt").read_text().endswith("still here\n")
    assert "ended because: no step after 2 for" in (place / "summary.txt").read_text()
