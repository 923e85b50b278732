"""Which process sent a command: for the record, and for who may answer a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """One process on one host, and whether it is a job's.

    What it says of itself can be forged by any code of the same user.
    """

    user: str = ""
    host: str = ""
    boot: str = ""
    namespace: str = ""
    """Of pids."""
    pid: int = 0
    started: str = ""
    """Start time in the kernel's ticks."""
    leader: int = 0
    """The pid of its session's leader: a login shell outlives what it starts."""
    leader_started: str = ""
    tty: str = ""
    ssh_client: str = ""
    """Address that the person logged in from; empty: not by ssh."""
    job: str = ""
    """Of which job it is a process, in words; empty: of none that was found."""
    doubt: Literal["", "unnamed", "ended"] = ""
    """`unnamed`: the command names no sender. `ended`: neither it nor its session's
    leader lived when the engine looked."""
    checked: bool = False
    """Whether the engine looked at the process itself, on its own host."""

    def __str__(self) -> str:
        where = ", ".join(
            part
            for part in (
                self.tty,
                f"from {self.ssh_client}" if self.ssh_client else "",
                f"pid {self.pid}" if self.pid else "",
            )
            if part
        )
        who = f"{self.user} on {self.host}" if self.user else self.host
        return f"{who} ({where})" if where else who
