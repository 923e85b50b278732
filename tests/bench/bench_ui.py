"""The cockpit beside a bare Textual app: first paint, keys, snapshots, bytes; `--help`.

    python -m tests.bench.bench_ui

Read the ratios, not the milliseconds: both sides run on the same machine in the same
minute.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.measures import measure_wall
from tests.cockpit.ptys import ROOT, OnTerminal
from tests.support.campaigns import campaign
from tests.support.scripted_handle import ScriptedHandle, moved

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.logfile import LogFile
from autoexp_tui.model.snapshot import Snapshot

BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("bare and leave")
Bare().run(mouse=False)
"""
OURS = str(ROOT / "tests" / "cockpit" / "terminal_app.py")
PAINTS = 5


def first_paint(command: list[str], made: Path | None = None) -> float:
    """Median seconds from the start of a process to the end of its first screen.

    The first start is not counted: it may have to compile. `made` holds the seconds
    that the process spent on making a session up: they are no part of the cockpit's.
    """
    seconds = []
    for _ in range(PAINTS + 1):
        with OnTerminal(command) as terminal:
            took = terminal.read_until(b"leave", 60.0)
        seconds.append(took - (float(made.read_text()) if made else 0.0))
    return statistics.median(seconds[1:])


def bench_first_paint() -> None:
    bare = first_paint(["-c", BARE])
    print(f"first paint   bare Textual {bare * 1000:6.0f} ms")
    for jobs in ("124", "10000"):
        with TemporaryDirectory() as directory:
            result = f"{directory}/r"
            ours = first_paint([OURS, result, jobs, "still"], Path(f"{result}.made"))
        ratio = ours / bare
        print(f"first paint   {jobs:>6} jobs  {ours * 1000:6.0f} ms   {ratio:4.2f}x")


def bench_help() -> None:
    """`--help` of the commands, beside a bare Python."""
    programs = ("autoexp-plan", "autoexp-run", "autoexp-tui")
    commands = {"python": [sys.executable, "-c", "pass"]}
    for name in programs:
        commands[name] = [str(Path(sys.executable).with_name(name)), "--help"]
    for name, command in commands.items():
        run = partial(subprocess.run, command, stdout=subprocess.DEVNULL, check=True)
        took = statistics.median(measure_wall(run) for _ in range(PAINTS))
        print(f"help          {name:<14} {took * 1000:6.0f} ms (target <= 150)")


async def bench_inside(jobs: int) -> None:
    snapshot = campaign(jobs)
    handle = ScriptedHandle(snapshot)
    app = CockpitApp(handle, options=CockpitOptions(ascii=False, no_color=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        screen, changing = app.jobs_screen, changes(snapshot)
        calls: dict[str, Callable[[], object]] = {
            "key to new lines": lambda: screen.jobs.move("down"),
            "a snapshot with 500 changes": lambda: take(app, changing),
        }
        for name, call in calls.items():
            await timed(f"{jobs:>6} jobs   {name}", call)


def changes(snapshot: Snapshot) -> list[Snapshot]:
    """Snapshots that each change 500 records: what 1,000 events a second do."""
    found = [snapshot]
    for round_ in range(40):
        base = found[-1]
        jobs = list(base.jobs)
        for place in range(round_, len(jobs), max(1, len(jobs) // 500)):
            jobs[place] = replace(jobs[place], resume=not jobs[place].resume)
        found.append(moved(replace(base, jobs=tuple(jobs)), 0.5))
    return found[1:]


def take(app: CockpitApp, snapshots: list[Snapshot]) -> None:
    app.context.model.take(snapshots.pop(0))
    app.jobs_screen.renew()


async def timed(name: str, call: Callable[[], object], rounds: int = 30) -> None:
    seconds = []
    for _ in range(rounds):
        seconds.append(measure_wall(call))
        await asyncio.sleep(0)
    seconds.sort()
    median, worst = statistics.median(seconds), seconds[-1]
    print(f"{name:<46} {median * 1000:6.1f} ms, at most {worst * 1000:6.1f} ms")


def bench_bytes() -> None:
    for name, jobs, motion in (
        ("idle", "124", "still"),
        ("11 live runs", "124", "moving"),
        ("24 live runs", "24", "running"),
    ):
        with TemporaryDirectory() as directory:
            command = [OURS, f"{directory}/r", jobs, motion]
            with OnTerminal(command) as terminal:
                terminal.read_until(b"leave", 60.0)
                terminal.read_for(2)
                written = len(terminal.read_for(5)) / 5
        print(f"bytes         {name:<14} {written:8.0f} B/s")


def bench_log() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "large.log"
        with path.open("wb") as file:
            file.truncate(10 * 10**9)
            file.seek(0, 2)
            file.write(b"".join(b"iteration %d\n" % n for n in range(1000)))
        log = LogFile(str(path))
        start = time.perf_counter()
        log.poll()
        lines = log.read_last(40)
        took = time.perf_counter() - start
        assert lines[-1].text == "iteration 999"
    print(f"log           tail of 10 GB {took * 1000:8.1f} ms")


def main() -> None:
    bench_first_paint()
    bench_help()
    for jobs in (124, 1_000, 10_000):
        asyncio.run(bench_inside(jobs))
    bench_bytes()
    bench_log()


if __name__ == "__main__":
    main()
