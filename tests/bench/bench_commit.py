"""The commit loop at 1,000 and 10,000 jobs: idle, changed, resumed; CPU time.

    python -m tests.bench.bench_commit

The engine is the real one over fakes in memory; half of the jobs run, the other half
waits for them, and up to 1,000 of those that run write their logs.
"""

from __future__ import annotations

import time

from tests.bench.measures import measure_cpu
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.specs import JobSpec

ROUNDS = 20
GROWING = 1_000
"""Logs, at most."""


def make_pairs(jobs: int) -> list[JobSpec]:
    """Pairs: one that trains, one that waits for it."""
    specs = []
    for n in range(0, jobs, 2):
        done = JobStateIs(jobs=(f"stable{n}",), state="COMPLETED")
        waits = {"depends_on": (f"stable{n}",), "start_conditions": (done,)}
        specs.append(job(f"stable{n}", n, stage="stable"))
        specs.append(job(f"cool{n}", n + 1, stage="cooldown", **waits))
    return specs


def script(number: int) -> RunScript:
    """A long run; the first ones log a step after half a minute."""
    at, growing = 30.0 + number % 7, number < 2 * GROWING
    line = Write(at=at, data=b"iteration 10/100 | lm loss: 2.5\n")
    return RunScript(seconds=1e6, writes=(line,) if growing else ())


def measure(jobs: int) -> None:
    the_plan = plan(*make_pairs(jobs))
    scripts = {
        spec.name: [[script(spec.index)]]
        for spec in the_plan.jobs
        if spec.stage == "stable"
    }
    begun = time.process_time()
    bench = Bench(the_plan, scripts)
    bench.step()
    started = time.process_time() - begun
    bench.clock.advance(2.0)
    bench.executor.settle()
    bench.step()
    idle = [measure_cpu(bench.engine.commit) * 1e3 for _ in range(ROUNDS)]
    bench.clock.advance(40.0)
    bench.executor.settle()
    changed = measure_cpu(bench.step) * 1e3
    resumed = measure_cpu(bench.start) * 1e3
    print(
        f"{jobs:>6} jobs: all started in {started:6.2f} s   idle commit "
        f"{sorted(idle)[ROUNDS // 2]:6.2f} ms (target <= 100 at 10,000)   "
        f"{min(GROWING, jobs // 2)} logs grew {changed:8.1f} ms   "
        f"resumed {resumed:8.1f} ms"
    )


def main() -> None:
    for jobs in (1_000, 10_000):
        measure(jobs)


if __name__ == "__main__":
    main()
