"""What a search costs: a no-op evaluation through the real engine, with the disk, git
and jobs faked, as a session grows; and reading its journal again."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import find, search

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


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
