"""Who runs, and which processes belong to a cluster: read from /proc.

A process is known by its pid and its start time, so that a number given out again
is never taken for the process that had it before.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process, told from any later one with the same pid."""

    pid: int
    start: int
    """Clock ticks from the boot of the machine to the start of the process."""

    def is_alive(self) -> bool:
        """Whether it still runs; one that waits to be reaped does not."""
        return process_of(self.pid) == self

    def send(self, number: int) -> None:
        """Signals it, if it is still the same process."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, number: int, *, patience_s: float = 10.0) -> None:
        """Signals it and waits; kills it when `patience_s` are over."""
        self.send(number)
        if not self.ends_within(patience_s):
            self.send(signal.SIGKILL)
            self.ends_within(5.0)

    def ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def process_of(pid: int) -> Process | None:
    """The process that has this pid now; None for no process and for a dead one."""
    fields = _stat(pid)
    return Process(pid, int(fields[19])) if fields else None


def descendants_of(*roots: int) -> list[int]:
    """Pids below `roots`, parents before children; dead, unreaped ones left out."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        if fields := _stat(pid):
            children[int(fields[1])].append(pid)
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        below = children[waiting.pop()]
        found += below
        waiting += below
    return found


def steps_of(spool: Path) -> list[int]:
    """Pids of the job steps that keep a socket below `spool`.

    A step's command line does not name its node or its cluster; its socket does.
    """
    rows = (PROC / "net/unix").read_text(errors="replace").splitlines()[1:]
    fields = (row.split(None, 7) for row in rows)
    below = {f[6] for f in fields if len(f) == 8 and f[7].startswith(f"{spool}/")}
    return [pid for pid in _pids() if _is_step(pid) and _sockets(pid) & below]


def kill_steps(spool: Path) -> None:
    """Kills the steps of `spool` and all that they run, children last."""
    steps = steps_of(spool)
    kill_all([*steps, *descendants_of(*steps)])


def kill_all(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove_cgroups(names: Iterable[str]) -> None:
    """Removes the empty cgroups of these names, in every hierarchy."""
    for name in names:
        for top in Path("/sys/fs/cgroup").glob(f"*/{name}"):
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(PROC) if name.isdecimal())


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; none of a process that is dead.

    The name before them may hold any character.
    """
    with suppress(OSError):
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
        fields = text[text.rindex(")") + 2 :].split()
        return [] if fields[0] in "ZX" else fields
    return []


def _is_step(pid: int) -> bool:
    with suppress(OSError):
        name = (PROC / str(pid) / "comm").read_text(errors="replace")
        return name.startswith("slurmstepd")
    return False


def _sockets(pid: int) -> set[str]:
    """Inode numbers of the sockets a process has open."""
    found = set()
    with suppress(OSError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
