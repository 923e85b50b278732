"""Processes that race to be a session's engine, each to the first synced commit.

`make races` prints how many races had exactly one engine, and how long the first one
took to follow a dead holder. `--hold DIR` is an engine instead, for a test to stop: it
prints `ready`, and of each line that it reads `written` or `deposed`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
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


def leave_dead_holder(path: Path) -> None:
    """A process becomes the engine, and is killed."""
    pid = os.fork()
    if pid == 0:
        start_engine(path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def race(path: Path, starters: int) -> tuple[int, float]:
    """One race: how many engines wrote, and when the first one had, in seconds."""
    gate, go = os.pipe()
    verdicts, tell = os.pipe()
    hold, let_go = os.pipe()
    pids = []
    for _ in range(starters):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.close(let_go)
            _starter(path, gate, tell, hold)
        pids.append(pid)
    begun = time.monotonic()
    os.close(go)  # all of them read its end at once
    os.close(tell)
    written, first = 0, 0.0
    for _ in range(starters):
        if os.read(verdicts, 1) == b"1":
            written += 1
            first = first or time.monotonic() - begun
    os.close(let_go)  # a winner that ended would be a dead holder, and its lease free
    for pid in pids:
        os.waitpid(pid, 0)
    for descriptor in (gate, verdicts, hold):
        os.close(descriptor)
    return written, first


def _starter(path: Path, gate: int, tell: int, hold: int) -> None:
    os.read(gate, 1)
    try:
        os.write(tell, b"1" if start_engine(path) else b"0")
    except BaseException as error:  # noqa: BLE001 - a child tells its parent
        print(repr(error), file=sys.stderr, flush=True)
        os.write(tell, b"x")
    os.read(hold, 1)
    os._exit(0)


def race_once(path: Path, number: int, starters: int) -> tuple[int, bool, float]:
    """A race, every second one for a dead holder's session: how many engines wrote,
    whether the journal counts as many, and when the first one had."""
    dead = number % 2
    if dead:
        leave_dead_holder(path)
    written, seconds = race(path, starters)
    events = [record.event for record in Leased(path).records()]
    engines = sum(isinstance(event, EngineStarted) for event in events)
    sound = engines == 1 + dead
    shutil.rmtree(path)
    return written, sound, seconds if dead else 0.0


def run(races: int, starters: int, place: Path) -> int:
    """All races; prints what came of them."""
    found = [race_once(place / f"race{n}", n, starters) for n in range(races)]
    counts = Counter(written for written, *_ in found)
    wrong = sum(not sound for _, sound, _ in found)
    slowest = max(seconds for *_, seconds in found)
    print(
        f"{races} races of {starters} starters: {counts[1]} had exactly one engine, "
        f"{counts[0]} none, {races - counts[0] - counts[1]} several; "
        f"{wrong} journals that count another number\n"
        f"{races // 2} dead holders replaced, the slowest in {slowest * 1000:.0f} ms"
    )
    return int(counts[1] != races or wrong > 0)


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


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="races", description=__doc__)
    parser.add_argument("--starters", type=int, default=8)
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--hold", type=Path)
    args = parser.parse_args(argv)
    if args.hold:
        hold(args.hold)
        return 0
    with tempfile.TemporaryDirectory() as place:
        return run(args.races, args.starters, Path(place))


if __name__ == "__main__":
    sys.exit(main())
