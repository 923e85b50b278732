"""A directory for a simulated campaign, in memory where the machine has such a place.

The campaign knows it by a name that follows from the seed alone, because names of files
reach the ids in a journal: the same seed has to find the same names, whatever else runs
on the machine. Such a name is this process's own (Linux: `/proc/self/fd/612`), so that
campaigns of one seed in several processes have it at once, each for another directory.
Elsewhere the campaign knows its directory as everybody does, and a second one of a seed
is told apart by its paths.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

MEMORY: Final = "/dev/shm"
OWN_NAMES: Final = "/proc/self/fd"
"""Where a process finds what it has open, by number."""
_FIRST, _NUMBERS = 256, 512
"""Numbers that rooms have: above what a process opens, below the usual limit, 1024."""


class Room:
    """One directory, empty at first and gone at the end."""

    def __init__(self, rng: random.Random) -> None:
        """The names are drawn from a copy: `rng` stays as it is."""
        drawn = random.Random()
        drawn.setstate(rng.getstate())
        bits = drawn.getrandbits(40)
        parent = MEMORY if os.access(MEMORY, os.W_OK) else tempfile.gettempdir()
        self.directory, held = _enter(Path(parent, f"autoexp-sim-{bits:010x}"))
        """As everybody knows it."""
        self._held: int | None = _renumbered(held, _FIRST + bits % _NUMBERS)
        own = Path(OWN_NAMES, str(self._held))
        self.path = own if own.is_dir() else self.directory
        """As the campaign knows it."""

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _enter(wanted: Path) -> tuple[Path, int]:
    """An empty directory of our own, open: the wanted one, or where that is held, one
    of another name."""
    held = _hold(wanted)
    if held is not None:
        return wanted, held
    other = Path(tempfile.mkdtemp(prefix="autoexp-sim-", dir=wanted.parent))
    return other, os.open(other, os.O_RDONLY | os.O_DIRECTORY)


def _renumbered(held: int, number: int) -> int:
    """The same open directory under a number, or the next one that is free."""
    try:
        return fcntl.fcntl(held, fcntl.F_DUPFD_CLOEXEC, number)
    finally:
        os.close(held)


def _hold(path: Path) -> int | None:
    """Lock a directory of our own and empty it; None where another has it."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _empty(path, held)
    except OSError:
        os.close(held)
        return None
    return held


def _empty(path: Path, held: int) -> None:
    """Clear what a killed campaign left."""
    here, ours = path.stat(), os.fstat(held)
    if here.st_ino != ours.st_ino or ours.st_uid != os.geteuid():
        raise OSError(f"{path} is another's")
    for name in os.listdir(held):
        shutil.rmtree(path / name)
