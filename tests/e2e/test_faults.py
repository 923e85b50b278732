"""Faults that real engines and jobs meet: disks, hangs, a spoilt checkpoint."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.kinds import FileExists, MaxAttempts
from autoexp_tui.model.rules import Checkpoints, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec
from tests.e2e.campaign import (
    Campaign,
    build_job,
    result_of,
    run_command,
    save_plan,
    wait_until,
)
from tests.executors.wrapper_runs import all_pids

# --------------------------------------------------- a file system that does not answer
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
from autoexp_tui.engine import poller

pools.mount_points = lambda table: frozenset({"/", hung})
poller.SILENT_SECONDS = 1.0
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


# ----------------------------------------------- a state directory that takes no record
NAMES = ("one", "two")
OUTAGE_SECONDS = 8.0
"""Longer than a local job may be without a trace before it is lost."""
SCRIPT = """
echo "$AUTOEXP_JOB $AUTOEXP_ATTEMPT x" >> {root}/ledger.txt
while [ ! -e {root}/go ]; do sleep 0.05; done
touch {root}/over.$AUTOEXP_JOB
"""


def mount(*words: str) -> None:
    """Raises CalledProcessError where this process may not mount."""
    subprocess.run(["mount", *words], check=True, capture_output=True)


@pytest.fixture
def disk(campaign: Campaign) -> Iterator[Path]:
    """The campaign's state directory on a disk apart."""
    place = campaign.state_dir
    place.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=4m", "none", str(place))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    yield place
    for pid in all_pids():  # of a test that failed: they would try for ever
        with suppress(OSError):
            if os.fsencode(campaign.root) in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    while os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_read_only(place: Path) -> Callable[[], None]:
    """Nothing below it can be made, as after a failed disk; what ends that."""
    mount("--bind", str(place), str(place))
    mount("-o", "remount,ro,bind", str(place))
    return lambda: mount("-o", "remount,rw,bind", str(place))


def fill(place: Path) -> Callable[[], None]:
    """No room is left on its disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return filler.unlink


@pytest.mark.parametrize("spoil", [make_read_only, fill])
def test_jobs_that_end_meanwhile_ran_once_though_a_supervisor_is_killed(
    spoil: Callable[[Path], Callable[[], None]], campaign: Campaign, disk: Path
) -> None:
    again = StateEvent(name="crashed", state="crash", actions=(Restart(reason="x"),))
    root, script = campaign.root, SCRIPT.format(root=campaign.root)
    jobs = [build_job(root, x, n, "sh", "-c", script) for n, x in enumerate(NAMES)]
    save_plan(root, jobs, Monitoring(poll_seconds=0.3, state_events=(again,)))
    run = campaign.run()

    def begun() -> list[dict[str, Any]]:
        found = disk.glob("*/attempts/*/1/begin.0.json")
        return [json.loads(path.read_text()) for path in found]

    wait_until(lambda: len(begun()) == 2)
    supervisor = begun()[0]["process"]["pid"]
    end = spoil(disk)
    (root / "go").touch()
    wait_until(lambda: len(list(root.glob("over.*"))) == 2)
    os.kill(supervisor, signal.SIGKILL)
    time.sleep(OUTAGE_SECONDS)
    end()
    out, err = run.communicate(timeout=120)
    told = result_of(out)
    assert [told[name]["state"] for name in NAMES] == ["COMPLETED"] * 2, err
    assert campaign.begun() == {"one 1": 1, "two 1": 1}


# ----------------------------------------------------- a checkpoint that cannot be read
LATEST = "latest_checkpointed_iteration.txt"


def test_a_run_goes_on_from_the_checkpoint_before_a_spoilt_one(
    campaign: Campaign,
) -> None:
    """A trainer of 300 steps whose checkpoint at 200 is spoilt by its first attempt."""
    save = campaign.root / "out/train/checkpoints"
    words = [sys.executable, "-m", "autoexp_tui.demo", "train", "--save", str(save)]
    words += ["--train-iters", "300", "--warmup-iters", "10", "--save-interval", "100"]
    words += ["--crash-at", "250", "--hidden", "8", "--batch-size", "4"]
    spoil = f"echo junk > {shlex.quote(str(save))}/iter_00000200/model.npz"
    again = f'[ "$AUTOEXP_RESUME" = 0 ] && {spoil}; exit 1'
    script = f"{shlex.join(words)} && exit; {again}"
    restart = Restart(quarantine_after=1, conditions=(MaxAttempts(max_attempts=5),))
    rule = StateEvent(name="crashed", state="crash", actions=(restart,))
    where = Checkpoints(glob="checkpoints/iter_*", pointer=f"checkpoints/{LATEST}")
    job = build_job(campaign.root, "train", 0, "bash", "-c", script)
    save_plan(campaign.root, [job], Monitoring(state_events=(rule,), checkpoints=where))
    run = campaign.run()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert result_of(out)["train"]["attempts"] == 3
    assert (save / "iter_00000200.quarantined-1/model.npz").read_text() == "junk\n"
    assert (save / "iter_00000200/done.txt").exists(), "it was trained anew"
    assert (save / LATEST).read_text() == "300\n"
    log = (campaign.root / "logs/train/current.log").read_text()
    assert "iteration 100" in log
    warnings = campaign.state().warnings.values()
    assert [warned.why.code for warned in warnings] == ["quarantined"]
