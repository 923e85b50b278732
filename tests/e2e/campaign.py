"""A small real campaign, whose jobs leave a line in a ledger, and commands over it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.kinds import FileExists, JobStateIs, MetadataIs
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Edge, ExecutorSpec, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import encode_plan
from autoexp_tui.storage.lease import Holder, LeaseWatch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir

WORK = """
import os, sys, time
name, seconds, ledger, out, crash = sys.argv[1:6]
attempt = os.environ["AUTOEXP_ATTEMPT"]
with open(ledger, "a") as file:
    file.write(f"{name} {attempt} {os.getpid()}\\n")
for step in range(1, 6):
    print(f"iteration {step}/5 | lm loss: {3 - step / 10:.3f}", flush=True)
    time.sleep(float(seconds) / 5)
    if step == 2 and crash == "once" and os.environ["AUTOEXP_RESUME"] == "0":
        raise RuntimeError("a fault that happens once")
    if step == 4:
        open(os.path.join(out, "done.txt"), "w").write("done")
        print("saved checkpoint from iteration 4", flush=True)
"""
LIMIT_SECONDS = 300.0
"""Far above what a command takes; a busy machine is no fault of ours."""
Jobs = dict[str, dict[str, Any]]
"""What `--json` tells of each job, by name."""


def run_command(
    root: Path, command: str, *words: str, umask: int = -1, **env: str
) -> subprocess.CompletedProcess[str]:
    """A command of ours in a directory, to its end."""
    return subprocess.run(
        [sys.executable, "-m", f"autoexp_tui.cli.{command}", *words],
        cwd=root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
        umask=umask,
    )


def result_of(output: str) -> Jobs:
    """The jobs of `--json`'s line."""
    last = output.strip().splitlines()[-1]
    return {job["name"]: job for job in json.loads(last)["jobs"]}


def states_of(jobs: Jobs) -> set[str]:
    return {job["state"] for job in jobs.values()}


def wait_until(
    holds: Callable[[], object], what: str = "it", seconds: float = 60.0
) -> None:
    """Wait until something holds; raises AssertionError where it did not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.1)


def write_files(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def build_job(
    root: Path, name: str, index: int, *command: str, **fields: Any
) -> JobSpec:
    """A job that writes below `root`."""
    own = {"output_dir": str(root / "out" / name), "log_dir": str(root / "logs" / name)}
    return JobSpec(name=name, index=index, command=command, **{**own, **fields})


def save_plan(
    root: Path,
    jobs: Sequence[JobSpec],
    monitoring: Monitoring,
    slots: int = 64,
    edges: Sequence[Edge] = (),
) -> None:
    """Write `plan.json`; its sessions lie in `state`."""
    plan = Plan(
        plan_id="p",
        name="plan",
        state_dir=str(root / "state"),
        jobs=tuple(jobs),
        edges=tuple(edges),
        executor=ExecutorSpec(settings={"slots": slots}),
        monitoring=monitoring,
    )
    (root / "plan.json").write_bytes(encode_plan(plan))


@dataclass(frozen=True)
class Place:
    """A directory with a plan, its sessions, a ledger, and what was started there."""

    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list, init=False)

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.txt"

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def manifest(self) -> Path:
        return self.root / "plan.json"

    @property
    def env(self) -> Mapping[str, str]:
        """Of the commands."""
        return os.environ

    def start(
        self, *words: str, command: str = "run", out: int = subprocess.PIPE, **env: str
    ) -> subprocess.Popen[str]:
        """Start a command of ours over the directory."""
        ours = [sys.executable, "-m", f"autoexp_tui.cli.{command}"]
        process = subprocess.Popen(
            [*ours, "--state-dir", str(self.state_dir), *words],
            stdout=out,
            stderr=out,
            text=True,
            cwd=self.root,
            env={**self.env, **env},
        )
        self.started.append(process)
        return process

    def run(self) -> subprocess.Popen[str]:
        """Start `autoexp-run --json` from the plan, or of the session there is."""
        session = self.session()
        what = ("--session", session) if session else ("--manifest", str(self.manifest))
        return self.start(*what, "--json")

    def end(self) -> None:
        """End what was started here."""
        for process in self.started:
            process.kill()
            process.communicate()

    def session(self) -> str:
        """The one session of the state directory; empty before there is one."""
        found = list(self.state_dir.glob("*/journal.*.jsonl"))
        return found[0].parent.name if found else ""

    @property
    def session_dir(self) -> SessionDir:
        return SessionDir(self.state_dir / self.session())

    def state(self) -> SessionState:
        """Of the session; empty before there is one."""
        if not self.session():
            return SessionState()
        return load_state(self.session_dir, tail=1).state

    def until(
        self, holds: Callable[[SessionState], object], seconds: float = 60.0
    ) -> None:
        """Wait until something holds of the session."""
        wait_until(lambda: holds(self.state()), seconds=seconds)

    def owner(self) -> Holder | None:
        """Whose engine holds the session and is alive."""
        watch = LeaseWatch(self.session_dir)
        holder = watch.find_holder()
        alive = watch.check_alive(holder, SystemClock().monotonic())
        return holder if alive is Alive.YES else None

    def owner_pid(self) -> int:
        holder = self.owner()
        return holder.identity.pid if holder and holder.identity else 0

    def begun(self) -> Counter[str]:
        """How often each attempt began, by its own word."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(" ".join(line.split()[:2]) for line in lines)


