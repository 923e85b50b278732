"""Real processes race for sessions; counts how many engines each race had.

    python -m tests.storage.races --starters 8 --races 1000

Each starter takes the lease if it can, opens the journal and writes its first commit,
as an engine does. Before every second race another process held the session, wrote to
it, and was killed. Prints the counts, and how long it took until a dead holder's
session was written again; exits 1 when any race had not exactly one engine.
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

from autoexp_tui.events.events import EngineStarted, SessionStarted
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.session_dir import SessionDir
from tests.model.builders import at

PATIENCE_SECONDS = 60.0


def start_engine(session: SessionDir) -> bool:
    """Own the session and write the first commit; False when another has it."""
    try:
        lease = take_lease(session, SystemClock())
    except SessionOwned:
        return False
    journal = FileJournal(session, lease)
    state = journal.load().state
    draft = Draft(state, at(time.time()), lease.epoch)
    seal = journal.seal
    if not seal.part:
        draft.emit(
            SessionStarted(
                session=session.id,
                name="race",
                engine_version="1",
                wrapper_version="1",
                plan_sha="",
            )
        )
    draft.emit(
        EngineStarted(
            host="h",
            pid=os.getpid(),
            sealed_part=seal.part,
            sealed_bytes=seal.bytes,
        )
    )
    journal.append(draft.commit())
    return True


def leave_dead_holder(session: SessionDir) -> None:
    """A process becomes the engine, and is killed."""
    pid = os.fork()
    if pid == 0:
        start_engine(session)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def race(session: SessionDir, starters: int) -> tuple[int, float]:
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
            _starter(session, gate, tell, hold)
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


def _starter(session: SessionDir, gate: int, tell: int, hold: int) -> None:
    os.read(gate, 1)
    try:
        os.write(tell, b"1" if start_engine(session) else b"0")
    except BaseException as error:  # noqa: BLE001 - a child tells its parent
        print(repr(error), file=sys.stderr, flush=True)
        os.write(tell, b"x")
    os.read(hold, 1)
    os._exit(0)


def engines_in(session: SessionDir) -> int:
    """How many engines the journal counts."""
    events = [record.event for record in read_session(session)]
    return sum(isinstance(event, EngineStarted) for event in events)


def run(races: int, starters: int, place: Path) -> int:
    """All races; prints what came of them."""
    counts: Counter[int] = Counter()
    slowest, wrong = 0.0, 0
    for number in range(races):
        session = SessionDir(place / f"race{number}")
        session.make()
        dead = number % 2
        if dead:
            leave_dead_holder(session)
        written, seconds = race(session, starters)
        counts[written] += 1
        wrong += engines_in(session) != 1 + dead or load_state(session).notices != ()
        slowest = max(slowest, seconds if dead else 0.0)
        shutil.rmtree(session.path)
    print(
        f"{races} races of {starters} starters: {counts[1]} had exactly one engine, "
        f"{counts[0]} none, {races - counts[0] - counts[1]} several; "
        f"{wrong} journals that count another number\n"
        f"{races // 2} dead holders replaced, the slowest in {slowest * 1000:.0f} ms"
    )
    return int(counts[1] != races or wrong > 0)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="races", description=__doc__)
    parser.add_argument("--starters", type=int, default=8)
    parser.add_argument("--races", type=int, default=1000)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place:
        return run(args.races, args.starters, Path(place))


if __name__ == "__main__":
    sys.exit(main())
