"""Runs the wrapper as a session would, for tests; and the wrapper that kills itself."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoexp_tui.executors import wrapper

PATIENCE = 20.0
"""Seconds before something that should happen counts as not happening."""

_DRIVER = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("wrapper", sys.argv[1])
wrapper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wrapper)
role, place, supervisor, calls = sys.argv[2], int(sys.argv[3]), os.getpid(), [0]

def is_victim():
    one = supervisor if role == "supervisor" else os.getppid()
    return one == supervisor and (role == "guard") == (os.getpid() != supervisor)

def wrapped(call):
    def step(*arguments, **more):
        if is_victim():
            calls[0] += 1
            if calls[0] == place:
                os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **more)
    return step

for name in ("open", "close", "link", "unlink", "rename", "replace", "symlink", "fork",
             "write", "fsync", "read", "setsid", "wait4", "waitid", "killpg"):
    setattr(os, name, wrapped(getattr(os, name)))
sys.exit(wrapper.main(sys.argv[4:]))
"""
"""The wrapper that kills one of its processes before the given call to the system."""


def until(
    holds: Callable[[], object], seconds: float = PATIENCE, pause: float = 0.01
) -> bool:
    """Wait for something outside; False when it does not come."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


@dataclass
class Attempt:
    """One attempt's directory, and ways to start the wrapper in it."""

    root: Path
    python: str = sys.executable
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def dir(self) -> Path:
        return self.root / "attempt"

    @property
    def log(self) -> Path:
        return self.root / "log" / "current.log"

    def task(self, script: str, nonce: str = "n1", **more: object) -> Path:
        """A task file whose command is a shell script."""
        self.dir.mkdir(exist_ok=True)
        fields = {
            "token": "tokentokento",
            "index": 0,
            "nonce": nonce,
            "executor_id": "tokentok.0",
            "session": "k7f2",
            "job": "train lr=1",
            "attempt": 1,
            "command": ["sh", "-c", script],
            "cwd": str(self.root / "out"),
            "output_dir": str(self.root / "out"),
            "log_dir": str(self.root / "log"),
            "attempt_dir": str(self.dir),
            "grace_seconds": 0.3,
            "patience_seconds": 0.0,
            "record_patience": PATIENCE,
            "cancel_poll_seconds": 0.1,
            "gpu_seconds": 0,
            **more,
        }
        path = self.dir / f"task.{nonce}.json"
        path.write_text(json.dumps(fields))
        return path

    def start(
        self, task: Path, flags: str = "-I -S", **more: str
    ) -> subprocess.Popen[str]:
        return self.spawn(*flags.split(), str(wrapper.__file__), str(task), **more)

    def start_to_die(self, task: Path, role: str, place: int) -> subprocess.Popen[str]:
        """The wrapper of which one process dies before its `place`th call."""
        words = [str(wrapper.__file__), role, str(place), str(task)]
        return self.spawn("-I", "-S", "-c", _DRIVER, *words)

    def spawn(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self.python, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        self.started.append(process)
        return process

    def wait(self, process: subprocess.Popen[str]) -> int:
        process.communicate(timeout=PATIENCE)
        return process.returncode

    def run(self, script: str, nonce: str = "n1", **more: object) -> int:
        return self.wait(self.start(self.task(script, nonce, **more)))

    def begin(
        self, script: str = "exec sleep 30", **more: object
    ) -> subprocess.Popen[str]:
        process = self.start(self.task(script, **more))  # type: ignore[arg-type]
        self.wait_for("begin.0.json")
        return process

    def begin_held(self, script: str, **more: object) -> subprocess.Popen[str]:
        """Start a command that runs until `let_go`."""
        more = {"copy_seconds": 0.1, **more}
        held = f"echo up; while [ ! -e ../go ]; do sleep 0.01; done; {script}"
        process = self.start(self.task(held, **more))  # type: ignore[arg-type]
        self.wait_for_log("up")
        return process

    def let_go(self) -> None:
        (self.root / "go").touch()

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        process.terminate()
        self.wait(process)
        return self.ended

    @property
    def ended(self) -> dict[str, Any]:
        return self.record("exit.0.json")

    def record(self, name: str) -> dict[str, Any]:
        fields = json.loads((self.dir / name).read_text())
        assert isinstance(fields, dict)
        return fields

    def out(self, name: str) -> str:
        path = self.root / "out" / name
        return path.read_text() if path.exists() else ""

    def has(self, name: str) -> bool:
        return (self.dir / name).exists()

    def wait_for(self, name: str) -> None:
        assert until(lambda: self.has(name)), f"no {name} came"

    def wait_for_log(self, text: str) -> None:
        assert until(lambda: self.log.exists() and text in self.log.read_text())

    def living(self) -> list[int]:
        return list_processes(str(self.dir))

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)


def can_lock(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def list_processes(attempt_dir: str) -> list[int]:
    cookie = os.fsencode(f"AUTOEXP_ATTEMPT_DIR={attempt_dir}")
    return [pid for pid in all_pids() if cookie in environment_of(pid)]


def environment_of(pid: int) -> list[bytes]:
    """A process's environment; empty when it may not be looked at, or is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
