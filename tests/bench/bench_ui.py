"""The cockpit beside a bare Textual app: first paint, keys, bytes; `--help`.

    python -m tests.bench.bench_ui

Read the ratios, not the milliseconds: both sides run on the same machine in the same
minute.
"""

from __future__ import annotations

import asyncio
import gc
import random
import re
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.measures import measure_wall
from tests.cockpit.ptys import ROOT, OnTerminal
from tests.model.builders import job, plan
from tests.support.campaigns import all_done
from tests.support.scripted_handle import ScriptedHandle
from textual import events

from autoexp_tui.cli.diagnostics import freeze_garbage
from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.logfile import LogFile
from autoexp_tui.cockpit.widgets.results_pane import ResultsPane
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.json_codec import encode_plan
from autoexp_tui.telemetry.result_export import FORMS
from autoexp_tui.telemetry.results import Measure

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
PRESSES = 240
KEYS = "jjkkjjkkGgjk]][[12"
"""Each of them changes something: the cursor, the page, the pane."""
LINE = re.compile(rb"\x1b\[[0-9;]*H")


def first_paint(command: list[str]) -> float:
    """Median seconds from the start of a process to the end of its first screen.

    The first start is not counted: it may have to compile.
    """
    seconds = []
    for _ in range(PAINTS + 1):
        with OnTerminal(command) as terminal:
            seconds.append(terminal.read_until(b"leave", 60.0))
    return statistics.median(seconds[1:])


def bench_first_paint() -> None:
    bare = first_paint(["-c", BARE])
    print(f"first paint   bare Textual {bare * 1000:6.0f} ms")
    tui = str(Path(sys.executable).with_name("autoexp-tui"))
    for jobs in (10, 10_000):
        with TemporaryDirectory() as directory:
            manifest = Path(directory, "plan.json")
            manifest.write_bytes(encode_plan(plan(*map(job, map(str, range(jobs))))))
            ours = first_paint([tui, "--manifest", str(manifest)])
        print(
            f"first paint   {jobs:>6} jobs  {ours * 1000:6.0f} ms   {ours / bare:4.2f}x"
        )


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


def bench_keys(jobs: int) -> None:
    """From a key to a line that changed, while a thousand jobs a second change."""
    seconds = []
    with (
        TemporaryDirectory() as directory,
        OnTerminal([OURS, f"{directory}/r", str(jobs), "busy"]) as terminal,
    ):
        terminal.read_until(b"leave", 60.0)
        terminal.read_for(2.0)
        for turn in range(PRESSES):
            terminal.read_for(random.uniform(0.0, 0.06))
            start, found = time.perf_counter(), b""
            terminal.type(KEYS[turn % len(KEYS)])
            while time.perf_counter() - start < 1.0 and not LINE.search(found):
                found += terminal.read_some(0.25)
            seconds.append((time.perf_counter() - start) * 1000)
    p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    print(f"key to paint  {jobs:>6} jobs  p50 {p50:4.0f} ms, p99 {p99:4.0f} ms")


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


METRICS = [*(f"metric_{n}" for n in range(29)), "loss"]


def sweep_of(jobs: int, *, has_bests: bool = True) -> Snapshot:
    """Jobs that completed, each with values of its own, 30 metrics and their bests."""
    draw, records = random.Random(7), []
    for at in range(jobs):
        own = {"optim.lr": at % 100 + 1, "data.bsz": at // 100, "seed": at % 2}
        values = {name: draw.random() for name in METRICS}
        best = {name: (values[name], draw.randrange(60_000)) for name in values}
        best = best if has_bests else {}
        noted = NotedMetrics(
            attempt=1, step=60_000, total=60_000, values=values,
            lows=best, highs=best,
        )  # fmt: skip
        spec = job(f"j{at}", at, stage="train", parameters=own)
        records.append(JobRecord(spec=spec, state=JobState.COMPLETED, noted=noted))
    snapshot, specs = all_done(1), [one.spec for one in records]
    live = (None,) * jobs
    made = plan(*specs)
    return replace(snapshot, plan=made, jobs=tuple(records), live=live, warnings=())


def is_sorted(pane: ResultsPane, *, back: bool) -> bool:
    return pane.is_reversed is back


async def bench_results(jobs: int) -> None:
    """From the key to the first rows; a sort; the whole table as a file."""
    held, snapshot = [], sweep_of(1)
    for has_bests in (False, True):
        del snapshot
        tracemalloc.start()
        snapshot = sweep_of(jobs, has_bests=has_bests)
        held.append(tracemalloc.get_traced_memory()[0] / 1e6)
        tracemalloc.stop()
    print(f"results       records {held[0]:.0f} MB, with bests {held[1]:.0f} MB")
    app = CockpitApp(ScriptedHandle(snapshot), options=CockpitOptions(notify=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(1.0)
        gc.collect()
        freeze_garbage()  # as the command does once a session is open

        async def time_key(key: str, is_shown: Callable[[ResultsPane], bool]) -> float:
            start = time.perf_counter()
            app.post_message(events.Key(key, None))
            while not (found := app.screen.query(ResultsPane)) or not (
                is_shown(found.first())
            ):
                await pilot.pause(0.001)
            return (time.perf_counter() - start) * 1000

        shown = await time_key("e", lambda pane: "✓" in str(pane._lines_shown))
        again = []
        for turn in range(10):
            is_back = turn % 2 == 0
            took = await time_key("comma", partial(is_sorted, back=is_back))
            again.append(took)
        pane = app.screen.query_one(ResultsPane)
        print(f"results       {jobs:>6} jobs  shown {shown:.0f} ms, sorted ", end="")
        print(f"{statistics.median(again):.0f} ms")
        pane.choose(tuple(Measure(name, "min") for name in METRICS))
        assert pane.table is not None
        for form, write in FORMS.items():
            took = measure_wall(partial(write, pane.table, pane.rows))
            print(f"results       30 metrics as {form:<4} {took:5.2f} s")


def main() -> None:
    bench_first_paint()
    bench_help()
    for jobs in (1_000, 10_000):
        bench_keys(jobs)
    bench_bytes()
    bench_log()
    asyncio.run(bench_results(10_000))


if __name__ == "__main__":
    main()
