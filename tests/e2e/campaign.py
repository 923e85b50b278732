"""What the tests of whole commands share, and a small real campaign.

The campaign's processes leave a line in a ledger when they begin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import FileExists, JobStateIs, MetadataIs
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Edge, ExecutorSpec, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import encode_plan
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


def run_command(
    root: Path, command: str, *words: str, **env: str
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
    )


def result_of(output: str) -> dict[str, dict[str, object]]:
    """The jobs of `--json`'s line, by name."""
    last = output.strip().splitlines()[-1]
    return {job["name"]: job for job in json.loads(last)["jobs"]}


def wait_until(
    holds: Callable[[], object], what: str = "it", seconds: float = 60.0
) -> None:
    """Wait until something holds; raises AssertionError where it did not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.1)


def build_job(
    root: Path, name: str, index: int, *command: str, **fields: object
) -> JobSpec:
    """A job that writes below `root`."""
    return JobSpec(
        name=name,
        index=index,
        command=command,
        output_dir=str(root / "out" / name),
        log_dir=str(root / "logs" / name),
        **fields,  # type: ignore[arg-type]
    )


def save_plan(
    root: Path, jobs: Sequence[JobSpec], monitoring: Monitoring, slots: int = 64
) -> None:
    """Write `plan.json`; its sessions lie in `state`."""
    plan = Plan(
        plan_id="p",
        name="plan",
        state_dir=str(root / "state"),
        jobs=tuple(jobs),
        executor=ExecutorSpec(settings={"slots": slots}),
        monitoring=monitoring,
    )
    (root / "plan.json").write_bytes(encode_plan(plan))


@dataclass(frozen=True, slots=True)
class Campaign:
    """Where a campaign's plan, state and ledger lie."""

    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.txt"

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def manifest(self) -> Path:
        return self.root / "plan.json"

    def write(
        self, families: int = 3, seconds: float = 1.0, first_seconds: float = 0.0
    ) -> None:
        """Write the worker and the manifest; `first_seconds`: of the first job."""
        (self.root / "work.py").write_text(WORK)
        plan = self._plan(families, seconds, first_seconds or seconds)
        self.manifest.write_bytes(encode_plan(plan))

    def _plan(self, families: int, seconds: float, first_seconds: float) -> Plan:
        jobs: list[JobSpec] = []
        edges: list[Edge] = []
        for family in range(families):
            first, second = f"stable{family}", f"cooldown{family}"
            crash = "once" if family == 0 else "never"
            lasts = seconds if family else first_seconds
            jobs.append(self._job(first, len(jobs), lasts, crash))
            jobs.append(
                self._job(
                    second,
                    len(jobs),
                    seconds / 2,
                    start_conditions=(
                        FileExists(
                            path=str(self.root / "out" / first / "done.txt"),
                            writer=first,
                        ),
                        MetadataIs(key="iteration", job=first, op=">=", value=4),
                    ),
                    cancel_conditions=(JobStateIs(jobs=(first,), state="FAILED"),),
                    depends_on=(first,),
                )
            )
            edges.append(Edge(before=first, after=second, mode="waits"))
        names = tuple(job.name for job in jobs if job.name.startswith("cool"))
        done = JobStateIs(jobs=names, state="COMPLETED")
        jobs.append(
            self._job(
                "report", len(jobs), 0.1, start_conditions=(done,), depends_on=names
            )
        )
        edges += [Edge(before=name, after="report", mode="waits") for name in names]
        return Plan(
            plan_id="e2e",
            name="e2e",
            state_dir=str(self.state_dir),
            jobs=tuple(jobs),
            edges=tuple(edges),
            executor=ExecutorSpec(settings={"slots": 4}),
            monitoring=Monitoring(
                poll_seconds=0.3,
                doomed_grace_seconds=1.0,
                log_events=(
                    LogEvent(
                        name="saved",
                        pattern=r"saved checkpoint from iteration (?P<n>\d+)",
                        pattern_type="regex",
                        extract_groups={"iteration": "n"},
                    ),
                ),
                state_events=(
                    StateEvent(
                        name="crashed", state="crash", actions=(Restart(reason="once"),)
                    ),
                ),
            ),
        )

    def _job(
        self,
        name: str,
        index: int,
        seconds: float,
        crash: str = "never",
        **fields: object,
    ) -> JobSpec:
        out = self.root / "out" / name
        out.mkdir(parents=True, exist_ok=True)
        command = (
            sys.executable,
            str(self.root / "work.py"),
            name,
            str(seconds),
            str(self.ledger),
            str(out),
            crash,
        )
        stage = name.rstrip("0123456789")
        return build_job(self.root, name, index, *command, stage=stage, **fields)

    def start(self, *arguments: str, command: str = "run") -> subprocess.Popen[str]:
        """Start a command of ours over the campaign."""
        words = [sys.executable, "-m", f"autoexp_tui.cli.{command}"]
        return subprocess.Popen(
            [*words, "--state-dir", str(self.state_dir), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
        )

    def session(self) -> str:
        """The one session of the state directory; empty before there is one."""
        if not self.state_dir.exists():
            return ""
        found = [
            path.name
            for path in self.state_dir.iterdir()
            if list(path.glob("journal.*.jsonl"))
        ]
        return found[0] if found else ""

    def begun(self) -> Counter[str]:
        """How often each attempt began, by its own word."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(" ".join(line.split()[:2]) for line in lines)

    def living(self) -> list[int]:
        """Worker processes that are alive."""
        marker = str(self.root / "work.py").encode()
        return [pid for pid in map(int, _pids()) if marker in _command_line(pid)]


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdecimal()]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@dataclass
class World:
    """A session of real engines that Python prepares with a module of the test's."""

    root: Path
    stack: ExitStack

    def start(self, command: str, *words: str, **env: str) -> subprocess.Popen[bytes]:
        """Start a command; `sitecustomize.py` of the root is read at its start."""
        ours = [sys.executable, "-m", f"autoexp_tui.cli.{command}"]
        process = subprocess.Popen(
            [*ours, "--state-dir", str(self.root / "state"), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root), **env},
        )
        self.stack.callback(process.communicate)
        self.stack.callback(process.kill)
        return process

    @property
    def session(self) -> SessionDir:
        """The one session; raises StopIteration before there is one."""
        found = (self.root / "state").glob("*/journal.*.jsonl")
        return SessionDir(next(found).parent)

    def state(self) -> SessionState:
        """Of the session; empty before there is one."""
        with suppress(StopIteration):
            return load_state(self.session, tail=1).state
        return SessionState()

    def until(self, holds: Callable[[SessionState], object], seconds: float) -> None:
        """Wait until something holds of the session."""
        wait_until(lambda: holds(self.state()), seconds=seconds)
