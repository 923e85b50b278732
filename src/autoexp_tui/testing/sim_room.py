"""A directory for a simulated campaign, in memory where the machine has such a place.

Its name follows from the seed, because names of files reach the fingerprints of jobs,
and with them the order of things: the same seed has to find the same names. A directory
that another campaign holds is not shared; this one has another name then, and is told
apart from a second run of its seed by nothing else.
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


class Room:
    """One directory, empty at first and gone at the end."""

    def __init__(self, rng: random.Random) -> None:
        """The name is drawn from a copy: `rng` stays as it is."""
        drawn = random.Random()
        drawn.setstate(rng.getstate())
        parent = MEMORY if os.access(MEMORY, os.W_OK) else tempfile.gettempdir()
        wanted = Path(parent) / f"autoexp-sim-{drawn.getrandbits(40):010x}"
        self._held = _hold(wanted)
        if self._held is None:
            wanted = Path(tempfile.mkdtemp(prefix="autoexp-sim-", dir=parent))
        self.path = wanted

    def close(self) -> None:
        """Clear it away."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


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
    """Clear what a killed campaign left.

    Raises:
        OSError: it is another's, or was cleared away before it was locked.
    """
    here, ours = path.stat(), os.fstat(held)
    if here.st_ino != ours.st_ino or ours.st_uid != os.geteuid():
        raise OSError(f"{path} is another's")
    for name in os.listdir(held):
        shutil.rmtree(path / name)
