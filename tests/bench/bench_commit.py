"""The commit loop at 1,000 and 10,000 jobs: idle, changed, resumed; CPU time. And plans
of ten jobs that join sessions of 200, 1,000 and 5,000, a hundred of them.

    python -m tests.bench.bench_commit

The engine is the real one over fakes in memory; half of the jobs run, the other half
waits for them, and up to 1,000 of those that run write their logs.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from statistics import median

from tests.bench.measures import measure_cpu
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

from autoexp_tui.cli.diagnostics import freeze_garbage
from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.commands import Grow
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


JOINS = 100
AT_ONCE = 10


def join(bench: Bench, number: int) -> None:
    """Have a plan of ten jobs join; half of them wait for others."""
    specs = make_pairs(AT_ONCE)
    names = {spec.name: f"more{number}_{spec.name}" for spec in specs}
    renamed = [
        replace(
            spec,
            name=names[spec.name],
            output_dir=f"/out/{names[spec.name]}",
            log_dir=f"/logs/{names[spec.name]}",
            depends_on=tuple(names[one] for one in spec.depends_on),
            start_conditions=tuple(
                JobStateIs(jobs=(names[spec.depends_on[0]],), state="COMPLETED")
                for _ in spec.start_conditions
            ),
        )
        for spec in specs
    ]
    further = plan(*renamed, plan_id=f"more{number}")
    sha = bench.engine._parts.store_plan(further)
    bench.order(Grow(sha=sha, run=tuple(names.values())))
    bench.step()


def measure_joins(jobs: int) -> None:
    bench = Bench(plan(*make_pairs(jobs)), {})
    bench.step()
    while bench.pool.pending:  # until all that may start has
        bench.step()
    join(bench, JOINS)
    freeze_garbage()  # as every command does
    spent = [
        measure_cpu(partial(join, bench, number)) * 1e3 / AT_ONCE
        for number in range(JOINS)
    ]
    assert len(bench.engine.state.jobs) == jobs + (JOINS + 1) * AT_ONCE
    first, last = (median(some) for some in (spent[:10], spent[-10:]))
    replayed = measure_cpu(bench.start) * 1e3
    print(
        f"{jobs:>6} jobs, {JOINS} plans of {AT_ONCE} join: {first:5.2f} ms a job at "
        f"first, {last:5.2f} at last: {last / first:4.2f}x (target <= 1.3)   "
        f"resumed {replayed:8.1f} ms"
    )


def main() -> None:
    for jobs in (200, 1_000, 5_000):
        measure_joins(jobs)
    for jobs in (1_000, 10_000):
        measure(jobs)


if __name__ == "__main__":
    main()
