"""A user's places and processes, and commands run there as an ordinary user."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.isolation.kinds import (
    LAUNCHER,
    Interpreter,
    NoIsolation,
    probe_isolation,
)
from autoexp_tui.isolation.port import Isolation, Network, Profile
from autoexp_tui.isolation.profiles import list_system_paths

HERE = Path(__file__).parent
NOBODY = 65534
OUT, HELD = 0, 3
"""Statuses of `escapes.py`."""
FILES = {
    "home/.ssh/key": "secret",
    "home/.bashrc": "mine",
    "state/journal": "{}",
    "cand/e1/solver.py": "ours",
    "cand/e2/solver.py": "another's",
    "hidden/data.csv": "1,2",
    "scorer/score.py": "score",
    "login.json": "token",
    "run/pid": "",
    "eval/e1/output/.keep": "",
}


def list_identity() -> dict[str, Any]:
    """Arguments of subprocess for a user without rights, where we are root."""
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@cache
def find_python() -> Interpreter:
    """One that the ordinary user can run: root's own may lie in root's home."""
    ours = Interpreter()
    try:
        subprocess.run([ours.path, "-c", ""], check=True, **list_identity())
    except PermissionError:
        return Interpreter("/usr/bin/python3", (Path("/usr"),))
    return ours


@dataclass(frozen=True)
class Fence:
    """A directory with what must not be touched beside what may."""

    base: Path

    @property
    def python(self) -> Interpreter:
        return replace(find_python(), launcher=self.base / "tool/launcher.py")

    def make_profile(self, network: Network = "none") -> Profile:
        return Profile(
            (self.base / "cand/e1", self.base / "eval/e1/output"),
            self.base / "private/home",
            self.base / "private/tmp",
            (
                *(*list_system_paths(), self.base / "tool", *self.python.prefixes),
                self.base / "login.json",
            ),
            network,
            file_bytes=1 << 20,
            descriptors=64,
        )

    def build(self, kind: str) -> Isolation | None:
        """`none`, `landlock`, `bwrap`, or one with an older ABI: `landlock-1`; None:
        this machine has it not."""
        name, _, abi = kind.partition("-")
        if name == "none":
            return NoIsolation(self.python)
        found = next((one for one in probe_isolation() if one.name == name), None)
        if found is None or int(abi or 0) > found.abi:
            return None
        return replace(found, python=self.python, abi=int(abi or found.abi))

    def run(
        self, argv: Sequence[str], timeout: float = 60, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """As the ordinary user, in the worktree."""
        return subprocess.run(
            argv,
            cwd=self.base / "cand/e1",
            capture_output=True,
            text=True,
            timeout=timeout,
            **{**list_identity(), **options},
        )

    def run_python(
        self, isolation: Isolation, code: str, network: Network = "none"
    ) -> subprocess.CompletedProcess[str]:
        argv = (self.python.path, "-c", code)
        return self.run(isolation.wrap(argv, self.make_profile(network)))

    def end_daemon(self) -> bool:
        """End the one that an escape left; False: none lives."""
        with (self.base / "cand/e1/lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = int((self.base / "cand/e1/daemon").read_text())
                os.kill(pid, signal.SIGKILL)
                return True
        return False


def build_here(fence: Fence, kind: str) -> Isolation:
    isolation = fence.build(kind)
    if isolation is None:
        pytest.skip(f"no {kind} on this machine")
    return isolation


@contextmanager
def make_fence() -> Iterator[Fence]:
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="autoexp-fence-")))
    try:
        for name, text in FILES.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text)
        (base / "tool").mkdir()
        for script in (LAUNCHER, HERE / "escapes.py", HERE / "victim.py"):
            shutil.copy(script, base / "tool")
        fence = Fence(base)
        profile = fence.make_profile()
        for place in (profile.home, profile.tmp):
            place.mkdir(parents=True)
        (profile.home / "login.json").symlink_to(base / "login.json")
        if os.geteuid() == 0:
            for path in (base, *base.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        yield fence
    finally:
        shutil.rmtree(base)


@contextmanager
def start_victim(fence: Fence) -> Iterator[tuple[int, int]]:
    """A process outside, in a group of its own: its PID and its port."""
    with subprocess.Popen(
        [fence.python.path, fence.base / "tool/victim.py", fence.base],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "SECRET": "1"},
        process_group=0,
        **list_identity(),
    ) as victim:
        assert victim.stdout is not None
        yield victim.pid, int(victim.stdout.readline())
        victim.kill()
