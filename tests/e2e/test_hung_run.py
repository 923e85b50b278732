"""A real process that hangs: its stack is kept, it is ended, and runs again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.model.rules import Monitoring, StateEvent
from tests.e2e.campaign import build_job, result_of, run_command, save_plan

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


def test_the_evidence_holds_the_stack_the_processes_and_the_log(tmp_path: Path) -> None:
    """The run is ended although its log grows, and the next one completes."""
    (tmp_path / "work.py").write_text(WORK)
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text(PY_SPY)
    spy.chmod(0o755)
    again = Restart(reason="hung", conditions=(MaxAttempts(max_attempts=2),))
    hung = StateEvent(name="hung", state="stall", actions=(again,))
    rules = Monitoring(poll_seconds=0.2, stall_after_seconds=2.0, state_events=(hung,))
    job = build_job(tmp_path, "train", 0, sys.executable, str(tmp_path / "work.py"))
    save_plan(tmp_path, [job], rules, slots=1)

    def told(command: str, *words: str) -> str:
        path = f"{spy.parent}{os.pathsep}{os.environ['PATH']}"
        words = (*words, "--state-dir", "state")
        run = run_command(tmp_path, command, *words, PATH=path)
        assert run.stdout, run.stderr
        return run.stdout

    job_told = result_of(told("run", "--manifest", "plan.json", "--json"))["train"]
    assert (job_told["state"], job_told["attempts"]) == ("COMPLETED", 2)
    (session,) = (path.parent.name for path in tmp_path.glob("state/*/journal.jsonl"))
    shown = result_of(told("sessions", "show", session, "--json"))["train"]
    (evidence,) = shown["evidence"]
    assert f"evidence: {evidence}" in told("sessions", "show", session)
    assert evidence.endswith("/attempts/train/1/evidence/1-stall")
    place = Path(evidence)
    (stack,) = place.glob("*/py-spy.*.txt")
    (table,) = place.glob("*/processes.txt")
    assert "stuck_in_all_reduce" in stack.read_text()
    assert "work.py" in table.read_text()
    assert (place / "log-tail.txt").read_text().endswith("still here\n")
    assert "ended because: no step after 2 for" in (place / "summary.txt").read_text()
