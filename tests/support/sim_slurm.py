"""A made-up Slurm for simulated campaigns: its commands lie, its nodes and jobs suffer.

The executor that asks it is the real one. Records, logs and scripts are real files
below a directory of the campaign's own, in memory where the machine has such a place.

The cluster never lies about the same thing for as long as it remembers an ended job: a
controller that denied a living job for so long could not be told from one that lost it.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from autoexp_tui.engine.executor_port import Executor
from autoexp_tui.engine.ports import Clock, FactSource, LogSource
from autoexp_tui.executors.routing import RoutingExecutor
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.executor import SlurmExecutor, SlurmSettings
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.executors.slurm.watch import Rhythm
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.probes.log_reader import LogReader
from autoexp_tui.testing.clock import ManualClock
from tests.support import fake_slurm_wrapper
from tests.support.fake_script import Fault, by_job
from tests.support.fake_slurm import FakeSlurm
from tests.support.fake_slurm_faults import SlurmFault
from tests.support.fake_slurm_jobs import ClusterSettings, Job
from tests.support.sim_beside import BesideHost
from tests.support.sim_causes import Memory
from tests.support.sim_plans import Shape
from tests.support.sim_scripts import Scripts, make_scripts
from tests.support.sim_tally import CALLS, Danger
from tests.support.sim_world import House
from tests.support.true_ends import Befallen

RATES: Final[Mapping[str, float]] = {
    "sbatch": 0.02,
    "squeue": 0.03,
    "sacct": 0.04,
    "scancel": 0.05,
    "scontrol": 0.05,
}
"""Of each fault that the command can have."""
RARE: Final = frozenset({SlurmFault.MISSING})
"""A tenth as often: it ends the job for good."""
LIES: Final = frozenset(
    {SlurmFault.EMPTY, SlurmFault.STALE, SlurmFault.GARBLED, SlurmFault.STRANGE}
)
COMMAND_RATE: Final = 0.002
"""Of deaths of the engine, before a command and after one."""
LYING_SHARE: Final = 0.5
"""Of the time for which an ended job is remembered: nobody lies for longer."""
MEMORY: Final = "/dev/shm"
OWN_NAMES: Final = "/proc/self/fd"
"""Where a process finds what it has open, by number."""
BESIDE: Final = "beside "
"""Before what the engine's host calls a start."""
_NUMBER: Final = 612
"""Above what a process opens, below the usual limit, 1024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How patient an executor is with its cluster, in seconds."""

    ask: float
    submit: float
    settle: float
    patience: float
    lost: float
    first: float
    latest: float
    grace: float


AS_SHIPPED: Final = Times(
    ask=30, submit=60, settle=60, patience=90, lost=300, first=15, latest=60, grace=60
)
SWIFT: Final = Times(
    ask=5, submit=10, settle=30, patience=45, lost=90, first=6, latest=15, grace=10
)


class DeadlySlurm(FakeSlurm[Ran]):
    """Some of its callers die before they have asked, or before they hear of it."""

    danger: Danger

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        self.danger.point("before a command", COMMAND_RATE)
        answer = super().run(arguments, timeout)
        self.danger.point("after a command", COMMAND_RATE)
        return answer


