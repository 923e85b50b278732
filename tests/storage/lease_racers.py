"""Processes that race for leases, and one that is stopped while it holds one.

`python -m tests.storage.lease_racers race DIR...` runs eight processes through one
race a directory; each leaves a file `won.<racer>` where it won.
`... hold DIR` begins a session, prints `ready`, and appends a record for each line it
reads, printing `written` or `deposed`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from autoexp_tui.events.events import MessageLogged, SessionStarted
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.session_dir import SessionDir
from tests.model.builders import at

RACERS = 8
PATIENCE_SECONDS = 60.0


def winners(directories: list[Path]) -> list[int]:
    """Race for each directory with eight processes; how many won each race."""
    names = [str(path) for path in directories]
    command = [sys.executable, "-m", __name__, "race", *names]
    subprocess.run(command, check=True, timeout=2 * PATIENCE_SECONDS)
    return [_count(path, "won") for path in directories]


def race(directories: list[Path]) -> None:
    """Eight racers through all races, each of which begins when all are there."""
    racers = []
    for number in range(RACERS):
        pid = os.fork()
        if pid == 0:
            _run(number, directories)
            os._exit(0)
        racers.append(pid)
    for pid in racers:
        if os.waitpid(pid, 0)[1]:
            raise SystemExit(f"racer {pid} failed")


def _run(number: int, directories: list[Path]) -> None:
    clock = SystemClock()
    for path in directories:
        (path / f"ready.{number}").touch()
        _wait_for(lambda path=path: _count(path, "ready") == RACERS)  # type: ignore[misc]
        if _won(SessionDir(path), clock):
            (path / f"won.{number}").touch()
        (path / f"done.{number}").touch()
    # A winner that ended would be a dead holder, and its lease free.
    _wait_for(lambda: all(_count(path, "done") == RACERS for path in directories))


def _won(session: SessionDir, clock: SystemClock) -> bool:
    try:
        take_lease(session, clock)
    except SessionOwned:
        return False
    return True


def _count(path: Path, mark: str) -> int:
    return sum(1 for name in os.listdir(path) if name.startswith(f"{mark}."))


def hold(path: Path) -> None:
    """Own a session and write to it when told."""
    session = SessionDir(path)
    lease = take_lease(session, SystemClock())
    journal = FileJournal(session, lease)
    state = journal.load().state
    first = SessionStarted(
        session="s", name="n", engine_version="1", wrapper_version="1", plan_sha=""
    )
    draft = Draft(state, at(1.0), lease.epoch)
    draft.emit(first)
    journal.append(draft.records)
    print("ready", flush=True)
    for line in sys.stdin:
        draft = Draft(draft.state, at(1.0), lease.epoch)
        draft.emit(MessageLogged(text=line.strip()))
        try:
            journal.append(draft.records)
        except SessionOwned:
            print("deposed", flush=True)
            return
        print("written", flush=True)


def _wait_for(condition: Callable[[], bool], pause: float = 0.001) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(pause)


if __name__ == "__main__":
    if sys.argv[1] == "race":
        race([Path(name) for name in sys.argv[2:]])
    else:
        hold(Path(sys.argv[2]))
