"""What a search costs, in CPU: a no-op evaluation through the real engine, with the
disk, git and jobs faked, as a session grows; reading its journal again; jobs that join
a large session; evaluations for real; and keys in the mode of the cockpit.

Run `python -m tests.bench.bench_tree [EVALUATIONS]`; prints figures, asserts nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.measures import measure_cpu, measure_wall
from tests.cockpit.seat import cockpit
from tests.cockpit.test_tree import find_part, of_one_depth, with_part
from tests.e2e.test_config_sweep import search as search_for_real
from tests.engine.bench import Bench
from tests.engine.test_growth import LONG, grow
from tests.model.builders import job, plan
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import find, search

from autoexp_tui.cli.diagnostics import freeze_garbage
from autoexp_tui.engine import snapshot_publisher
from autoexp_tui.events.session import PlanAdded
from autoexp_tui.model.event import fold
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import encode_record, load_state
from autoexp_tui.storage.session_dir import SessionDir

IDEAS = 10
REAL = """
# @package _global_
project: {name: search, base_output_dir: outputs}
slurm: {client: {class_name: LocalClient, slots: 8}}
agents: {edit: {backend: command, command: [sh, -c, "cat > changed"]}}
tree:
  max_depth: 1
  ideas: {dir: ideas}
  implement: {agent: edit, review_rounds: 0}
  root_baseline_csv: base.csv
  gate: {min_rows: 1}
  metrics: [m]
"""
"""The user's own work is a shell each in both steps."""
SUBREAPER = 36
PUBLISH_SECONDS = 40 * snapshot_publisher.PUBLISH_SECONDS
"""The engine's clock is made up and runs 40 times as fast as the work: 2,100 s in 53 s
of CPU. So this is a tenth of a second of the work's own time."""


def propose(node: str) -> Sequence[str]:
    return [f"0.00{at} idea {at} of {node}" for at in range(1, IDEAS + 1)]


