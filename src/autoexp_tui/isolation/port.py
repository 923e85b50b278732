"""What isolates foreign code, and what it promises. A promise that a kind does not
claim is said not to hold, never passed over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias


class Promise(StrEnum):
    """What holds of the command and of all that it starts (docs/security.md)."""

    READS = "reads"
    WRITES = "writes"
    MODES = "modes"
    MEMORY = "memory"
    SIGNALS = "signals"
    TCP = "tcp"
    NETWORK = "network"
    SOCKETS = "sockets"
    PROCESSES = "processes"
    LIMITS = "limits"


FILES: Final = frozenset({Promise.READS, Promise.WRITES})
"""The least that `require` asks for."""
Network: TypeAlias = Literal["none", "all"] | tuple[int, ...]
"""No network, all of it, or TCP connections to these ports of any host."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a command may reach. All paths are absolute."""

    writable: tuple[Path, ...]
    """Directories that exist when the command starts."""
    home: Path
    """Its HOME, writable too."""
    tmp: Path
    """Its TMPDIR, writable too."""
    readable: tuple[Path, ...] = ()
    """Files and directories to read and to run; those that do not exist count not."""
    network: Network = "none"
    file_bytes: int = 16 << 30
    """Of each file that is written, a redirected output included."""
    descriptors: int = 4096

    def __post_init__(self) -> None:
        for path in (*self.list_writable(), *self.list_readable()):
            if not path.is_absolute():
                raise ValueError(f"{path} is not absolute")

    def list_writable(self) -> tuple[Path, ...]:
        """Its directories, HOME and TMPDIR among them, each once."""
        return tuple(dict.fromkeys((*self.writable, self.home, self.tmp)))

    def list_readable(self) -> tuple[Path, ...]:
        """What it may read beside what it may write, each once."""
        return tuple(dict.fromkeys(self.readable))


class Isolation(ABC):
    """A way to run a command under a profile."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def promises(self) -> frozenset[Promise]:
        """What it holds; the rest is not claimed."""

    @abstractmethod
    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        """The command that runs `argv` under `profile`, in the caller's directory and
        with its status; one that signal N ended may be told as 128 + N."""

    def summarize(self) -> str:
        """One line for a screen: what is promised and what is not."""
        if not self.promises:
            return f"{self.name}: nothing is promised"
        held = [one.value for one in Promise if one in self.promises]
        missing = [one.value for one in Promise if one not in self.promises]
        line = f"{self.name}: {', '.join(held)}"
        return f"{line}; not promised: {', '.join(missing)}" if missing else line
