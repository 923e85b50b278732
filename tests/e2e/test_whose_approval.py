"""Jobs that try to answer what a person is asked, and a person who answers it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import Approval
from autoexp_tui.events import events
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.processes import COOKIE
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import find_sessions
from tests.e2e.campaign import build_job, save_plan, wait_until

APPROVE = f"{sys.executable} -m autoexp_tui.cli.sessions approve $S --state-dir $D"
LEFT = """
import json, os, sys
from pathlib import Path
from dataclasses import replace
from autoexp_tui.storage.inbox import leave
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.inbox import describe_sender
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.model.commands import Answer, Order
import time
session = SessionDir(Path(sys.argv[1]))
digest = load_state(session).state.jobs["spend"].ask.digest
sender = None
if sys.argv[2] == "own":
    sender = replace(describe_sender(session.state_dir), job="")
order = Order(
    command_id=f"forged-{sys.argv[2]}",
    command=Answer(job="spend", digest=digest, approved=True),
    by="cockpit",
    sender=sender,
)
leave(session, order, time.time())
time.sleep(8 if sender else 0)
"""
JOBS: Mapping[str, str] = {
    "plainly": APPROVE,
    "setsid": f"setsid -w {APPROVE}",
    "bare": f"env -i PATH=$PATH setsid -w {APPROVE}",
    "orphan": f"(env -i PATH=$PATH setsid {APPROVE} &) ; sleep 8",
    "unnamed": f"{sys.executable} $LEFT $D/$S unnamed",
    "own": f"{sys.executable} $LEFT $D/$S own",
    "waives": APPROVE.replace("approve $S", "waive $S spend 1"),
}
"""By its name, what each does to have `spend` approved."""


def clean_environment() -> dict[str, str]:
    """As a person has it."""
    return {name: value for name, value in os.environ.items() if name != COOKIE}


class Campaign:
    """One session: `spend`, which asks, and the jobs that would answer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state_dir = root / "state"
        (root / "left.py").write_text(LEFT)
        jobs = [self._job("spend", 0, "true", asks=True)]
        jobs += [self._job(name, n, text) for n, (name, text) in self._scripts()]
        save_plan(root, jobs, Monitoring(poll_seconds=0.3), slots=8)

    def _scripts(self) -> Iterator[tuple[int, tuple[str, str]]]:
        wait = 'while [ ! -e "$READY" ]; do sleep 0.1; done; S=$(cat "$READY"); '
        for n, (name, text) in enumerate(JOBS.items(), 1):
            yield n, (name, f"{wait}{{ {text}; }} > $OUT 2>&1")

    def _job(self, name: str, n: int, text: str, *, asks: bool = False) -> JobSpec:
        env = {
            "READY": str(self.root / "ready"),
            "D": str(self.state_dir),
            "LEFT": str(self.root / "left.py"),
            "OUT": str(self.root / f"{name}.txt"),
        }
        asked = (Approval(prompt="Spend 1000 GPU hours?"),) if asks else ()
        words = ("bash", "-c", text)
        return build_job(self.root, name, n, *words, env=env, start_conditions=asked)

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "autoexp_tui.cli.run"),
                *("--manifest", str(self.root / "plan.json")),
                *("--state-dir", str(self.state_dir)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.root,
            env=clean_environment(),
            text=True,
        )

    @property
    def session(self) -> SessionDir:
        return find_sessions(self.state_dir)[0]

    def asks(self) -> bool:
        found = find_sessions(self.state_dir) if self.state_dir.exists() else []
        if not found:
            return False
        job = load_state(found[0]).state.jobs.get("spend")
        return bool(job and job.ask)

    def others_ended(self) -> bool:
        jobs = load_state(self.session).state.jobs
        return all(jobs[name].ended for name in JOBS)

    def said(self, name: str) -> str:
        return (self.root / f"{name}.txt").read_text()


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    made = Campaign(tmp_path)
    process = made.start()
    try:
        wait_until(made.asks, "nothing was asked")
        (tmp_path / "ready").write_text(made.session.id)
        wait_until(made.others_ended, "the jobs did not end")
        yield made
    finally:
        process.terminate()
        process.wait(20)


def test_no_job_answers_what_a_person_is_asked_and_the_person_does(
    campaign: Campaign,
) -> None:
    """One campaign for all: each way takes seconds of real processes."""
    spend = load_state(campaign.session).state.jobs["spend"]
    assert spend.ask is not None
    assert spend.ask.approved is None
    for name in ("plainly", "setsid", "bare", "orphan", "waives"):
        assert "only a person may answer" in campaign.said(name), name
    refused = {
        record.command_id: record.event.why
        for record in read_session(campaign.session)
        if isinstance(record.event, events.CommandRefused)
    }
    assert refused["forged-unnamed"].code == "sender_unnamed"
    assert refused["forged-own"].code == "sender_is_job"
    assert "attempt 1 of own" in str(refused["forged-own"].arg("by"))

    person = subprocess.run(
        [
            *(sys.executable, "-m", "autoexp_tui.cli.sessions", "approve"),
            *(campaign.session.id, "--state-dir", str(campaign.state_dir), "--json"),
        ],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(person.stdout)["outcome"] == "done", person.stderr
    (answer,) = (
        record.event
        for record in read_session(campaign.session)
        if isinstance(record.event, events.ApprovalAnswered)
    )
    assert answer.sender is not None
    assert answer.sender.checked
    assert answer.sender.user
    assert answer.sender.host
    assert answer.sender.started
    assert not answer.policy