class SlurmCluster:
    """What runs the jobs of a campaign, and outlives the engines that use it.

    The campaign knows its directory by a name that is the same in every process (Linux:
    `/proc/self/fd/612`), because names of files reach the ids in a journal.
    """

    def __init__(
        self,
        rng: random.Random,
        clock: ManualClock,
        danger: Danger,
        *,
        accounting: bool,
    ) -> None:
        self.kind = "slurm" if accounting else "slurm without accounting"
        self.scripts: Scripts = {}
        """What the attempts do; further plans add theirs."""
        self.facts: FactSource = OutsideFacts(clock)
        self.logs: LogSource = LogReader()
        self._danger = danger
        self._clock = clock
        self._times = AS_SHIPPED if rng.random() < 0.25 else SWIFT
        self._arrays = rng.choice([1, 3, 50])
        self._lying_since: dict[str, float] = {}
        """By program: since when all its answers were lies."""
        self._silent_at = float("-inf")
        """When the controller or accounting was last away."""
        self._gave_ids_again = False
        self._rng = random.Random(rng.randrange(1 << 30))
        settings = ClusterSettings(
            nodes=rng.choice([2, 6, 20]),
            node_jobs=4,
            min_job_age=300.0 if self._times is AS_SHIPPED else 60.0,
            accounting=accounting,
            account_lag=rng.choice([0.5, 5.0, 40.0]),
            save_seconds=20.0,
        )
        script = by_job(self.scripts)
        self.slurm = DeadlySlurm(clock, Ran, script, settings, faults=self._fault)
        self.slurm.danger = danger
        self.beside = BesideHost(clock, script)
        self._begun: list[tuple[TaskId, int, str]] = []
        """All starts of commands, of both places: task, run, and who made it."""
        self._seen = [0, 0]
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        self.directory = Path(tempfile.mkdtemp(prefix="autoexp-sim-", dir=memory))
        held = os.open(self.directory, os.O_RDONLY)
        self._held = fcntl.fcntl(held, fcntl.F_DUPFD_CLOEXEC, _NUMBER)
        os.close(held)
        own = Path(OWN_NAMES, str(self._held))
        self._root = own if own.is_dir() else self.directory

    def settle(self) -> None:
        """Let everything happen that is due."""
        self.slurm.cluster.settle()
        self.beside.settle()

    def living(self) -> Sequence[TaskId]:
        return (*self.slurm.cluster.living(), *self.beside.living())

    def close(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self._held)

    @property
    def root(self) -> str:
        """Before every path of the campaign."""
        return str(self._root)

    def shape(self, families: int, series: str, first_index: int) -> Shape:
        """How a plan for it must look."""
        return Shape(
            families=families,
            series=series,
            first_index=first_index,
            root=self.root,
            pace=4.0 if self._times is AS_SHIPPED else 1.5,
            partitions=("main", "main", "kill"),
        )

    def prepare(self, specs: Sequence[JobSpec]) -> None:
        """Make the places that jobs write to."""
        for spec in specs:
            os.makedirs(spec.output_dir)

    def joins(self, seed: int, plan: Plan) -> None:
        """A plan is about to join: what its new jobs do."""
        new = tuple(spec for spec in plan.jobs if spec.name not in self.scripts)
        rng = random.Random(f"{seed} {[spec.name for spec in new]}")
        pace = self.shape(0, "", 0).pace
        self.scripts.update(make_scripts(replace(plan, jobs=new), rng, pace=pace))
        self.prepare(new)

    def house(self, seed: int, clock: Clock, **fields: Any) -> House:
        """A world whose jobs, logs and records are the cluster's."""
        ports = {"executor": self.executor(clock), "files": self.facts, **fields}
        return House(
            clock=clock,
            logs=self.logs,
            attempt_dir=self.attempt_dir,
            joins=partial(self.joins, seed),
            beside=self.beside,
            **ports,
        )

    def executor(self, clock: Clock) -> Executor:
        """A new engine's own; it knows nothing of former ones."""
        times, root = self._times, self._root
        submit = SubmitSettings(
            wrapper=root / "session" / "wrapper.py",
            python="python3",
            scripts=root / "scripts",
            array_logs=root / "logs" / ".arrays",
            grace_seconds=times.grace,
            submit_seconds=times.submit,
        )
        settings = SlurmSettings(
            submit=submit,
            ask_seconds=times.ask,
            settle_seconds=times.settle,
            patience_seconds=times.patience,
            lost_seconds=times.lost,
            array_size=self._arrays,
            rhythm=Rhythm(first=times.first, latest=times.latest),
        )
        main = SlurmExecutor(settings, self.slurm, clock)
        return RoutingExecutor(main, self.beside)

    def attempt_dir(self, job: str, number: int) -> Path:
        return self._root / "attempts" / format_filename(job) / str(number)

    def begun(self, since: int) -> Sequence[tuple[TaskId, int, str]]:
        """Commands that were started after the first `since`: task, run, and the job of
        Slurm's or `beside` and a number."""
        there, here = self.slurm.cluster.begun, self.beside.begun
        self._begun += there[self._seen[0] :]
        self._begun += [
            (one.task, one.run, f"{BESIDE}{one.executor_id}")
            for one in here[self._seen[1] :]
        ]
        self._seen = [len(there), len(here)]
        return self._begun[since:]

    def has_succeeded(self, task: TaskId) -> bool:
        there = task in self.slurm.cluster.succeeded
        return there or self.beside.has_succeeded(task)

    def befallen(self, task: TaskId) -> Sequence[Befallen]:
        return self.slurm.cluster.ledger.of(task) or [*self.beside.befallen(task)]

    @property
    def memory(self) -> Memory:
        """A run may have been judged without the word that there was on it: without
        accounting a word is gone with MinJobAge, and with accounting when the job's id
        is given out again; one that is silent for long is given up."""
        self._note_silence()
        lost = self._times.lost
        silent = self._clock.monotonic() - self._silent_at
        without = not self.slurm.cluster.settings.accounting
        forgets = without or self._gave_ids_again or silent < 2 * lost
        return Memory(forgets=forgets, lost_after_seconds=lost)

    def _note_silence(self) -> None:
        if self.slurm.away or self.slurm.database_away:
            self._silent_at = self._clock.monotonic()

    # ------------------------------------------------------------ what its commands do
    def _fault(self, program: str) -> SlurmFault | None:
        fault = None
        if not self._danger.over:
            rates = (
                (f, RATES[program] / (10 if f in RARE else 1)) for f in CALLS[program]
            )
            fault = next((f for f, rate in rates if self._rng.random() < rate), None)
        if fault not in LIES:
            self._lying_since.pop(program, None)
        elif self._lies_too_long(program):
            return None
        if fault is not None:
            self._danger.counts[f"{program}: {fault.value}"] += 1
        return fault

    def _lies_too_long(self, program: str) -> bool:
        """Whether a further lie would last longer than anybody can tell it from truth;
        then there is none, and the next one is a first one."""
        now = self._clock.monotonic()
        since = self._lying_since.setdefault(program, now)
        too_long = now - since > LYING_SHARE * self._times.lost
        if too_long:
            del self._lying_since[program]
        return too_long

    # ------------------------------------------------------------------ what befalls it
    def strike(self, rng: random.Random) -> str:
        """Something befalls a node, a job, or the controller."""
        return rng.choice(_STRIKES)(self, rng)

    def _find(self, word: str) -> list[Job]:
        self.settle()
        return [job for job in self.slurm.cluster.jobs if job.word == word]

    def _lose_node(self, rng: random.Random) -> str:
        self._return_nodes()
        running = self._find("RUNNING")
        if not running:
            return ""
        self.slurm.cluster.lose_node(rng.choice(running).nodes[0])
        return "node lost"

    def _return_nodes(self) -> None:
        for name in self.slurm.cluster.down_nodes():
            self.slurm.cluster.return_node(name)

    def _suspend(self, rng: random.Random) -> str:
        """A job is suspended, or the suspended ones go on."""
        if self._resume():
            return ""
        return _befall("suspend", "job suspended")(self, rng)

    def _resume(self) -> bool:
        suspended = [job for job in self.slurm.cluster.jobs if job.word == "SUSPENDED"]
        for job in suspended:
            self.slurm.cluster.resume(job)
        return bool(suspended)

    def _kill_supervisor(self, rng: random.Random) -> str:
        living = self.slurm.cluster.living()
        if not living:
            return ""
        self.slurm.cluster.kill_supervisor(rng.choice(living))
        return "supervisor killed"

    def _kill_beside(self, rng: random.Random) -> str:
        living = self.beside.living()
        if not living:
            return ""
        self.beside.kill_supervisor(rng.choice(living))
        return "supervisor killed beside"

    def _lose_beside(self, rng: random.Random) -> str:
        """The answer to the next submission there, or the submission."""
        self.beside.faults.append(rng.choice([*Fault]))
        return "answer lost beside"

    def _crash(self, _rng: random.Random) -> str:
        self._gave_ids_again = True
        return "controller crashed" if self.slurm.cluster.crash() else ""

    def _away(self, _rng: random.Random) -> str:
        self._note_silence()
        self.slurm.away = not self.slurm.away
        return "controller away" if self.slurm.away else ""

    def _database(self, _rng: random.Random) -> str:
        self._note_silence()
        self.slurm.database_away = not self.slurm.database_away
        return "accounting away" if self.slurm.database_away else ""

    def _wrap(self, _rng: random.Random) -> str:
        self._gave_ids_again = True
        self.slurm.cluster.wrap_ids()
        return "ids given out again"

    def heal(self) -> None:
        """No fault any more, and what is broken is mended."""
        self._note_silence()
        self.beside.faults.clear()
        self.slurm.away = self.slurm.database_away = False
        self._resume()
        self._return_nodes()

    def forget_claims(self) -> None:
        """A start begins although another has the attempt."""
        self.slurm.cluster.claims = fake_slurm_wrapper.no_claim


