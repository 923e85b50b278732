"""A week's campaign, 1,000 jobs with faults, replayed in the cockpit on a terminal.

    python -m tests.bench.bench_replay [JOBS]

Prints how long the journal takes to fold, how soon the first jobs stand there, how
fast jumps are, how long after a key the screen changes while the replay plays (p50,
p99), and the bytes that go to the terminal.
"""

from __future__ import annotations

import gc
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.measures import find_p99
from tests.cockpit.ptys import OnTerminal
from tests.storage.week_session import write_week

from autoexp_tui.engine.replay import ReplayBuffer
from autoexp_tui.storage.journal import StoredPlans, read_session
from autoexp_tui.storage.session_dir import SessionDir

KEYS = "jjkkjjkkGgjk]][[12"
"""Each of them changes something: the cursor, the page, the pane."""
SPEEDS = ("1x", "60x", "3600x", "100000x")
PRESSES = 120
SECONDS = 10.0
_ROW = re.compile(rb"\x1b\[[0-9;]*H")


def spread(seconds: Sequence[float]) -> str:
    """`p50 3.1 ms   p99 17.0 ms   most 18.2 ms`."""
    found = sorted(one * 1000 for one in seconds)
    middle, p99 = statistics.median(found), find_p99(found)
    return f"p50 {middle:6.1f} ms   p99 {p99:6.1f} ms   most {found[-1]:6.1f} ms"


def bench_jumps(session: SessionDir) -> None:
    start = time.perf_counter()
    buffer = ReplayBuffer(read_session(session), StoredPlans(session))
    while buffer.reading:
        buffer.read()
    took = time.perf_counter() - start
    print(f"fold          {len(buffer):,} events in {took:.1f} s")
    gc.collect()
    gc.freeze()  # as the cockpit does once a session is open
    rng, seconds = random.Random(1), []
    for _ in range(500):
        position = rng.randrange(len(buffer))
        start = time.perf_counter()
        buffer.seek(position)
        buffer.snapshot(buffer.begin, 1.0, playing=False)
        seconds.append(time.perf_counter() - start)
    print(f"jump          {spread(seconds)}")


def opened(session: SessionDir, speed: str) -> OnTerminal:
    place = ["--session", session.id, "--state-dir", str(session.state_dir)]
    return OnTerminal(
        ["-m", "autoexp_tui.cli.tui", *place, "--replay", "--speed", speed]
    )


def bench_opening(session: SessionDir, speed: str) -> None:
    """The first jobs on the screen, and keys while the rest is read behind it."""
    start = time.perf_counter()
    with opened(session, speed) as terminal:
        terminal.read_until(b"stable", 60.0)
        first = time.perf_counter() - start
        seconds: list[float] = []
        while time.perf_counter() - start < first + 2.0:
            took = latency(terminal, KEYS[len(seconds) % len(KEYS)])
            seconds += [] if took is None else [took]
    print(f"first jobs    at {speed:>8}   {first:.1f} s after the command")
    print(f"keys then     at {speed:>8}   {spread(seconds)}   ({len(seconds)} keys)")


def amid(terminal: OnTerminal) -> None:
    """Open, and go to the midst of the week."""
    terminal.read_until(b"stable", 60.0)
    terminal.type("t")
    terminal.read_for(0.5)
    terminal.type("40%\r")
    terminal.read_for(2.0)


def latency(terminal: OnTerminal, key: str) -> float | None:
    """Seconds from a key to the first change on the screen; None: nothing changed."""
    terminal.read_for(random.uniform(0.0, 0.06))
    start = time.perf_counter()
    terminal.type(key)
    found = b""
    while time.perf_counter() - start < 1.0:
        found += terminal.read_some(0.25)
        if _ROW.search(found):
            return time.perf_counter() - start
    return None


def bench_keys(session: SessionDir, speed: str) -> None:
    with opened(session, speed) as terminal:
        amid(terminal)
        found = [latency(terminal, KEYS[n % len(KEYS)]) for n in range(PRESSES)]
    seconds = [one for one in found if one is not None]
    print(f"key to paint  at {speed:>8}   {spread(seconds)}   ({len(seconds)} keys)")


def bench_bytes(session: SessionDir, speed: str) -> None:
    with opened(session, speed) as terminal:
        amid(terminal)
        written = len(terminal.read_for(SECONDS)) / SECONDS
    print(f"bytes         at {speed:>8}   {written:8.0f} B/s")


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with TemporaryDirectory() as directory:
        session, told = write_week(Path(directory), jobs=jobs)
        days = (told.records[-1].t - told.records[0].t) / 86400
        print(f"journal       {len(told.plan.jobs)} jobs, {days:.1f} days")
        bench_jumps(session)
        bench_opening(session, "60x")
        for speed in SPEEDS:
            bench_keys(session, speed)
        for speed in SPEEDS:
            bench_bytes(session, speed)


if __name__ == "__main__":
    main()
