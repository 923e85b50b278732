"""The processes of an attempt on this host, when its wrapper cannot end them itself.

Asking it to end, and ending what a killed wrapper may have left. Processes of other
hosts and containers are never touched.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Hashable, Iterator
from contextlib import suppress
from pathlib import Path

from autoexp_tui.engine.executor_port import Task, TaskPhase, TaskReport
from autoexp_tui.executors.wrapper import get_session, write_record
from autoexp_tui.storage.processes import COOKIE, Alive, Identity, read_start, read_stat

_PROC = Path("/proc")
_MOST_ROUNDS = 10
"""Of looking for what a killed wrapper left: who forks faster is not ours to end."""


def check_supervisor(process: Identity, me: Identity, claim: Path) -> Alive:
    """Whether a supervisor, or its guard, lives: they hold the lock of the claim.

    The lock is asked of this machine's processes alone; it sees other containers'.
    """
    seen = process.check_alive(me)
    same_machine = (process.host, process.boot) == (me.host, me.boot)
    if seen is Alive.YES or not same_machine:
        return seen
    held = check_lock(claim)
    return seen if held is Alive.UNKNOWN else held


def check_lock(path: Path) -> Alive:
    """Whether somebody holds a file's lock; unknown: it is not there, or has none."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Alive.YES
    except OSError:
        return Alive.UNKNOWN
    return Alive.NO


def send_term(process: Identity) -> bool:
    """SIGTERM to exactly this process, stopped or not; False when it is gone."""
    try:
        for number in (signal.SIGTERM, signal.SIGCONT):
            if read_start(process.pid) != process.started:
                return False
            os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def kill_left_behind(attempt_dir: str, leader: tuple[int, str] = (0, "")) -> int:
    """SIGKILL to all that an attempt's command left on this host; how many it was.

    It is known by its environment, or by the process group or session of the `leader`:
    pid and start time of the command, on this host and since its boot.
    """
    killed: set[int] = set()
    for _ in range(_MOST_ROUNDS):  # one may be forked while the others are listed
        left = set(_list_left(attempt_dir, *leader))
        if left <= killed:
            break
        for pid in left - killed:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
    return len(killed)


def _list_left(attempt_dir: str, leader: int, started: str) -> Iterator[int]:
    """Processes with the attempt's mark, and ours of the leader's group or session,
    whose number the kernel gives out again only when both are empty."""
    wanted = os.fsencode(f"{COOKIE}={attempt_dir}")
    is_known = started and read_start(leader) in (None, started)
    for pid in _list_pids():
        with suppress(OSError):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                yield pid
        with suppress(OSError):
            ours = is_known and os.stat(_PROC / str(pid)).st_uid == os.getuid()
            if ours and int(read_start(pid) or 0) >= int(started):
                group_and_session = (read_stat(pid) or "").split()[2:4]
                if str(leader) in group_and_session:
                    yield pid


def find_refusal(attempt_dir: str) -> str:
    """Why an attempt's directory, or its session's, takes no record; empty: it does."""
    there = os.path.isdir(attempt_dir)
    directory = attempt_dir if there else get_session(attempt_dir)
    name = f".probe.{os.getpid()}"
    try:
        write_record(directory, name, {"v": 1})
        os.unlink(os.path.join(directory, name))
    except OSError as error:
        return f"{directory} cannot be written: {error.strerror or error}"
    return ""


def report_unknown(task: Task, reason: str) -> TaskReport:
    """Nothing can be said of a task now."""
    return TaskReport(
        job=task.job, attempt=task.attempt, phase=TaskPhase.UNKNOWN, reason=reason
    )


def _list_pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    return []


def is_start_alive(task_file: str) -> bool:
    """Whether anything lives that this start may still turn into a run.

    A start holds the lock of its task file from before there is a process for it, and
    its child inherits it. Where files have no locks, who holds it open is sought.
    """
    held = check_lock(Path(task_file))
    if held is not Alive.UNKNOWN:
        return held is Alive.YES
    # Two looks: during one of them a start may change its pid, as it detaches.
    for _ in range(2 if os.path.exists(task_file) else 0):
        for pid in _list_pids():
            with suppress(OSError):
                for handle in (_PROC / str(pid) / "fd").iterdir():
                    with suppress(OSError):
                        if os.readlink(handle) == task_file:
                            return True
    return False


class HeldTimes:
    """For how long what has held, by key, of the time in which somebody looked."""

    def __init__(self, most_between: float) -> None:
        """`most_between`: seconds that a stretch between two looks counts at most."""
        self._most_between = most_between
        self._held: dict[Hashable, tuple[float, float]] = {}
        """Seconds, and the newest look."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held

    def note(self, key: Hashable, *, holds: bool, now: float) -> float:
        """Seconds for which it has held at this look (monotonic); 0 when it does
        not."""
        if not holds:
            self._held.pop(key, None)
            return 0.0
        seconds, at = self._held.get(key, (0.0, now))
        seconds += min(now - at, self._most_between)
        self._held[key] = seconds, now
        return seconds

    def seconds(self, key: Hashable) -> float:
        return self._held.get(key, (0.0, 0.0))[0]
