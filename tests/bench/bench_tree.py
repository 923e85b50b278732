"""What a search costs: a no-op evaluation through the real engine, with the disk, git
and jobs faked, as a session grows; reading its journal again; and keys in its mode of
the cockpit."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

from tests.cockpit.seat import cockpit
from tests.cockpit.test_tree import find_part, of_one_depth, with_part
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import find, search

from autoexp_tui.cli.diagnostics import freeze_garbage
from autoexp_tui.model.event import fold
from autoexp_tui.model.state import SessionState

IDEAS = 10


def propose(node: str) -> Sequence[str]:
    return [f"0.00{at} idea {at} of {node}" for at in range(1, IDEAS + 1)]


def measure(evaluations: int) -> None:
    depth = evaluations // IDEAS
    bench = search(
        FakeTrees(propose),
        max_depth=depth,
        ideas_per_node=IDEAS,
        max_parallel_evals=IDEAS,
        beam_width=1,
    )
    marks, portion = [], max(1, evaluations // 10)
    begun, done = time.process_time(), 0
    while len(find(bench).evaluations) < evaluations or find(bench).open:
        bench.run(2)
        ended = len(find(bench).evaluations)
        if ended - done >= portion:
            now = time.process_time()
            marks.append((now - begun) / (ended - done) * 1e3)
            begun, done = now, ended
    print(
        f"tree  {evaluations} evaluations: {marks[0]:.2f} ms CPU each at first, ",
        end="",
    )
    print(f"{marks[-1]:.2f} at last: {marks[-1] / marks[0]:.2f}x")
    records = bench.world.session.records
    began = time.process_time()
    fold(SessionState(plans=bench.world.session.plans), records)
    print(
        f"tree  fold of {len(records)} events: {time.process_time() - began:.2f} s CPU"
    )


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
    median, p99 = statistics.median(spent), sorted(spent)[-2]
    told = f"key to paint p50 {median:.1f} ms, p99 {p99:.1f} ms CPU"
    print(f"tree  {evaluations} in one depth at {size[0]}x{size[1]}: {told}")


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    freeze_garbage()  # as commands do
    for wanted in ((80, 24), (120, 40), (200, 60)):
        asyncio.run(measure_keys(number, wanted))
    measure(number)
