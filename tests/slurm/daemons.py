"""The daemons of one cluster: started by its keeper, found again by their record.

Knows names, processes and the output they left; not what a cluster is made of.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from tests.slurm.keeper import KEEPER, RECORD, ask, recorded
from tests.slurm.processes import Process, kill_steps

_ROOT = Path(__file__).resolve().parents[2]
_KEEPER_MODULE = "tests.slurm.keeper"
_PORTS = range(20000, 32000, 40)
"""Below the ports that the kernel gives to clients."""


class ClusterError(Exception):
    """A cluster did not do what it was told to; the text says what was seen."""


class Daemons:
    """Starts, stops and watches the processes of one home directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._keeper: subprocess.Popen[bytes] | None = None

    def open(self, cgroups: Iterable[str], reserved: socket.socket) -> None:
        """Starts the keeper, which holds the `reserved` ports for as long as it lives.

        It ends everything once this process is gone, and removes the directory and
        the `cgroups`, which are names.
        """
        keeper = [sys.executable, "-m", _KEEPER_MODULE, str(self._home)]
        with (self._home / "log" / f"{KEEPER}.out").open("wb") as log:
            self._keeper = subprocess.Popen(
                [*keeper, *cgroups],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[reserved.fileno()],
                start_new_session=True,
            )
        self.until("its keeper", lambda: answers(self._home / "keeper.sock"), 60.0, [])

    def close(self) -> None:
        """Ends every process, and what a keeper that was killed could not end."""
        processes = self._processes()
        if KEEPER in processes:
            processes[KEEPER].end(signal.SIGTERM, patience_s=20.0)
        for process in processes.values():
            process.end(signal.SIGKILL)
        kill_steps(self._home / "spool")
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None
        (self._home / RECORD).unlink(missing_ok=True)

    def start(self, name: str, argv: list[str], env: Mapping[str, str]) -> None:
        """Starts a daemon, or leaves it as it is when it runs."""
        if self.is_alive(name):
            return
        problem = ask(self._home, {"start": name, "argv": argv, "env": dict(env)})
        if problem:
            raise ClusterError(f"{name} did not start: {problem}")

    def stop(self, name: str, *, hard: bool) -> None:
        """Ends a daemon: told to, or killed."""
        process = self._processes().get(name)
        if process is not None:
            process.end(signal.SIGKILL if hard else signal.SIGTERM)

    def is_alive(self, name: str) -> bool:
        process = self._processes().get(name)
        return process is not None and process.is_alive()

    def status(self) -> dict[str, bool]:
        """Whether each process that was started still runs."""
        return {name: p.is_alive() for name, p in self._processes().items()}

    def until(
        self,
        what: str,
        is_so: Callable[[], object],
        patience_s: float,
        needs: Iterable[str],
    ) -> None:
        """Waits for `is_so`.

        Raises:
            ClusterError: A daemon in `needs` ended, or `patience_s` are over.
        """
        deadline = time.monotonic() + patience_s
        while not is_so():
            for name in needs:
                if not self.is_alive(name):
                    raise ClusterError(f"{name} ended:\n{self._output(name)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"no {what} in {patience_s:.0f} s ({self._home})")
            time.sleep(0.05)

    def _processes(self) -> Mapping[str, Process]:
        return recorded(self._home)

    def _output(self, name: str) -> str:
        text = (self._home / "log" / f"{name}.out").read_text(errors="replace")
        return text[-2000:] or "it printed nothing"


def answers(address: Path | tuple[str, int]) -> bool:
    """Whether somebody listens on a Unix socket or on a (host, port)."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family) as line:
        line.settimeout(1.0)
        return line.connect_ex(_plain(address)) == 0


def _plain(address: Path | tuple[str, int]) -> str | tuple[str, int]:
    return str(address) if isinstance(address, Path) else address


def reserve_ports(address: str, count: int) -> tuple[int, socket.socket]:
    """The first of `count` free ports, and the token that keeps others off them.

    The token is a name that one process of the machine can hold; it is free again
    when the last holder is gone. Two clusters that start together cannot both have it.

    Raises:
        ClusterError: None is free.
    """
    for first in _PORTS:
        token = socket.socket(socket.AF_UNIX)
        try:
            token.bind(f"\0throwaway-slurm-{first}")
        except OSError:
            token.close()
            continue
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


def user_name() -> str:
    """Account of this process, under which the cluster runs."""
    return pwd.getpwuid(os.geteuid()).pw_name
