"""What runs the jobs of a simulated campaign: a port, and the one that is all memory.

A cluster outlives the engines that use it. What goes wrong with it comes from one seed
and is counted; the same seed asks for it to stop, so that a campaign can end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from autoexp_tui.engine.executor_port import Executor
from autoexp_tui.engine.ports import Clock, FactSource, LogSource
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import Fault, RunScript, SeededFaults, by_job
from tests.support.sim_causes import Memory
from tests.support.sim_checks import Truth
from tests.support.sim_plans import Shape
from tests.support.sim_scripts import make_scripts
from tests.support.sim_world import Files, House, Logs, Watcher, memory_attempt_dir

Attempts = dict[str, Sequence[Sequence[RunScript]]]
RATES: Final = {
    **dict.fromkeys(Fault, 0.05),
    Fault.ANSWER_LOST: 0.08,
    Fault.BUSY: 0.04,
    Fault.REJECTED: 0.01,
    Fault.CANCEL_LOST: 0.1,
    Fault.ADOPT_FAILED: 0.1,
}
DEATH: Final = "death"
"""Ordered at a named point: the engine dies there."""


class Danger:
    """What goes wrong around an engine: by a seed until it is `over`, or as ordered."""

    def __init__(self, rng: random.Random, counts: Counter[str], kill: type) -> None:
        self.over = False
        self.counts = counts
        """Faults by name, of everything around the engine."""
        self._rng = rng
        self._kill = kill
        self._ordered: list[tuple[str, object]] = []

    def order(self, call: str, fault: object) -> None:
        self._ordered.append((call, fault))

    def ordered(self, call: str) -> object:
        """What was ordered for a call that is made now; None: nothing was."""
        for one in self._ordered:
            if one[0] == call:
                self._ordered.remove(one)
                return one[1]
        return None

    def end(self) -> None:
        self.over = True
        self._ordered.clear()

    def point(self, name: str, rate: float) -> None:
        """A place where the engine may die; raises BaseException."""
        drawn = not self.over and self._rng.random() < rate
        if drawn or self.ordered(name) is DEATH:
            self.counts[f"killed {name}"] += 1
            raise self._kill(name)


class SimCluster(Truth, Protocol):
    """A made-up cluster, from one seed."""

    kind: str
    scripts: Attempts
    """What the attempts do; further plans add theirs."""
    facts: FactSource
    logs: LogSource

    @property
    def root(self) -> str:
        """Before every path of the campaign; not always the same."""

    def shape(self, families: int, series: str, first_index: int) -> Shape:
        """How a plan for it must look."""

    def prepare(self, specs: Sequence[JobSpec]) -> None:
        """Make the places that jobs write to, where there are any."""

    def executor(self, clock: Clock) -> Executor:
        """A new engine's own; it knows nothing of former ones."""

    def attempt_dir(self, job: str, number: int) -> Path:
        """Where an attempt's records lie."""

    def watch(self, watcher: Watcher) -> None:
        """Tell the newest engine of logs that are written, if it can be told."""

    def settle(self) -> None:
        """Let everything happen that is due by now."""

    def strike(self, rng: random.Random) -> str:
        """Let something befall it; what, or nothing."""

    def heal(self) -> None:
        """No fault any more, and what is broken is mended."""

    def forget_claims(self) -> None:
        """From now on nothing keeps a second start from beginning: a bug."""

    def close(self) -> None:
        """Leave nothing behind."""


@dataclass(slots=True)
class ClusterHouse(House):
    """A `House` whose jobs, logs and records are the cluster's."""

    cluster: SimCluster = field(kw_only=True)
    seed: int = field(kw_only=True)

    def log_source(self) -> LogSource:
        return self.cluster.logs

    def attempt_dir(self, job: str, number: int) -> Path:
        return self.cluster.attempt_dir(job, number)

    def watch(self, watcher: Watcher) -> None:
        self.cluster.watch(watcher)

    def joins(self, plan: Plan) -> None:
        scripts = self.cluster.scripts
        new = tuple(spec for spec in plan.jobs if spec.name not in scripts)
        rng = random.Random(f"{self.seed} {[spec.name for spec in new]}")
        pace = self.cluster.shape(0, "", 0).pace
        scripts.update(make_scripts(replace(plan, jobs=new), rng, pace=pace))
        self.cluster.prepare(new)


Kind = Callable[[random.Random, ManualClock, Danger], SimCluster]
"""Makes a cluster for one campaign."""


class MemoryCluster:
    """A `SimCluster` without a byte on disk."""

    kind = "memory"
    root = "//"
    """No path has that."""

    def __init__(self, rng: random.Random, clock: ManualClock, danger: Danger) -> None:
        self.scripts: Attempts = {}
        self._danger = danger
        self._files = Files(clock)
        self._faults = SeededFaults(rng.randrange(1 << 30), RATES)
        self._executor = FakeExecutor(
            clock,
            by_job(self.scripts),
            slots=rng.choice([0, 4, 16]),
            faults=self._fault,
            write=self._files.append,
            lag_seconds=rng.choice([0.0, 0.0, 2.0]),
            settle_seconds=8.0,
            array_size=rng.choice([1, 4, 100]),
        )
        self.facts: FactSource = self._files
        self.logs: LogSource = Logs(self._files)
        self.watch = self._files.watch
        self.settle = self._executor.settle
        self.living = self._executor.living
        self.has_succeeded = self._executor.has_succeeded
        self.befallen = self._executor.ledger.of

    def shape(self, families: int, series: str, first_index: int) -> Shape:
        return Shape(families=families, series=series, first_index=first_index)

    def prepare(self, specs: Sequence[JobSpec]) -> None:
        """Nothing to make."""

    def close(self) -> None:
        """Nothing is left."""

    def executor(self, clock: Clock) -> Executor:
        return self._executor

    def attempt_dir(self, job: str, number: int) -> Path:
        return memory_attempt_dir(job, number)

    def strike(self, rng: random.Random) -> str:
        living = self._executor.living()
        if not living:
            return ""
        self._executor.kill_supervisor(rng.choice(living))
        return "supervisor killed"

    def heal(self) -> None:
        self._faults.enough = True

    def begun(self, since: int) -> Sequence[tuple[TaskId, int, str]]:
        found = self._executor.begun[since:]
        return [(one.task, one.run, one.executor_id) for one in found]

    @property
    def memory(self) -> Memory:
        patience = self._executor.lost_after_seconds
        return Memory(forgets=False, mute=False, lost_after_seconds=patience)

    def forget_claims(self) -> None:
        self._executor.claims = _NoClaims()

    def _fault(self, call: str) -> Fault | None:
        ordered = self._danger.ordered(call)
        drawn = self._faults(call)  # type: ignore[arg-type]
        fault = ordered if isinstance(ordered, Fault) else drawn
        if fault is not None:
            name = fault.value.removeprefix(f"{call} ")
            self._danger.counts[f"{call}: {name}"] += 1
        return fault


class _NoClaims(dict):  # type: ignore[type-arg]
    """Whoever asks is the holder."""

    def setdefault(self, key: object, default: object = None) -> object:
        self[key] = default
        return default


KINDS: Final[Mapping[str, Kind]] = {"memory": MemoryCluster}
"""What there is without a cluster's commands."""
