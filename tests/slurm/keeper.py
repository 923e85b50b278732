"""Parent of every process of one cluster, so that nothing outlives the tests.

All daemons are its children, and whatever they leave behind (steps, jobs, children
of jobs) becomes its child too: the kernel hands orphans to the nearest subreaper.
Ending the cluster is therefore ending everything below this process, and nothing
else. It ends at SIGTERM, and by itself when the test run that owns it is gone,
however that died: the owner holds the writing end of a pipe and never writes. Should
the keeper be killed itself, the kernel kills the daemons at once.

It starts and ends processes. What they are, and whether they work, is not its matter.

Requests: one JSON object a connection, on `keeper.sock` in the home directory:
`{"start": name, "argv": [...], "env": {...}}`.
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
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.slurm.processes import Process, descendants_of, process_of, remove_cgroups

SOCKET = "keeper.sock"
RECORD = "processes.json"
KEEPER = "keeper"
"""The keeper's own name in the record."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def ask(home: Path, request: dict[str, object], *, patience_s: float = 30.0) -> str:
    """The keeper's answer to one request: empty when done, else what went wrong.

    Raises:
        OSError: No keeper answers in `home`.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(patience_s)
        line.connect(str(home / SOCKET))
        line.sendall(json.dumps(request).encode() + b"\n")
        with line.makefile(encoding="utf-8") as answer:
            return answer.readline().strip()


def recorded(home: Path) -> dict[str, Process]:
    """Every process started in `home` by name, whether it still runs or not."""
    try:
        text = (home / RECORD).read_text()
    except FileNotFoundError:
        return {}
    return {name: Process(**fields) for name, fields in json.loads(text).items()}


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
        self._listener.bind(str(self._home / SOCKET))
        self._listener.listen()
        while not self._ending:
            ready, _, _ = select.select([self._wake, self._listener, sys.stdin], [], [])
            self._react(ready)
        self._end_everything()

    def _react(self, ready: list[Any]) -> None:
        if self._wake in ready:
            os.read(self._wake, 4096)
            _reap()
        if self._listener in ready:
            self._answer_one()
        if sys.stdin in ready:
            self._end_everything()
            shutil.rmtree(self._home, ignore_errors=True)
            self._ending = True

    def _told_to_end(self, *_: object) -> None:
        self._ending = True

    def _answer_one(self) -> None:
        line, _ = self._listener.accept()
        # A caller that went away gets no answer; the next one is served.
        with line, suppress(OSError):
            line.settimeout(5.0)
            with line.makefile(encoding="utf-8") as text:
                request = json.loads(text.readline() or "{}")
            line.sendall(self._do(request).encode() + b"\n")

    def _do(self, request: dict[str, Any]) -> str:
        if "start" in request:
            return self._start(request["start"], request["argv"], request["env"])
        return f"no such request: {sorted(request)}"

    def _start(self, name: str, argv: list[str], env: dict[str, str]) -> str:
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
                    env=env,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            except OSError as error:
                return f"{argv[0]}: {error.strerror}"
        # It is waited for with all others, by pid; not by this object.
        child.returncode = 0
        self._write_record(name, child.pid)
        return ""

    def _write_record(self, name: str, pid: int) -> None:
        process = process_of(pid)
        # A start time no process has: it ended before it could be looked at.
        self._record[name] = process or Process(pid, -1)
        text = json.dumps({n: asdict(p) for n, p in self._record.items()}, indent=1)
        path = self._home / RECORD
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)

    def _end_everything(self) -> None:
        """Kills until nothing is left below; who forks meanwhile is met again."""
        while below := descendants_of(os.getpid()):
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            _reap()
        remove_cgroups(self._cgroups)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def main(home: str, *cgroups: str) -> None:
    """Keeps the cluster in `home`; `cgroups` are those that its nodes make, by name."""
    os.chdir(home)
    Keeper(Path(home), cgroups).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
