"""Which process is this, and does it live: told apart by host, boot, pid namespace, pid
and start time. From outside its host or namespace nothing can be said: `UNKNOWN`."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

COOKIE = "AUTOEXP_ATTEMPT_DIR"
"""Set by the wrapper: whatever the command starts inherits it."""


class Alive(StrEnum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    """It is on another host, or in another container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One process, for ever."""

    host: str
    machine: str = ""
    """What the operating system calls this installation; survives a reboot."""
    boot: str = ""
    """Changes at each boot; empty where the system does not tell."""
    namespace: str = ""
    """Of pids."""
    pid: int
    started: str = ""
    """Start time in the kernel's ticks; empty where the system does not tell."""

    @classmethod
    def get_own(cls) -> Identity:
        namespace = ""
        with suppress(OSError):
            namespace = os.readlink("/proc/self/ns/pid")
        return cls(
            host=socket.gethostname(),
            machine=_read("/etc/machine-id"),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            namespace=namespace,
            pid=os.getpid(),
            started=read_start(os.getpid()) or "",
        )

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> Identity:
        """The identity that `tree` tells; raises ValueError: it is none."""
        try:
            return cls(**{name: kind(tree[name]) for name, kind in _FIELDS.items()})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not the identity of a process: {error!r}") from error

    def check_alive(self, me: Identity) -> Alive:
        """Whether this process lives, as far as `me` can see."""
        known = self.machine and self.boot and me.boot
        same_machine = (self.host, self.machine) == (me.host, me.machine)
        if known and same_machine and self.boot != me.boot:
            return Alive.NO  # it went with the boot it belonged to
        if not self.is_of_the_boot_of(me):
            return Alive.UNKNOWN
        started = read_start(self.pid)
        return Alive.NO if started is None or started != self.started else Alive.YES

    def is_halted(self, me: Identity) -> bool:
        """Whether it lives, and was stopped: by Ctrl-Z, SIGSTOP, or a debugger."""
        alive = self.check_alive(me) is Alive.YES
        return alive and (read_stat(self.pid) or " ")[0] in "Tt"

    def is_of_the_boot_of(self, me: Identity) -> bool:
        """Whether its pids are those that `me` sees."""
        theirs = (self.host, self.boot, self.namespace)
        return theirs == (me.host, me.boot, me.namespace)


_FIELDS: dict[str, Any] = {part.name: str for part in fields(Identity)} | {"pid": int}


def read_start(pid: int) -> str | None:
    """When a process here started; None: dead, or a zombie; empty: nobody tells."""
    stat = read_stat(pid)
    if stat is not None:
        state, *rest = stat.split()
        return None if state in {"Z", "X"} else rest[18]
    if Path("/proc/self/stat").exists():
        return None
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    return ""


def read_stat(pid: int) -> str | None:
    """What the kernel tells of a process, from its state's letter on."""
    # The command's name, in brackets, may hold anything, brackets and spaces too.
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].lstrip() or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text("ascii", "replace").strip()
    except OSError:
        return ""
