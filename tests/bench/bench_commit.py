"""The commit loop at 1,000 and 10,000 jobs: idle, changed, resumed; CPU time.

    python -m tests.bench.bench_commit

The engine is the real one over fakes in memory; half of the jobs run and write their
logs, the other half waits for them. Then as many jobs wait for a file of their own
each: what ten minutes of that cost, in looks and in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tests.bench.measures import make_pairs, measure_cpu
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model.facts import Fact, OutsideKey

ROUNDS = 20


def script(at: float) -> RunScript:
    """A long run that logs a step at `at`."""
    line = Write(at=at, data=b"iteration 10/100 | lm loss: 2.5\n")
    return RunScript(seconds=1e6, writes=(line,))


def measure(jobs: int) -> None:
    the_plan = plan(*make_pairs(jobs))
    scripts = {
        spec.name: [[script(30.0 + spec.index % 7)]]
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
        f"{jobs // 2} logs grew {changed:8.1f} ms   resumed {resumed:8.1f} ms"
    )


def measure_waits(jobs: int, minutes: int = 10) -> None:
    """Print what so many waits for files cost, with one commit a second."""
    specs = [
        job(f"j{n}", n, start_conditions=(FileExists(path=f"/out/j{n}/done"),))
        for n in range(jobs)
    ]
    bench = Bench(plan(*specs))
    bench.step()
    looks = 0
    observe_all = bench.files.observe_all

    def counted(keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        nonlocal looks
        looks += len(keys)
        return observe_all(keys)

    type(bench.files).observe_all = lambda _, keys: counted(keys)  # type: ignore[assignment, method-assign]
    spent = []
    for _ in range(60 * minutes):
        bench.clock.advance(1.0)
        spent.append(measure_cpu(bench.step) * 1e3)
    print(
        f"{jobs:>6} waits for files: {looks / len(spent):7.0f} looks a second, "
        f"{sum(spent) / len(spent):6.2f} ms CPU a second, the first and "
        f"busiest {max(spent):6.2f} ms"
    )


def main() -> None:
    for jobs in (1_000, 10_000):
        measure(jobs)
    for jobs in (1_000, 10_000):
        measure_waits(jobs)


if __name__ == "__main__":
    main()
