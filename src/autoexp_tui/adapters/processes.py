"""The processes of an attempt on this host: whether they live, and how they end.

The wrapper ends its own processes. What stands here is for when it cannot: asking it
to, from outside, and ending what a killed wrapper may have left. Processes of other
hosts and containers are never touched.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autoexp_tui.adapters.identity import Alive, Identity, start_time

_PROC = Path("/proc")
COOKIE = "AUTOEXP_ATTEMPT_DIR"
"""Set by the wrapper: whatever the command starts inherits it."""


def supervisor_lives(process: Identity, me: Identity, claim: Path) -> Alive:
    """Whether a supervisor lives.

    One in another container of this machine cannot be seen, but it (and its guard)
    hold the lock of the claim.
    """
    seen = process.alive(me)
    same_machine = (process.host, process.boot) == (me.host, me.boot)
    if seen is Alive.UNKNOWN and same_machine:
        return _lock_is_held(claim)
    return seen


def _lock_is_held(path: Path) -> Alive:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Alive.YES
    except OSError:
        return Alive.UNKNOWN
    return Alive.NO


def terminate(process: Identity) -> bool:
    """SIGTERM to exactly this process; False when it is gone.

    Raises:
        PermissionError: it is not ours.
    """
    try:
        with _held(process.pid) as send:
            if start_time(process.pid) != process.started:
                return False
            send(signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _held(pid: int) -> Iterator[Callable[[int], None]]:
    """A way to signal `pid` that cannot hit a later process of that number."""
    if not hasattr(os, "pidfd_open"):  # not Linux: as good as it gets there
        yield lambda number: os.kill(pid, number)
        return
    handle = os.pidfd_open(pid)
    try:
        yield lambda number: signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def kill_left_behind(attempt_dir: str) -> int:
    """SIGKILL to all that an attempt's command left on this host; how many it was."""
    left = list(_with_cookie(attempt_dir))
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _with_cookie(attempt_dir: str) -> Iterator[int]:
    wanted = os.fsencode(f"{COOKIE}={attempt_dir}")
    for pid in _pids():
        with suppress(OSError):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                yield pid


def _pids() -> list[int]:
    try:
        names = os.listdir(_PROC)
    except OSError:
        return []
    return [int(name) for name in names if name.isdigit()]


def start_lives(task_file: str) -> bool:
    """Whether anything lives that this start may still turn into a run.

    A start holds the lock of its task file from before there is a process for it.
    Its child inherits the lock, so it is seen at once, whatever its name is: between
    fork and exec a process still bears the name of its parent, and while it execs it
    bears none. Where files have no locks, the processes that hold it open are sought.
    """
    held = _lock_is_held(Path(task_file))
    if held is Alive.UNKNOWN:
        return os.path.exists(task_file) and _is_open_somewhere(task_file)
    return held is Alive.YES


def _is_open_somewhere(path: str) -> bool:
    """Two looks: during one of them a start may change its pid, as it detaches."""
    return any(path in _open_files(pid) for _ in range(2) for pid in _pids())


def _open_files(pid: int) -> Iterator[str]:
    place = f"{_PROC}/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(place):
            with suppress(OSError):
                yield os.readlink(f"{place}/{name}")
