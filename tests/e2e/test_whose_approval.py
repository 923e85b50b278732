"""Jobs that try to answer what a person is asked, and a person who answers it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from autoexp_tui.conditions.kinds import Approval
from autoexp_tui.events import events
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.journal import read_session
from autoexp_tui.storage.processes import COOKIE
from tests.e2e.campaign import Campaign, build_job, save_plan

APPROVE = f"{sys.executable} -m autoexp_tui.cli.sessions approve $S --state-dir $D"
LEFT = """
import sys, time
from pathlib import Path
from dataclasses import replace
from autoexp_tui.storage.inbox import describe_sender, leave
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.model.commands import Answer, Order
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
    "unnamed": f"{sys.executable} left.py $D/$S unnamed",
    "own": f"{sys.executable} left.py $D/$S own",
    "waives": APPROVE.replace("approve $S", "waive $S spend 1"),
}
"""By its name, what each does to have `spend` approved."""
WAIT = "while [ ! -e ready ]; do sleep 0.1; done; S=$(cat ready); "


def test_no_job_answers_what_a_person_is_asked_and_the_person_does(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One campaign for all: each way takes seconds of real processes."""
    monkeypatch.delenv(COOKIE, raising=False)  # as a person has it
    root = campaign.root
    (root / "left.py").write_text(LEFT)

    def job(name: str, index: int, text: str, *asks: Approval) -> JobSpec:
        words = ("bash", "-c", text)
        place = {"env": {"D": str(campaign.state_dir)}, "cwd": str(root)}
        return build_job(root, name, index, *words, start_conditions=asks, **place)

    jobs = [job("spend", 0, "true", Approval(prompt="Spend 1000 GPU hours?"))]
    for index, (name, text) in enumerate(JOBS.items(), 1):
        jobs.append(job(name, index, f"{WAIT}{{ {text}; }} > {name}.txt 2>&1"))
    save_plan(root, jobs, Monitoring(poll_seconds=0.3), slots=8)
    campaign.start("--manifest", str(campaign.manifest), out=subprocess.DEVNULL)
    campaign.until(lambda state: state.jobs and state.jobs["spend"].ask)
    (root / "ready.new").write_text(campaign.session())
    (root / "ready.new").replace(root / "ready")
    campaign.until(lambda state: all(state.jobs[name].ended for name in JOBS))

    spend = campaign.state().jobs["spend"]
    assert spend.ask is not None
    assert spend.ask.approved is None
    for name in ("plainly", "setsid", "bare", "orphan", "waives"):
        said = (root / f"{name}.txt").read_text()
        assert "only a person may answer" in said, name
    refused = {
        one.command_id: one.event.why
        for one in read_session(campaign.session_dir)
        if isinstance(one.event, events.CommandRefused)
    }
    assert refused["forged-unnamed"].code == "sender_unnamed"
    assert refused["forged-own"].code == "sender_is_job"
    assert "attempt 1 of own" in str(refused["forged-own"].arg("by"))

    words = ("approve", campaign.session(), "--json")
    said, err = campaign.start(*words, command="sessions").communicate(timeout=60)
    assert json.loads(said)["outcome"] == "done", err
    given = [one.event for one in read_session(campaign.session_dir)]
    (answer,) = (one for one in given if isinstance(one, events.ApprovalAnswered))
    sender = answer.sender
    assert sender is not None
    assert all((sender.checked, sender.user, sender.host, sender.started))
    assert not answer.policy
