"""What isolates foreign code, and what it promises. A promise that a kind does not
claim is said not to hold, never passed over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Literal, TypeAlias


class Promise(StrEnum):
    """What holds of the command and of all that it starts."""

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


SENTENCES: Final = MappingProxyType(
    {
        Promise.READS: (
            "reads no file and lists no directory but those its profile names",
            "may read every file that you may read",
        ),
        Promise.WRITES: (
            "makes, changes, moves and removes files in its own directories alone",
            "may change or empty files of yours outside its directories",
        ),
        Promise.MODES: (
            "changes no mode, owner or time of a file outside",
            "may change modes and times of your files outside",
        ),
        Promise.MEMORY: (
            "sees no memory, environment or open file of processes outside",
            "may read the memory and the environment of your other processes",
        ),
        Promise.SIGNALS: (
            "sends no signal to processes outside",
            "may signal your other processes",
        ),
        Promise.TCP: (
            "connects by TCP to the ports that were named alone, to any host",
            "may connect by TCP wherever you may",
        ),
        Promise.NETWORK: (
            "has no network but a loopback of its own, where none was given",
            "may use the network in other ways than TCP (UDP)",
        ),
        Promise.SOCKETS: (
            "reaches no program outside by a Unix socket, unless that lies in a "
            "directory which it reads",
            "may talk to programs of yours by Unix sockets (tmux, systemd --user, "
            "docker, ssh-agent), which may do for it what it may not",
        ),
        Promise.PROCESSES: (
            "leaves no process behind when it ends",
            "may leave processes behind; whoever runs it has to end them",
        ),
        Promise.LIMITS: (
            "writes no file larger, and opens no more, than its limits",
            "may write files of any size and open as many as it likes",
        ),
    }
)
"""In words: when the promise holds, and when it is not claimed."""

FILES: Final = frozenset({Promise.READS, Promise.WRITES})
"""The least that `require` asks for."""

Network: TypeAlias = Literal["none", "all"] | tuple[int, ...]
"""No network, all of it, or TCP connections to these ports of any host."""


@dataclass(frozen=True, slots=True)
class Limits:
    """None: not limited."""

    file_bytes: int | None = 2 << 30
    """The size of each file that is written, a redirected output included."""
    descriptors: int | None = 4096
    disk_bytes: int | None = None
    """Of all writable directories together. No kernel holds it: whoever runs the
    command looks from time to time, by `profiles.measure_disk`."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a command may reach. All paths are absolute."""

    name: str
    writable: tuple[Path, ...]
    """Directories that exist when the command starts."""
    home: Path
    """Its HOME, writable too."""
    tmp: Path
    """Its TMPDIR, writable too."""
    readable: tuple[Path, ...] = ()
    """Files and directories to read and to run; those that do not exist count not."""
    logins: tuple[Path, ...] = ()
    """Files of the user to read and never to change."""
    network: Network = "none"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for path in (*self.list_writable(), *self.readable, *self.logins):
            if not path.is_absolute():
                raise ValueError(f"{self.name}: {path} is not absolute")

    def list_writable(self) -> tuple[Path, ...]:
        """Its directories, HOME and TMPDIR among them, each once."""
        return tuple(dict.fromkeys((*self.writable, self.home, self.tmp)))

    def list_readable(self) -> tuple[Path, ...]:
        """What it may read beside what it may write, each once."""
        return tuple(dict.fromkeys((*self.readable, *self.logins)))


@dataclass(frozen=True)
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

    @property
    def is_complete(self) -> bool:
        return self.promises == frozenset(Promise)

    def summarize(self) -> str:
        """One line for a screen: what is promised and what is not."""
        if not self.promises:
            return f"{self.name}: nothing is promised"
        held = [one.value for one in Promise if one in self.promises]
        missing = [one.value for one in Promise if one not in self.promises]
        line = f"{self.name}: {', '.join(held)}"
        return f"{line}; not promised: {', '.join(missing)}" if missing else line

    def describe(self) -> tuple[str, ...]:
        """The summary, then a sentence for each promise; for a report."""
        lines = (
            f"{'holds' if one in self.promises else 'NOT promised'}: {one.value}: "
            f"the command {SENTENCES[one][one not in self.promises]}."
            for one in Promise
        )
        return (f"{self.summarize()}.", *lines)
