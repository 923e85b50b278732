"""Bubblewrap: the command gets a file system, processes and, where it has no network, a
loopback of its own. Inside, the launcher gives up by Landlock what is left, so that
named TCP ports hold too. Needs `bwrap` and user namespaces.

bwrap's own process passes no signals on, and ends its command with SIGKILL when it is
ended. So it ignores those that ask to end; the command, in the same process group, gets
them, and the launcher makes it hear them again. The launcher is the first process
inside, because bwrap's own would not wait until the kernel has ended all others."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from autoexp_tui.isolation.landlock import list_held, list_ports
from autoexp_tui.isolation.launcher import read_abi
from autoexp_tui.isolation.launching import (
    SHARED_MEMORY,
    Interpreter,
    build_command,
    list_accelerators,
)
from autoexp_tui.isolation.port import Isolation, Profile, Promise

_HELD: Final = frozenset(Promise) - {Promise.TCP, Promise.SOCKETS}
_ABSTRACT_SOCKETS_ABI: Final = 6
"""Abstract sockets belong to the network, which a command may have been given."""
_DEAF: Final = ("/bin/sh", "-c", 'trap "" TERM INT USR1 USR2; exec "$@"', "sh")
_FENCE: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent"),
    "--as-pid-1",
)
_MADE: Final = frozenset(map(Path, ("/proc", "/dev", "/tmp")))
_PROBE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Bubblewrap(Isolation):
    name = "bwrap"
    program: str
    abi: int
    """Of Landlock inside; 0: none."""
    python: Interpreter = field(default_factory=Interpreter)

    @property
    def promises(self) -> frozenset[Promise]:
        sockets = {Promise.SOCKETS} if self.abi >= _ABSTRACT_SOCKETS_ABI else set()
        return _HELD | list_held(self.abi) | sockets

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        inside = build_command(
            argv,
            profile,
            self.python,
            abi=self.abi,
            tcp=list_ports(profile) if profile.network != "none" else None,
            writable=(SHARED_MEMORY, "/tmp"),
            devices=("/dev/pts", "/dev/ptmx"),
            is_init=True,
        )
        net = ("--unshare-net",) if profile.network == "none" else ()
        own = (*self.python.prefixes, self.python.launcher)
        readable = (*profile.list_readable(), *own)
        mounts = list_mounts(readable, profile.list_writable())
        return (*_DEAF, self.program, *_FENCE, *net, *mounts, "--", *inside)


def list_mounts(readable: Sequence[Path], writable: Sequence[Path]) -> Iterator[str]:
    """The options for a file system of these paths and no others. A mount point that
    foreign code could have made a link of would lead astray: /tmp is a new one."""
    yield from ("--tmpfs", "/tmp")
    read, write = (dict.fromkeys(_spell_both(paths)) for paths in (readable, writable))
    wanted = {**dict.fromkeys(read, "--ro-bind-try"), **dict.fromkeys(write, "--bind")}
    for path in sorted(wanted, key=lambda one: (len(one.parts), one)):
        real = Path(os.path.realpath(path))
        above = next((one for one in path.parents if one in wanted), None)
        if path != real and above is None:
            yield from ("--symlink", str(real), str(path))
        elif path == real and (above is None or wanted[above] != wanted[path]):
            yield from (wanted[path], str(path), str(path))
    yield from ("--proc", "/proc", "--dev", "/dev")
    # Whoever writes to a terminal could type into it.
    yield from ("--dev-bind", "/dev/null", "/dev/tty")
    for device in list_accelerators():
        yield from ("--dev-bind-try", device, device)
    yield from ("--remount-ro", "/")


def _spell_both(paths: Sequence[Path]) -> Iterator[Path]:
    """Each path as it was named, and without links; not those that are made anew."""
    for path in paths:
        for one in (path, Path(os.path.realpath(path))):
            if one not in _MADE:
                yield one


def probe_bubblewrap() -> Bubblewrap | None:
    """Whether it can be used here, tried out; None: it cannot, or is not installed."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    tried = (program, *_FENCE, "--unshare-net", "--ro-bind", "/", "/")
    command = (*tried, "--proc", "/proc", "--dev", "/dev", "true")
    try:
        run = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Bubblewrap(program, read_abi()) if run.returncode == 0 else None
