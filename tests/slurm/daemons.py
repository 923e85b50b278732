"""The daemons of one cluster: started by its keeper, found again by their record.

The keeper is the parent of every process of a cluster, so that nothing outlives the
tests. All daemons are its children, and whatever they leave behind (steps, jobs,
children of jobs) becomes its child too: the kernel hands orphans to the nearest
subreaper. Ending the cluster is therefore ending everything below it, and nothing else.
It ends at SIGTERM, and by itself when the test run that owns it is gone, however that
died: the owner holds the writing end of a pipe and never writes. Should the keeper be
killed itself, the kernel kills the daemons at once.

It is asked by one JSON object a connection, on `keeper.sock` in the home directory:
`{"start": name, "argv": [...], "env": {...}}`. The answer is empty, or what went wrong.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.slurm.processes import (
    Process,
    descendants_of,
    kill_all,
    kill_steps,
    process_of,
    remove_cgroups,
)

KEEPER = "keeper"
"""The keeper's own name in the record."""
_SOCKET = "keeper.sock"
_RECORD = "processes.json"
_ROOT = Path(__file__).resolve().parents[2]
_PORTS = range(20000, 32000, 40)
"""Below the ports that the kernel gives to clients."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class ClusterError(Exception):
    """A cluster did not do what it was told to; the text says what was seen."""


def recorded(home: Path) -> dict[str, Process]:
    """Every process started in `home` by name, whether it still runs or not."""
    try:
        text = (home / _RECORD).read_text()
    except FileNotFoundError:
        return {}
    return {name: Process(**fields) for name, fields in json.loads(text).items()}


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
        with (self._home / "log" / f"{KEEPER}.out").open("wb") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._home), *cgroups],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[reserved.fileno()],
                start_new_session=True,
            )
        self.until("its keeper", lambda: answers(self._home / _SOCKET), 60.0)

    def close(self) -> None:
        """Ends every process, and what a keeper that was killed could not end."""
        processes = recorded(self._home)
        if KEEPER in processes:
            processes[KEEPER].end(signal.SIGTERM, patience_s=20.0)
        for process in processes.values():
            process.end(signal.SIGKILL)
        kill_steps(self._home / "spool")
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None
        (self._home / _RECORD).unlink(missing_ok=True)

    def start(self, name: str, argv: list[str], env: Mapping[str, str]) -> None:
        """Starts a daemon, or leaves it as it is when it runs."""
        if self.is_alive(name):
            return
        request = {"start": name, "argv": argv, "env": dict(env)}
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(30.0)
            line.connect(str(self._home / _SOCKET))
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile(encoding="utf-8") as answer:
                if problem := answer.readline().strip():
                    raise ClusterError(f"{name} did not start: {problem}")

    def stop(self, name: str, *, hard: bool) -> None:
        """Ends a daemon: told to, or killed."""
        if process := recorded(self._home).get(name):
            process.end(signal.SIGKILL if hard else signal.SIGTERM)

    def is_alive(self, name: str) -> bool:
        process = recorded(self._home).get(name)
        return process is not None and process.is_alive()

    def until(
        self,
        what: str,
        is_so: Callable[[], object],
        patience_s: float,
        needs: Iterable[str] = (),
    ) -> None:
        """Waits for `is_so`.

        Raises:
            ClusterError: A daemon in `needs` ended, or `patience_s` are over.
        """
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


def answers(address: Path | tuple[str, int]) -> bool:
    """Whether somebody listens on a Unix socket or on a (host, port)."""
    plain = str(address) if isinstance(address, Path) else address
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family) as line:
        line.settimeout(1.0)
        return line.connect_ex(plain) == 0


def reserve_ports(address: str, count: int) -> tuple[int, socket.socket]:
    """The first of `count` free ports, and the token that keeps others off them.

    The token is a name that one process of the machine can hold; it is free again
    when the last holder is gone. Two clusters that start together cannot both have it.

    Raises:
        ClusterError: None is free.
    """
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


class Keeper:
    """Serves one home directory until it is told to end or its owner is gone."""

    def __init__(self, home: Path, cgroups: tuple[str, ...]) -> None:
        self._home = home
        self._cgroups = cgroups
        self._record: dict[str, Process] = {}
        self._ending = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._told_to_end)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def serve(self) -> None:
        """Answers requests until the end; then nothing it started runs any more."""
        self._write_record(KEEPER, os.getpid())
        self._listener.bind(str(self._home / _SOCKET))
        self._listener.listen()
        while not self._ending:
            ready, _, _ = select.select([self._wake, self._listener, sys.stdin], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                _reap()
            if self._listener in ready:
                self._answer_one()
            if sys.stdin in ready:
                self._end_everything()
                shutil.rmtree(self._home, ignore_errors=True)
                self._ending = True
        self._end_everything()

    def _told_to_end(self, *_: object) -> None:
        self._ending = True

    def _answer_one(self) -> None:
        line, _ = self._listener.accept()
        # A caller that went away gets no answer; the next one is served.
        with line, suppress(OSError):
            line.settimeout(5.0)
            with line.makefile(encoding="utf-8") as text:
                request = json.loads(text.readline() or "{}")
            if "start" in request:
                line.sendall(self._start(request).encode() + b"\n")

    def _start(self, request: dict[str, Any]) -> str:
        name, argv = request["start"], request["argv"]
        if name in self._record and self._record[name].is_alive():
            return f"{name} runs already"
        with open(self._home / "log" / f"{name}.out", "ab") as log:
            try:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._home,
                    env=request["env"],
                    start_new_session=True,
                    preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
                )
            except OSError as error:
                return f"{argv[0]}: {error.strerror}"
        # It is waited for with all others, by pid; not by this object.
        child.returncode = 0
        self._write_record(name, child.pid)
        return ""

    def _write_record(self, name: str, pid: int) -> None:
        # A start time no process has: it ended before it could be looked at.
        self._record[name] = process_of(pid) or Process(pid, -1)
        text = json.dumps({n: asdict(p) for n, p in self._record.items()}, indent=1)
        new = self._home / f"{_RECORD}.new"
        new.write_text(text)
        new.replace(self._home / _RECORD)

    def _end_everything(self) -> None:
        """Kills until nothing is left below; who forks meanwhile is met again."""
        while below := descendants_of(os.getpid()):
            kill_all(below)
            time.sleep(0.01)
            _reap()
        remove_cgroups(self._cgroups)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    Keeper(Path(sys.argv[1]), tuple(sys.argv[2:])).serve()
