"""Memory of an engine over a simulated month of 10,000 jobs: what each ended job keeps.

    python -m tests.bench.bench_month [--jobs 10000] [--days 30] [--trace]

The engine is the real one; its cluster, files and journal are fakes that forget what
has ended, so that what grows is the engine. Every job trains for hours, logs a step
every quarter of an hour, some crash and are restarted, half of them wait for another.
Prints one line a day, the growth a day over the second half of the month, and what is
kept of each job that ended since day 2.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench.measures import make_pairs
from tests.engine.bench import Bench
from tests.model.builders import plan
from tests.support.fake_script import RunScript, Write

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Plan

DAY = 86_400.0
STEP = 300.0
"""Simulated seconds between two looks at the world."""
LINE_SECONDS = 900.0
SLOTS = 140


class Forgetful(list[Recorded]):
    """A journal's records of which only the newest is kept, and the number of all."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def extend(self, records: Iterable[Recorded]) -> None:
        """Count them; keep the last."""
        new = list(records)
        self.total += len(new)
        self[:] = new[-1:]

    def __len__(self) -> int:
        return self.total


class Newest(list[Snapshot]):
    """Only the newest snapshot, as a screen holds it."""

    def append(self, snapshot: Snapshot) -> None:
        """Take it and let go of the one before."""
        self[:] = [snapshot]


class Month(Bench):
    """A bench whose world forgets what has ended."""

    def start(self) -> None:
        """Begin with a journal that keeps nothing."""
        self.world.session.records = Forgetful()
        self.snapshots = Newest()
        super().start()

    def forget_ended(self) -> None:
        """Drop what the cluster and the file system know of ended jobs."""
        executor, jobs = self.executor, self.engine.state.jobs
        ended = {name for name, one in jobs.items() if one.ended}
        executor.copies = [c for c in executor.copies if c.task.job not in ended]
        executor.begun = [b for b in executor.begun if b.task[0] not in ended]
        polls, strokes = executor._last_poll, executor.ledger.befallen
        tasks = (executor._of_task, executor.claims, executor._tokens, polls, strokes)
        for known in tasks:
            for task in [task for task in known if task[0] in ended]:
                del known[task]
                executor._gone.note(task, holds=False, now=0.0)
        for places in (self.files.data, self.files.links, self.files.written):
            for path in [path for path in places if path.split("/")[2] in ended]:
                del places[path]


def make_plan(jobs: int) -> Plan:
    """Pairs: one that trains, one that waits for it."""
    again = Restart(reason="crashed", conditions=(MaxAttempts(max_attempts=3),))
    rules = Monitoring(
        poll_seconds=60.0,
        log_events=(
            LogEvent(
                name="saved",
                pattern=r"saved checkpoint (?P<n>\d+)",
                pattern_type="regex",
                extract_groups={"checkpoint": "n"},
            ),
        ),
        state_events=(StateEvent(name="crash", state="crash", actions=(again,)),),
    )
    return plan(*make_pairs(jobs), monitoring=rules)


def run_script(rng: random.Random) -> RunScript:
    """Hours of training, a line each quarter of an hour; one in twenty crashes."""
    lines = rng.randint(16, 64)
    seconds = lines * LINE_SECONDS
    writes = tuple(
        Write(
            at=n * LINE_SECONDS,
            data=(
                f"iteration {n * 100}/{lines * 100} | lm loss: {9 / (n + 1):.4f} | "
                f"learning rate: 1.0E-03 | grad norm: {1 + n % 3}.5 | "
                f"tokens/s: {40_000 + n}\n" + f"saved checkpoint {n}\n" * (n % 8 == 0)
            ).encode(),
        )
        for n in range(1, lines)
    )
    crashes = rng.random() < 0.05
    return RunScript(seconds=seconds, writes=writes, exit_code=int(crashes))


def resident() -> float:
    """MiB of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Scripts(dict[str, Sequence[Sequence[RunScript]]]):
    """The scripts of a job, made when it is asked for."""

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, default: object = None) -> Sequence[Sequence[RunScript]]:
        """Two attempts, the second one after a crash."""
        del default
        rng = random.Random(name)
        return [[run_script(rng)], [run_script(rng)], [run_script(rng)]]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--trace", action="store_true", help="three times as slow")
    args = parser.parse_args(argv)
    if args.trace:
        tracemalloc.start(1)
    begun = time.process_time()
    before = resident()
    bench = Month(make_plan(args.jobs), Scripts(), slots=SLOTS)
    bench.executor.poll_seconds = 60.0
    bench.step()
    print(f"{args.jobs} jobs planned: {resident() - before:.0f} MiB")
    daily, ends = [], []
    for day in range(1, args.days + 1):
        for _ in range(int(DAY / STEP)):
            bench.clock.advance(STEP)
            bench.executor.settle()
            bench.step()
        bench.forget_ended()
        ended = sum(one.ended for one in bench.engine.state.jobs.values())
        traced = tracemalloc.get_traced_memory()[0] / (1 << 20)
        objects = f"{traced:7.1f} MiB of objects, " if args.trace else ""
        daily.append(resident() - before)
        ends.append(ended)
        print(
            f"day {day:>2}: {ended:>6} ended, {daily[-1]:7.1f} MiB, "
            f"{objects}{len(bench.world.session.records):>8} events, "
            f"{time.process_time() - begun:6.0f} s CPU",
            flush=True,
        )
    half = len(daily) // 2
    growth = (daily[-1] - daily[half]) / max(1, len(daily) - 1 - half)
    print(f"growth over the second half: {growth:.2f} MiB a day")
    if len(daily) > 2:
        kept = (daily[-1] - daily[1]) * 1024 / max(1, ends[-1] - ends[1])
        print(f"kept of each job that ended since day 2: {kept:.1f} kB")


if __name__ == "__main__":
    main()
