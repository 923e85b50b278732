"""The processes of one throw-away cluster, found by its directory in their environment.

Daemons are children of the test run and die with it. Their steps and jobs bear the
directory's name in `SLURM_CONF`: ending a cluster is killing whoever has it. What a
killed test run left is removed by the next cluster.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

PREFIX = "autoexp-slurm-"
"""Of the directories of clusters, which go on with the pid of their test run."""
_PORTS = range(20000, 32000, 40)
"""Below the ports that the kernel gives to clients."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ClusterError(Exception):
    """A cluster did not do what it was told to; the text says what was seen."""


class Daemons:
    """Starts, stops and watches the processes of one home directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def end_all(self) -> None:
        """Kill every process, jobs included; who forks meanwhile is met again."""
        while kill_marked(self._home):
            time.sleep(0.01)
        for daemon in self._started.values():
            daemon.wait()
        self._started.clear()

    def start(self, name: str, argv: list[str], env: Mapping[str, str]) -> None:
        """Start a daemon, or leave it as it is when it runs."""
        if self.is_alive(name):
            return
        with open(self._home / "log" / f"{name}.out", "ab") as log:
            self._started[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                env=dict(env),
                start_new_session=True,
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
            )

    def stop(self, name: str, *, hard: bool) -> None:
        """End a daemon: told to, or killed."""
        if daemon := self._started.pop(name, None):
            (daemon.kill if hard else daemon.terminate)()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(10.0)
            daemon.kill()
            daemon.wait()

    def is_alive(self, name: str) -> bool:
        return name in self._started and self._started[name].poll() is None

    def until(
        self,
        what: str,
        is_so: Callable[[], object],
        patience_s: float,
        needs: Iterable[str] = (),
    ) -> None:
        """Wait for `is_so`; raises ClusterError when a daemon in `needs` ended, or
        `patience_s` are over."""
        deadline = time.monotonic() + patience_s
        while not is_so():
            for name in needs:
                if not self.is_alive(name):
                    log = self._home / "log" / f"{name}.out"
                    said = log.read_text(errors="replace")[-2000:]
                    raise ClusterError(f"{name} ended:\n{said or 'without a word'}")
            if time.monotonic() > deadline:
                raise ClusterError(f"no {what} in {patience_s:.0f} s ({self._home})")
            time.sleep(0.05)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._started)


def kill_marked(home: Path, variable: str = "") -> int:
    """Kill the processes of a cluster whose environment has `variable` (`NAME=value`,
    or `NAME=`); how many there were."""
    marks = (f"SLURM_CONF={home}/".encode(), variable.encode())
    found = 0
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if all(mark in environment for mark in marks):
                os.kill(int(pid), signal.SIGKILL)
                found += 1
    return found


def remove_leftovers() -> None:
    """Remove the clusters of test runs that are gone."""
    for home in Path("/tmp").glob(f"{PREFIX}*"):
        owner = home.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            while kill_marked(home):
                time.sleep(0.01)
            shutil.rmtree(home, ignore_errors=True)


def answers(address: Path | tuple[str, int]) -> bool:
    """Whether somebody listens on a Unix socket or on a (host, port)."""
    plain = str(address) if isinstance(address, Path) else address
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family) as line:
        line.settimeout(1.0)
        return line.connect_ex(plain) == 0


def reserve_ports(address: str, count: int) -> tuple[int, socket.socket]:
    """The first of `count` free ports, and the token that keeps other clusters off
    them until it is closed; raises ClusterError: none is free."""
    for first in _PORTS:
        token = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            token.bind(f"\0throwaway-slurm-{first}")
            if all(_is_free(address, first + i) for i in range(count)):
                return first, token
        token.close()
    raise ClusterError(f"no {count} free ports in a row on {address}")


def _is_free(address: str, port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
