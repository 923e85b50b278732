"""The fault simulator: whole campaigns on a manual clock, from one seed each.

The engine is killed between any two steps and amid a journal write; the cluster loses
answers, takes submissions twice or late, reports stale or nothing, loses tasks. After
every step the invariants hold: nothing is lost, no attempt is begun twice, every end
has a cause, and the fold of the journal is the live state.

    python -m autoexp_tui.testing.simulate --seeds 200
    python -m autoexp_tui.testing.simulate --seed 17 --verbose
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from autoexp_tui.core import events
from autoexp_tui.core.apply import IllegalTransition
from autoexp_tui.core.commands import Kill, Order, Resubmit, Resume, Submit
from autoexp_tui.core.specs import Plan, Storm
from autoexp_tui.core.state import JobRecord, SessionState
from autoexp_tui.core.states import ACTIVE, JobState
from autoexp_tui.engine.loop import Engine
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.testing.fake_executor import FakeExecutor
from autoexp_tui.testing.fake_script import Fault, SeededFaults, by_job
from autoexp_tui.testing.inline_pool import InlinePool
from autoexp_tui.testing.memory_journal import Fault as DiskFault
from autoexp_tui.testing.memory_journal import Killed
from autoexp_tui.testing.sim_plans import make_plan, make_scripts
from autoexp_tui.testing.sim_world import Files, World

MOST_STEPS = 60_000
FAULTY_SECONDS = 400.0
"""Simulated time with faults; afterwards the campaign must come to its end."""
RATES = {
    Fault.ANSWER_LOST: 0.08,
    Fault.REQUEST_LOST: 0.05,
    Fault.ARRIVES_LATE: 0.05,
    Fault.TAKEN_TWICE: 0.05,
    Fault.BUSY: 0.04,
    Fault.REJECTED: 0.01,
    Fault.POLL_FAILED: 0.05,
    Fault.POLL_EMPTY: 0.05,
    Fault.POLL_STALE: 0.05,
    Fault.POLL_PARTIAL: 0.05,
    Fault.CANCEL_LOST: 0.1,
    Fault.ADOPT_FAILED: 0.1,
}
KILL_RATE = 0.004
"""Of the engine, at each step."""
DISK_RATE = 0.01
STORMS = (0, 2, 4)
"""Quick failures in a row that pause a campaign, by its seed; 0: none."""
RESUMED_EVERY = 40
"""Steps between two looks of the person who ends a storm's pause."""


class Violation(Exception):
    """An invariant does not hold: the seed has found a bug."""


