"""What 10,000 running jobs cost whose logs are watched, of which 1,000 grow; CPU time.

    python -m tests.bench.bench_log_rounds [jobs] [growing]

The engine and its reader of logs are the real ones, over files in the temporary
directory and a manual clock that goes from one wake-up to the next; looks at files are
counted with the rest. A growing log gets three real lines a second, of which one tells
metrics, at a tenth of a second of its own. Looks at the executor are left out: they
have their own pace. Prints figures, asserts nothing.
"""

from __future__ import annotations

import cProfile
import gc
import math
import pstats
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from tests.bench.measures import measure_cpu
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import RunScript
from tests.support.sim_world import World

from autoexp_tui.cli.diagnostics import freeze_garbage
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.specs import Plan
from autoexp_tui.probes.log_reader import LogReader

SETTLE_SECONDS = 120
"""Until quiet logs are looked at as seldom as they ever are."""
MEASURED_SECONDS = 30
TENTHS = 10

RULES = tuple(
    LogEvent(name=f"rule {number}", pattern=pattern, pattern_type="substring")
    for number, pattern in enumerate(
        ("FATAL", "Traceback", "CUDA out of memory", "slurmstepd: error")
    )
)


def lines(second: int, number: int) -> bytes:
    """What one job says in one second."""
    loss = 2.0 + math.sin(second / 50 + number)
    return (
        f"[rank 0] NCCL INFO Channel {second % 64:02d}/0 : 0[0] -> 1[1] via P2P\n"
        f" [2026-01-01 12:00:{second % 60:02d}] iteration {second:8d}/   60000 |"
        f" consumed samples: {second * 1024:12d} | tokens/s: 40020 |"
        f" learning rate: 1.000000E-03 | lm loss: {loss:.6f}E+00 | grad norm: 0.812 |\n"
        f"INFO datasets.py: shard {second} of 4096 is at hand\n"
    ).encode()


def make_plan(jobs: int, root: Path) -> Plan:
    """Jobs that run for ever, and write under `root`."""
    specs = (job(f"j{n}", n, log_dir=str(root / f"j{n}")) for n in range(jobs))
    return plan(*specs, monitoring=Monitoring(log_events=RULES))


@dataclass
class Session:
    """Running jobs, their logs, and what it cost to watch them."""

    bench: Bench
    logs: list[Path]
    growing: int
    tenths: int = 0
    spent: list[float] = field(default_factory=list)
    """CPU seconds of each wake-up."""

    def run(self, seconds: int) -> None:
        for _ in range(seconds * TENTHS):
            self._write()
            self._live_until(self.bench.clock.monotonic() + 1 / TENTHS)
            self.tenths += 1
            self.bench.snapshots.clear()

    def _write(self) -> None:
        second, tenth = divmod(self.tenths, TENTHS)
        for number in range(tenth, self.growing, TENTHS):
            with self.logs[number].open("ab") as log:
                log.write(lines(second, number))

    def _live_until(self, end: float) -> None:
        clock, engine = self.bench.clock, self.bench.engine
        while (left := end - clock.monotonic()) > 1e-9:
            begun = time.process_time()
            wait = engine.next_wake()
            self.spent.append(time.process_time() - begun)
            clock.advance(min(max(wait, 1e-3), left))
            if wait <= left:
                begun = time.process_time()
                self.bench.step()
                self.spent[-1] += time.process_time() - begun


def begin(jobs: int, root: Path) -> Session:
    """All jobs running, each with a few lines in its log."""
    for n in range(jobs):
        (root / f"j{n}").mkdir()
    bench = Bench(make_plan(jobs, root), {f"j{n}": [[ENDLESS]] for n in range(jobs)})
    bench.until(lambda: set(bench.states().values()) == {"RUNNING"})
    FakeExecutor.poll_seconds = 1e9
    attempts = (record.attempts[-1] for record in bench.engine.state.jobs.values())
    logs = [Path(attempt.log_path) for attempt in attempts]
    for number, log in enumerate(logs):
        log.write_bytes(lines(0, number))
    gc.collect()
    freeze_garbage()  # as the commands do once a session is open
    return Session(bench, logs, 0)


ENDLESS = RunScript(seconds=1e9)


def measure(session: Session, growing: int, what: str) -> None:
    """Print what a second costs while so many logs grow."""
    session.growing = growing
    session.run(MEASURED_SECONDS // 3)
    session.spent.clear()
    session.run(MEASURED_SECONDS)
    spent = sorted(one * 1e3 for one in session.spent)
    print(
        f"{what:28}{sum(spent) / MEASURED_SECONDS:8.1f} ms CPU a second"
        f"{len(spent) / MEASURED_SECONDS:8.1f} wake-ups a second"
        f"{spent[len(spent) // 2]:8.2f} ms the median one {spent[-1]:8.1f} ms the worst"
    )


def main(jobs: int = 10_000, growing: int = 1_000, *, profile: bool = False) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        patch.object(World, "log_source", lambda world: LogReader()),
    ):
        session = begin(jobs, Path(root))
        session.run(SETTLE_SECONDS)
        measure(session, 0, f"{jobs} logs, all quiet")
        measure(session, growing, f"{jobs} logs, {growing} grow")
        if profile:
            took = cProfile.Profile()
            took.runcall(session.run, 10)
            pstats.Stats(took).sort_stats("tottime").print_stats(45)
        idle = min(measure_cpu(session.bench.engine.commit) for _ in range(20)) * 1e3
        print(f"{'an idle commit':28}{idle:8.2f} ms CPU")


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:] if one.isdecimal()]
    main(*numbers, profile="--profile" in sys.argv)