@dataclass(frozen=True)
class Campaign(Place):
    """Families of a job and one that waits for its checkpoint; then a report."""

    def write(
        self, families: int = 3, seconds: float = 1.0, first_seconds: float = 0.0
    ) -> None:
        """Write the worker and the plan; `first_seconds`: of the first job."""
        (self.root / "work.py").write_text(WORK)
        jobs: list[JobSpec] = []
        edges: list[Edge] = []
        for family in range(families):
            first, second = f"stable{family}", f"cooldown{family}"
            crash = "never" if family else "once"
            lasts = seconds if family else first_seconds or seconds
            jobs.append(self._job(first, len(jobs), lasts, crash))
            done = str(self.root / "out" / first / "done.txt")
            starts = (
                FileExists(path=done, writer=first),
                MetadataIs(key="iteration", job=first, op=">=", value=4),
            )
            waits = self._job(
                second,
                len(jobs),
                seconds / 2,
                start_conditions=starts,
                cancel_conditions=(JobStateIs(jobs=(first,), state="FAILED"),),
                depends_on=(first,),
            )
            jobs.append(waits)
            edges.append(Edge(before=first, after=second, mode="waits"))
        names = tuple(f"cooldown{family}" for family in range(families))
        ended = (JobStateIs(jobs=names, state="COMPLETED"),)
        last: dict[str, Any] = {"start_conditions": ended, "depends_on": names}
        jobs.append(self._job("report", len(jobs), 0.1, **last))
        edges += [Edge(before=name, after="report", mode="waits") for name in names]
        saved = LogEvent(
            name="saved",
            pattern=r"saved checkpoint from iteration (?P<n>\d+)",
            pattern_type="regex",
            extract_groups={"iteration": "n"},
        )
        again = Restart(reason="once")
        rules = Monitoring(
            poll_seconds=0.3,
            doomed_grace_seconds=1.0,
            log_events=(saved,),
            state_events=(StateEvent(name="crashed", state="crash", actions=(again,)),),
        )
        save_plan(self.root, jobs, rules, slots=4, edges=edges)

    def _job(
        self, name: str, index: int, seconds: float, crash: str = "never", **fields: Any
    ) -> JobSpec:
        out = self.root / "out" / name
        out.mkdir(parents=True, exist_ok=True)
        words = (str(self.root / "work.py"), name, str(seconds), str(self.ledger))
        command = (sys.executable, *words, str(out), crash)
        stage = name.rstrip("0123456789")
        return build_job(self.root, name, index, *command, stage=stage, **fields)

    def living(self) -> list[int]:
        """Worker processes that are alive."""
        marker = str(self.root / "work.py").encode()
        pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        return [pid for pid in pids if marker in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