@dataclass(slots=True)
class Tally:
    """What a campaign went through."""

    steps: int = 0
    kills: int = 0
    disk_faults: int = 0
    storms: int = 0
    events: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Count another campaign in."""
        self.steps += other.steps
        self.kills += other.kills
        self.disk_faults += other.disk_faults
        self.storms += other.storms
        self.events += other.events
        self.jobs += other.jobs
        self.faults += other.faults


# ------------------------------------------------------------------------ the run
class Campaign:
    """One seed's campaign, step by step."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        self.verbose = verbose
        self.tally = Tally()
        self._rng = random.Random(seed)
        clock = ManualClock()
        self.plan = _with_storm(make_plan(self._rng), STORMS[seed % len(STORMS)])
        files = Files(clock)
        self._faults = SeededFaults(seed, RATES)
        executor = FakeExecutor(
            clock,
            by_job(make_scripts(self.plan, self._rng)),
            slots=self._rng.choice([0, 0, 3]),
            faults=self._count_fault,
            write=files.append,
            lag_seconds=self._rng.choice([0.0, 0.0, 2.0]),
            settle_seconds=8.0,
        )
        slots = self._rng.choice([0, 2, 5])
        self.world = World(clock=clock, executor=executor, files=files, slots=slots)
        self._start_time = clock.monotonic()
        self._pool = InlinePool(seed=seed)
        self._commands = 0
        self._engine = self._first_engine()

    def _count_fault(self, call: str) -> Fault | None:
        fault = self._faults(call)  # type: ignore[arg-type]
        if fault is not None:
            self.tally.faults[fault.value] += 1
        return fault

    # -------------------------------------------------------------------- engines
    def _first_engine(self) -> Engine:
        session = self.world.session
        lease = session.acquire()
        parts = self.world.parts(lease, self._pool)
        sha = parts.journal.add_plan(self.plan)
        engine = Engine(SessionState(plans=session.plans), parts)
        engine.begin(
            [
                events.SessionStarted(
                    session="sim",
                    name="sim",
                    engine_version="0",
                    wrapper_version="0",
                    plan_sha=sha,
                ),
                events.EngineStarted(host="sim", pid=1),
                events.PlanAdded(sha=sha),
            ]
        )
        self._order(Submit())
        return engine

    def _next_engine(self) -> Engine:
        """A successor after a kill; it may itself be killed while it begins."""
        while True:
            lease = self.world.session.acquire(holder_is_dead=True)
            self._pool = InlinePool(seed=self._rng.randrange(1 << 30))
            parts = self.world.parts(lease, self._pool)
            seal = getattr(parts.journal, "seal")  # noqa: B009 - not of the port
            engine = Engine(self.world.session.load(), parts)
            started = events.EngineStarted(
                host="sim", pid=1, sealed_part=seal.part, sealed_bytes=seal.bytes
            )
            try:
                engine.begin([started])
            except Killed:
                self.tally.kills += 1
                continue
            except Exception as refused:
                if "no space left" not in str(refused):
                    raise
                continue
            return engine

    def _order(self, command: Submit | Kill | Resubmit | Resume) -> None:
        self._commands += 1
        command_id = f"cmd{self._commands}"
        self.world.inbox.orders[command_id] = Order(
            command_id=command_id, command=command
        )

    # ----------------------------------------------------------------------- steps
    def run(self) -> Tally:
        """Go through the campaign.

        Raises:
            Violation: an invariant does not hold.
        """
        for _ in range(MOST_STEPS):
            self._step()
            self._check()
            if self._is_over():
                self._check_end()
                return self.tally
        raise Violation(f"no end in {MOST_STEPS} steps: {self._unfinished()}")

    def _elapsed(self) -> float:
        return self.world.clock.monotonic() - self._start_time

    def _faulty(self) -> bool:
        self._faults.enough = self._elapsed() > FAULTY_SECONDS
        return not self._faults.enough

    def _step(self) -> None:
        self.tally.steps += 1
        faulty = self._faulty()
        try:
            self._maybe_kill(faulty=faulty)
            self._arm_disk(faulty=faulty)
            self._act(faulty=faulty)
        except Killed as killed:
            self._say(f"killed {killed}")
            self.tally.kills += 1
            self._engine = self._next_engine()

    def _maybe_kill(self, *, faulty: bool) -> None:
        if faulty and self._rng.random() < KILL_RATE:
            raise Killed("between two steps")

    def _arm_disk(self, *, faulty: bool) -> None:
        session = self.world.session
        if faulty and self._rng.random() < DISK_RATE:
            kinds = ("refused", "killed_before", "killed_amid", "killed_after")
            kind = self._rng.choice(kinds)
            self.tally.disk_faults += 1
            session.faults[session.appends] = DiskFault(
                kind=kind,  # type: ignore[arg-type]
                kept=self._rng.randint(0, 3),
            )
        elif not faulty:
            session.faults.clear()

    def _act(self, *, faulty: bool) -> None:
        self._end_pause()
        draw = self._rng.random()
        if faulty and draw < 0.002:
            self._meddle()
        elif draw < 0.5 and self._pool.step():
            return
        elif draw < 0.85:
            self._engine.commit()
        else:
            self.world.clock.advance(self._rng.choice([0.1, 0.5, 2.0]))
            self.world.executor.settle()

    def _end_pause(self) -> None:
        """A person sees that the session is paused."""
        looks = self.tally.steps % RESUMED_EVERY == 0
        if looks and self._engine.state.paused and not self.world.inbox.orders:
            self._say("a person ends the pause")
            self.tally.storms += 1
            self._order(Resume())

    def _meddle(self) -> None:
        """A person kills a job, or brings one back."""
        jobs = list(self._engine.state.jobs.values())
        job = self._rng.choice(jobs)
        self._say(f"a person meddles with {job.name}, {job.state}")
        if job.ended:
            self._order(Resubmit(jobs=(job.name,)))
        else:
            self._order(Kill(jobs=(job.name,)))

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"{self._elapsed():9.1f}  {text}", file=sys.stderr)  # noqa: T201

    # ------------------------------------------------------------------- invariants
    def _check(self) -> None:
        for problem in (
            *self.world.executor.problems(),
            *self.world.faults[:1],
            *self._broken(self._engine.state),
        ):
            raise Violation(problem)

    @staticmethod
    def _broken(state: SessionState) -> Iterator[str]:
        for job in state.jobs.values():
            if job.ended and job.state is not JobState.COMPLETED and job.cause is None:
                yield f"{job.name} ended {job.state} without a cause"
            live = [a.number for a in job.attempts if a.outcome is None]
            if len(live) > 1:
                yield f"{job.name} has {len(live)} living attempts"
            if job.state in ACTIVE and not job.attempts:
                yield f"{job.name} is {job.state} without an attempt"

    def _is_over(self) -> bool:
        state = self._engine.state
        return (
            not self._faulty()
            and not self.world.inbox.orders
            and not state.pending
            and len(state.jobs) == len(self.plan.jobs)
            and all(job.ended for job in state.jobs.values())
        )

    def _check_end(self) -> None:
        live, folded = self._engine.state, self.world.session.load()
        for name, job in live.jobs.items():
            if folded.jobs[name] != job:
                raise Violation(f"replay differs from live state for {name}")
        if (folded.paused, folded.streaks) != (live.paused, live.streaks):
            raise Violation("replay counts other failures than the live state")
        self.tally.events = len(self.world.session.records)
        for job in live.jobs.values():
            self.tally.jobs[job.state.value] += 1
            self._check_completed(job)
        self.world.clock.advance(600.0)
        living = self.world.executor.living()
        if living:
            raise Violation(f"orphans run on: {living}")

    def _check_completed(self, job: JobRecord) -> None:
        """A completed job was begun by its last attempt and never after success."""
        if job.state is not JobState.COMPLETED:
            return
        left = self.world.ready.done.get(job.name)
        if left is None or left.attempts != len(job.attempts):
            raise Violation(f"{job.name} is completed and left no word of it")
        begun = [b for b in self.world.executor.begun if b.task[0] == job.name]
        if not begun or max(b.task[1] for b in begun) != len(job.attempts):
            raise Violation(f"{job.name} is completed, but begun {begun}")

    def _unfinished(self) -> str:
        state = self._engine.state
        rest = [
            f"{job.name} {job.state} {job.why.code if job.why else ''}"
            for job in state.jobs.values()
            if not job.ended
        ]
        orders = sorted(self.world.inbox.orders)
        return f"jobs {rest}, pending {list(state.pending.values())}, orders {orders}"