def measure(evaluations: int, beam: int) -> Bench:
    """`beam`: nodes of a depth; of one node the chain grows with each depth."""
    trees = FakeTrees(propose)
    bench = search(
        trees,
        max_depth=1 + evaluations // IDEAS // beam,
        ideas_per_node=IDEAS,
        max_parallel_evals=IDEAS,
        beam_width=beam,
        max_total_idea_evals=evaluations,
    )
    marks, portion = [], max(1, evaluations // 10)
    begun, done = time.process_time(), 0
    while len(find(bench).evaluations) < evaluations or find(bench).open:
        bench.run(2)
        bench.snapshots.clear()  # no screen keeps them
        trees.views.clear()  # nor does whoever writes the files
        ended = len(find(bench).evaluations)
        if ended - done >= portion:
            now = time.process_time()
            marks.append((now - begun) / (ended - done) * 1e3)
            begun, done = now, ended
    print(f"tree  {evaluations} evaluations, beam of {beam}: ", end="")
    print(f"{marks[0]:.2f} ms CPU each at first, ", end="")
    print(f"{marks[-1]:.2f} at last: {marks[-1] / marks[0]:.2f}x")
    return bench


def measure_fold(bench: Bench, directory: Path) -> None:
    """From memory, and from the files of a session."""
    known, session = bench.world.session, SessionDir(directory / "s")
    state = SessionState(plans=known.plans)
    took = measure_cpu(partial(fold, state, known.records))
    print(f"tree  fold of {len(known.records)} events: {took:.2f} s CPU, ", end="")
    session.make()
    with session.get_part(1).open("wb") as file:
        for one in known.records:
            if isinstance(event := one.event, PlanAdded):
                sha = session.save_plan(known.plans[event.sha])
                one = replace(one, event=replace(event, sha=sha))
            file.write(encode_record(one))
    gc.collect()
    took = measure_cpu(partial(load_state, session))
    print(f"from {len(known.plans)} plans and the journal {took:.2f} s")


def measure_joins(jobs: int = 5000, joins: int = 100, each: int = 10) -> None:
    """Plans that a person has join a session whose first job runs."""
    names = [f"j{at}" for at in range(jobs)]
    first = plan(*(job(name, at) for at, name in enumerate(names)))
    bench, took = Bench(first, {"j0": [[LONG]]}, slots=1), []
    bench.reach(j0="RUNNING")
    for at in range(joins):
        more = plan(*(job(f"p{at}_{i}", i) for i in range(each)), plan_id=f"p{at}")
        took.append(measure_cpu(partial(grow, bench, more)) / each * 1e3)
    begin, end = (median(some) for some in (took[:10], took[-10:]))
    print(f"join  {joins} of {each} to {jobs}: {begin:.2f} ms CPU a job, ", end="")
    print(f"{end:.2f} at last: {end / begin:.2f}x")


def measure_real(files: int, ideas: int, *words: str, sleep: float = 0) -> None:
    """Whole searches of one idea and of several: what each further one costs."""
    rows = "config_id,status,m\n0,ok,1\n"
    write = f'sleep {sleep}; printf "{rows!r}" > "$AGENTIC_RESULTS_CSV"'.replace(
        "'", ""
    )
    found = {"config/search.yaml": REAL, "base.csv": rows, ".gitignore": "outputs\n"}
    found |= {f"data/{at // 100}/{at}.txt": f"{at}\n" for at in range(files)}
    found |= {f"ideas/{at:02}.md": f"# Idea {at}\n" for at in range(ideas)}
    words = (f"tree.evaluate.command=[sh,-c,{write!r}]", *words)
    cpu, wall = dict[int, float](), dict[int, float]()
    for count in (1, ideas):
        with tempfile.TemporaryDirectory() as place:
            call: Any = partial(
                search_for_real,
                Path(place),
                f"tree.ideas_per_node={count}",
                f"++slurm.client.slots_dir={place}/outputs/slots",
                *words,
                files=found,
            )
            before = count_cpu()
            wall[count], cpu[count] = measure_wall(call), count_cpu() - before
    each = (cpu[ideas] - cpu[1]) / (ideas - 1)
    print(f"real  {files} files: {each:.2f} s CPU an evaluation")
    if sleep:
        took = wall[ideas] - wall[1] + sleep
        gain = sleep * ideas / took
        print(f"real  {ideas} that sleep {sleep:g} s: {took:.1f} s, {gain:.1f}x")


def count_cpu() -> float:
    """Of all that ran below this process and is over, orphans too."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def measure_keys(evaluations: int, size: tuple[int, int]) -> None:
    """CPU from a key to its paint where all stand in one open depth, and a snapshot
    with other rows comes every sixth key."""
    shown, spent = of_one_depth(evaluations), []
    async with cockpit(shown, size) as seat:
        await seat.see("6", tree="● root|e1")
        await seat.idle()
        for at in range(120):
            if at % 6 == 0:
                part = find_part(shown).fork()
                part.open = (*part.open, "e1") if at % 12 else part.open
                seat.app.on_command_sent()
                seat.handle.push(with_part(shown, part))
            began = time.thread_time()
            await seat.pilot.press(("j", "k", "ctrl+d", "G", "g", "ctrl+u")[at % 6])
            spent.append((time.thread_time() - began) * 1e3)
    middle, p99 = median(spent), sorted(spent)[-2]
    told = f"key to paint p50 {middle:.1f} ms, p99 {p99:.1f} ms CPU"
    print(f"tree  {evaluations} in one depth at {size[0]}x{size[1]}: {told}")


def main() -> None:
    evaluations = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    freeze_garbage()  # as commands do
    for size in ((80, 24), (120, 40), (200, 60)):
        asyncio.run(measure_keys(evaluations, size))
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    snapshot_publisher.PUBLISH_SECONDS = PUBLISH_SECONDS
    measure(evaluations, beam=10)
    with tempfile.TemporaryDirectory() as place:
        measure_fold(measure(evaluations, beam=1), Path(place))
    measure_joins()
    measure_real(300, 9)
    measure_real(20_000, 3)
    measure_real(300, 16, "tree.max_parallel_evals=8", sleep=20)


if __name__ == "__main__":
    main()