Strike: TypeAlias = Callable[[SlurmCluster, random.Random], str]


def _befall(act: str, name: str, word: str = "RUNNING") -> Strike:
    """What the cluster does to one of its jobs in that state."""

    def strike(cluster: SlurmCluster, rng: random.Random) -> str:
        jobs = cluster._find(word)
        if not jobs:
            return ""
        getattr(cluster.slurm.cluster, act)(rng.choice(jobs))
        return name

    return strike


_STRIKES: Final[Sequence[Strike]] = (
    SlurmCluster._lose_node,
    *[_befall("preempt", "job preempted")] * 2,
    *[_befall("requeue", "job requeued")] * 2,
    _befall("forget", "job forgotten"),
    *[SlurmCluster._suspend] * 2,
    _befall("fail_launch", "job not launched", "PENDING"),
    _befall("cancel_by_others", "waiting job cancelled by others", "PENDING"),
    *[SlurmCluster._kill_supervisor] * 2,
    SlurmCluster._kill_beside,
    SlurmCluster._lose_beside,
    *[SlurmCluster._crash] * 2,
    *[SlurmCluster._away] * 2,
    SlurmCluster._database,
    SlurmCluster._wrap,
)

Kind: TypeAlias = Callable[[random.Random, ManualClock, Danger], SlurmCluster]
"""Makes a cluster for one campaign."""
KINDS: Final[Mapping[str, Kind]] = {
    "slurm": partial(SlurmCluster, accounting=True),
    "bare": partial(SlurmCluster, accounting=False),
}
"""Campaigns by what runs their jobs; `bare`: a Slurm without accounting."""
