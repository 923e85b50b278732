"""First paint and start-up, each beside its reference in one run.

    python tests/bench/bench_start.py

A bare Textual app and the cockpit are started in turn in a pseudo-terminal of 120x40;
first paint is when their first words are on it. `--help` stands beside a bare Python.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.terminals import set_size

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.storage.json_codec import encode_plan

BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("READY")
Bare().run(mouse=False)
"""


def first_paint(command: Sequence[str], marker: bytes, limit: float = 20.0) -> float:
    """Seconds from the start of `command` until `marker` is written."""
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], list(command))
    set_size(terminal, rows=40, columns=120)
    try:
        return _until(terminal, marker, begun, limit)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _until(terminal: int, marker: bytes, begun: float, limit: float) -> float:
    seen = b""
    while time.perf_counter() - begun < limit:
        if select.select([terminal], [], [], 0.05)[0]:
            seen += _read(terminal)
            if marker in seen:
                return time.perf_counter() - begun
    raise SystemExit(f"{marker!r} never came:\n{seen[-2000:].decode(errors='replace')}")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has ended; the time limit says what it wrote
        time.sleep(0.05)
        return b""


def run_time(command: Sequence[str]) -> float:
    """Seconds that a command takes to its end."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def manifest(directory: Path, jobs: int) -> Path:
    """A manifest of so many jobs."""
    specs = tuple(
        JobSpec(
            name=f"lr{n}_stable",
            index=n,
            stage="stable",
            parameters={"lr": n / 1000, "seed": n},
            command=("true",),
            output_dir=f"{directory}/out/{n}",
            log_dir=f"{directory}/logs/{n}",
        )
        for n in range(jobs)
    )
    plan = Plan(plan_id="bench", name="bench", state_dir=str(directory), jobs=specs)
    path = directory / f"{jobs}.json"
    path.write_bytes(encode_plan(plan))
    return path


def median(measure: Callable[[], float], rounds: int) -> float:
    """The median of several measurements."""
    return statistics.median(measure() for _ in range(rounds))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    bin_dir = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        small, large = manifest(directory, 10), manifest(directory, 10_000)
        tui = [str(bin_dir / "autoexp-tui"), "--state-dir", str(directory / "state")]
        bare = median(
            lambda: first_paint([sys.executable, "-c", BARE], b"READY"), rounds
        )
        print(f"bare Textual app, first paint      {bare * 1e3:7.0f} ms")
        for label, path in (("10", small), ("10,000", large)):
            command = [*tui, "--manifest", str(path)]
            ours = median(partial(first_paint, command, b"Jobs"), rounds)
            print(
                f"autoexp-tui, first paint {label:>7} jobs {ours * 1e3:6.0f} ms"
                f"   {ours / bare:.2f} x bare (target <= 2)"
            )
        python = median(lambda: run_time([sys.executable, "-c", "pass"]), rounds)
        for name in ("autoexp-plan", "autoexp-run", "autoexp-tui"):
            helped = [str(bin_dir / name), "--help"]
            taken = median(partial(run_time, helped), rounds)
            print(
                f"{name} --help".ljust(34)
                + f" {taken * 1e3:7.0f} ms   {taken / python:.2f} x bare Python "
                f"(target <= 150 ms)"
            )


if __name__ == "__main__":
    main()
