"""Faults that real engines and jobs meet: clocks, disks, hangs, a spoilt checkpoint."""

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

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts
from autoexp_tui.model.rules import Checkpoints, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import JobState
from tests.e2e.campaign import (
    Campaign,
    build_job,
    result_of,
    run_command,
    save_plan,
    wait_until,
)
from tests.executors.wrapper_runs import all_pids

# ------------------------------------------------------------------ a clock that is set
HOUR = 3600.0
YEAR = 365.25 * 24 * HOUR
CLOCK = """
import time
_real, _path = time.time, "{offset}"

def _shown():
    with open(_path) as file:
        return _real() + float(file.read())

time.time = _shown
"""


@pytest.mark.parametrize("step", [-HOUR, YEAR])
def test_real_engines_hold_nothing_up_when_their_clock_is_set(
    campaign: Campaign, step: float
) -> None:
    root, offset = campaign.root, campaign.root / "offset"
    (root / "sitecustomize.py").write_text(CLOCK.format(offset=offset))
    offset.write_text("0")
    limits = (MaxAttempts(max_attempts=3), Cooldown(cooldown_seconds=6.0))
    never = FileExists(path="/never", timeout_seconds=20.0)
    jobs = (
        build_job(root, "crashes", 0, "sh", "-c", "exit 1"),
        build_job(root, "waits", 1, "true", start_conditions=(never,)),
    )
    again = (Restart(conditions=limits),)
    rule = StateEvent(name="again", state="crash", actions=again)
    save_plan(root, jobs, Monitoring(poll_seconds=0.3, state_events=(rule,)), slots=4)

    def start(command: str, *words: str) -> subprocess.Popen[str]:
        env = {"PYTHONPATH": str(root)}
        return campaign.start(*words, command=command, out=subprocess.DEVNULL, **env)

    engine = start("run", "--manifest", "plan.json", "--yes")
    retries = (JobState.RETRYING, 2)
    campaign.until(
        lambda state: (
            retries in {(job.state, len(job.attempts)) for job in state.jobs.values()}
        )
    )
    ahead = root / "offset.new"
    ahead.write_text(str(step))
    ahead.replace(offset)
    campaign.until(lambda state: "clock" in state.warnings, 30)
    engine.kill()
    engine.wait()
    start("monitor", "--session", campaign.session())
    campaign.until(lambda state: all(job.ended for job in state.jobs.values()), 90)
    state = campaign.state()
    assert len(state.jobs["crashes"].attempts) == 3
    assert state.jobs["waits"].state is JobState.SKIPPED
    assert state.lived < 180


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


# ----------------------------------------------------------------- a process that hangs
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
