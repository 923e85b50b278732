"""Processes that race to be a session's engine, each to the first synced commit. Run
as a program, it is an engine for a test to stop: it prints `ready`, and of each line
that it reads `written` or `deposed`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from autoexp_tui.events.events import EngineStarted
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease, take_lease
from tests.storage.disk_session import DiskStore
from tests.support.journal_contract import Writer, message


class Leased(DiskStore):
    """Under a real lease: the one given, or one that it takes."""

    def __init__(self, path: Path, lease: FileLease | None = None) -> None:
        super().__init__(path, pytest.MonkeyPatch())
        self._lease = lease

    def acquire(self) -> tuple[FileLease, FileJournal]:
        lease = self._lease or take_lease(self.session, SystemClock())
        return lease, FileJournal(self.session, lease)


def start_engine(path: Path) -> Writer | None:
    """Own the session and write the first commit; None when another has it."""
    try:
        writer = Writer(Leased(path))
    except SessionOwned:
        return None
    writer.begin()
    return writer


def leave_dead_holder(path: Path) -> int:
    """A process becomes the engine, and is killed; nobody has reaped it."""
    pid = os.fork()
    if pid == 0:
        start_engine(path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def race_once(path: Path, starters: int, *, dead: bool) -> tuple[int, int]:
    """A race, maybe for a dead holder's session: how many engines wrote, and how many
    the journal counts."""
    pids = [leave_dead_holder(path)] if dead else []
    gate, go = os.pipe()
    verdicts, tell = os.pipe()
    hold, let_go = os.pipe()
    for _ in range(starters):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.close(let_go)
            _starter(path, gate, tell, hold)
        pids.append(pid)
    os.close(go)  # all of them read its end at once
    os.close(tell)
    written = sum(os.read(verdicts, 1) == b"1" for _ in range(starters))
    os.close(let_go)  # a winner that ended would be a dead holder, and its lease free
    for pid in pids:
        os.waitpid(pid, 0)
    for descriptor in (gate, verdicts, hold):
        os.close(descriptor)
    events = [record.event for record in Leased(path).records()]
    shutil.rmtree(path)
    return written, sum(isinstance(event, EngineStarted) for event in events) - dead


def _starter(path: Path, gate: int, tell: int, hold: int) -> None:
    os.read(gate, 1)
    try:
        os.write(tell, b"1" if start_engine(path) else b"0")
    except BaseException as error:  # noqa: BLE001 - a child tells its parent
        print(repr(error), file=sys.stderr, flush=True)
        os.write(tell, b"x")
    os.read(hold, 1)
    os._exit(0)


def hold(path: Path) -> None:
    """Own a session and write to it when told."""
    writer = start_engine(path)
    assert writer is not None
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            writer.write(message(line.strip()))
        except SessionOwned:
            print("deposed", flush=True)
            return
        print("written", flush=True)


if __name__ == "__main__":
    hold(Path(sys.argv[1]))
