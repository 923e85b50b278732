"""Landlock: the kernel takes rights from a process and all that it starts, for good.
Costs about a millisecond, and the start of a Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from autoexp_tui.isolation.launcher import read_abi
from autoexp_tui.isolation.launching import SHARED_MEMORY, Interpreter, build_command
from autoexp_tui.isolation.port import Isolation, Profile, Promise

_SINCE: Final = MappingProxyType(
    {
        Promise.READS: 1,  # Linux 5.13
        Promise.MEMORY: 1,
        Promise.LIMITS: 1,
        Promise.WRITES: 3,  # 6.2; before it files outside can be emptied: truncate(2)
        Promise.TCP: 4,  # 6.7
        Promise.SIGNALS: 6,  # 6.12
    }
)
"""The first ABI that holds a promise. Landlock knows no modes, times or UDP; Unix
sockets with a name only from an ABI that we have not tried yet."""


@dataclass(frozen=True)
class Landlock(Isolation):
    """The launcher alone; needs no program and no right."""

    name = "landlock"
    abi: int
    python: Interpreter = field(default_factory=Interpreter)

    @property
    def promises(self) -> frozenset[Promise]:
        return list_held(self.abi)

    def describe(self) -> tuple[str, ...]:
        shared = f"Shared memory ({SHARED_MEMORY}) is read and written by all."
        return (*super().describe(), shared)

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        return build_command(
            argv,
            profile,
            self.python,
            abi=self.abi,
            tcp=list_ports(profile),
            writable=(SHARED_MEMORY,),
        )


def list_held(abi: int) -> frozenset[Promise]:
    """What Landlock promises at this ABI."""
    return frozenset(one for one, since in _SINCE.items() if abi >= since)


def list_ports(profile: Profile) -> tuple[int, ...] | None:
    """The only ports for TCP; None: TCP is not fenced."""
    if isinstance(profile.network, tuple):
        return profile.network
    return () if profile.network == "none" else None


def probe_landlock() -> Landlock | None:
    """What this kernel knows of it; None: nothing."""
    abi = read_abi()
    return Landlock(abi) if abi else None