def _with_storm(plan: Plan, failures: int) -> Plan:
    rules = replace(plan.monitoring, storm=Storm(failures=failures))
    return replace(plan, monitoring=rules)


def simulate(seed: int, *, verbose: bool = False) -> Tally:
    """One campaign.

    Raises:
        Violation: with the seed's one-line replay.
    """
    try:
        return Campaign(seed, verbose=verbose).run()
    except (Violation, IllegalTransition, KeyError, ValueError) as problem:
        again = f"python -m autoexp_tui.testing.simulate --seed {seed} --verbose"
        raise Violation(
            f"seed {seed}: {type(problem).__name__}: {problem}\nreplay: {again}"
        ) from problem


def main(argv: Sequence[str] | None = None) -> int:
    """Run many seeds and say what they went through."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args(argv)
    chosen = [args.seed] if args.seed is not None else range(args.seeds)
    seeds = [seed + (0 if args.seed is not None else args.first) for seed in chosen]
    total, failed = Tally(), 0
    begun = time.monotonic()
    for seed in seeds:
        try:
            total.add(simulate(seed, verbose=args.verbose))
        except Violation as problem:
            failed += 1
            print(problem)  # noqa: T201
    seconds = time.monotonic() - begun
    print(report(total, len(seeds), failed, seconds))  # noqa: T201
    return int(failed > 0)


def report(total: Tally, seeds: int, failed: int, seconds: float) -> str:
    """What the campaigns went through, in a few lines."""
    ends = ", ".join(f"{n} {state}" for state, n in sorted(total.jobs.items()))
    faults = ", ".join(f"{n} {fault}" for fault, n in sorted(total.faults.items()))
    return (
        f"{seeds} campaigns, {failed} violations, {seconds:.0f} s\n"
        f"{total.steps} steps, {total.events} events, {total.kills} engines killed, "
        f"{total.disk_faults} disk faults, {total.storms} storms\n"
        f"jobs: {ends}\nfaults: {faults}"
    )


if __name__ == "__main__":
    sys.exit(main())
