"""How many calls of agents a search begins in a minute, whichever of its processes
makes them: the times of the last ones are in a file that they lock."""

from __future__ import annotations

import fcntl
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from autoexp_tui.storage.atomic import explaining, make_directory

MINUTE: Final = 60.0
_STEP: Final = 0.5


def wait_for_turn(path: Path, limit: int, deadline: float) -> None:
    """Wait until a call may begin, and count it: `limit` of them a minute at most.

    `path`: the file. `deadline`: monotonic; then it begins all the same, and its own
    limit of time ends it. Raises EnvironmentFailed."""
    while (seconds := _take_turn(path, limit)) > 0 and time.monotonic() < deadline:
        time.sleep(min(seconds, _STEP))


def _take_turn(path: Path, limit: int) -> float:
    """0: it was taken; else how many seconds there are until one is free."""
    make_directory(path.parent)
    with explaining(path, "count the calls of agents"), path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        times, now = list[float](), time.time()
        with suppress(ValueError, TypeError):  # cut off by a kill
            times = [float(one) for one in json.loads(file.read())]
        times = sorted(one for one in times if now - MINUTE < one <= now)
        if len(times) >= limit:
            return times[-limit] + MINUTE - now
        file.truncate(0)
        file.write(json.dumps([*times, now]).encode())
    return 0.0
