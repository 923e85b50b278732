"""A file system that does not answer, in a real engine with real threads and jobs."""

from __future__ import annotations

import signal
import subprocess
import sys

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec
from tests.e2e.campaign import Campaign, build_job, run_command, save_plan, wait_until

ENGINE = """
import os, sys, threading

hung = sys.argv.pop(1)
real = os.stat

def stat(path, *args, **fields):
    if isinstance(path, str) and path.startswith(hung):
        threading.Event().wait()
    return real(path, *args, **fields)

os.stat = stat
from autoexp_tui.probes import pools
from autoexp_tui.engine import mount_workers as lanes

pools.mount_points = lambda table: frozenset({"/", hung})
lanes.SILENT_SECONDS = 1.0
from autoexp_tui.cli.run import entry

sys.exit(entry())
"""
"""autoexp-run on a machine where one mount point hangs at every stat."""


def test_all_else_goes_on_the_wait_says_who_does_not_answer_and_the_engine_ends(
    campaign: Campaign,
) -> None:
    root, hung = campaign.root, str(campaign.root / "scratch")

    def job(name: str, index: int, *waits: str) -> JobSpec:
        conditions = tuple(FileExists(path=path) for path in waits)
        words = ("touch", str(root / f"{name}.done"))
        return build_job(root, name, index, *words, start_conditions=conditions)

    jobs = (
        job("stuck", 0, f"{hung}/never"),
        job("first", 1),
        job("second", 2, str(root / "first.done")),
    )
    save_plan(root, jobs, Monitoring(poll_seconds=0.2), slots=2)
    state = ("--state-dir", str(campaign.state_dir))
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE, hung, "--manifest", "plan.json", *state],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    campaign.started.append(process)
    wait_until((root / "second.done").exists)

    def is_told() -> bool:
        shown = run_command(root, "sessions", "show", campaign.session(), *state)
        return f"no answer from {hung}" in shown.stdout

    wait_until(is_told)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "autoexp-run --session" in err
