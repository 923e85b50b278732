"""What several benches measure by, and the plan that two of them share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.model.builders import job

from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.specs import JobSpec


def measure_cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure_wall(work: Callable[[], object]) -> float:
    """Seconds on the wall clock."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def find_p99(ordered: Sequence[float]) -> float:
    """The value that 99 in 100 are not above."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def make_pairs(jobs: int) -> list[JobSpec]:
    """Pairs: one that trains, one that waits for it."""
    specs = []
    for n in range(0, jobs, 2):
        done = JobStateIs(jobs=(f"stable{n}",), state="COMPLETED")
        waits = {"depends_on": (f"stable{n}",), "start_conditions": (done,)}
        specs.append(job(f"stable{n}", n, stage="stable"))
        specs.append(job(f"cool{n}", n + 1, stage="cooldown", **waits))
    return specs
