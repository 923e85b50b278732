"""A config as a user writes it, planned through Hydra and run by the real engine.

The cluster is made up and the clock is moved by hand; files, logs and the links between
them are real ones, below a directory of the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.engine.loop import Engine
from autoexp_tui.engine.ports import Parts
from autoexp_tui.events import events
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.executor import SlurmExecutor, SlurmSettings
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.executors.slurm.watch import Rhythm
from autoexp_tui.model.commands import Command, Order, Submit
from autoexp_tui.model.decision_context import SchedulingPolicy
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.planning.build import PlanOutcome, build_plan_outcome
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.probes.log_reader import LogReader
from autoexp_tui.storage.checkpoint_files import CheckpointFiles
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_script import RunScript, Write, by_job
from tests.support.fake_slurm import FakeSlurm
from tests.support.fake_slurm_jobs import ClusterSettings
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import MemorySession
from tests.support.sim_world import Errands, Mailbox, Nobody, Ready, Recompose

CONFIGS = Path(__file__).parent / "configs"
STEP = 0.5
"""Seconds of made-up time between two looks."""


def outcome_of(
    name: str, root: Path, overrides: Sequence[str] = (), *, configs: Path = CONFIGS
) -> PlanOutcome:
    """What comes of planning a config asked for in `root`."""
    composer = HydraComposer(name, configs, tuple(overrides), cwd=str(root))
    try:
        return build_plan_outcome(composer=composer, parser=HouseParser(str(root)))
    finally:
        composer.close()


def plan_of(
    name: str, root: Path, overrides: Sequence[str] = (), *, configs: Path = CONFIGS
) -> Plan:
    """The plan of a config; there must be one."""
    found = outcome_of(name, root, overrides, configs=configs)
    assert found.plan is not None, [str(error) for error in found.errors]
    return found.plan


def job_of(plan: Plan, name: str) -> JobSpec:
    """A job of a plan."""
    return next(spec for spec in plan.jobs if spec.name == name)


def says(at: float, text: str) -> Write:
    """A line of a run's log."""
    return Write(at=at, data=f"{text}\n".encode())


class Campaign:
    """One session over the made-up cluster; outlives its engines."""

    def __init__(
        self,
        root: Path,
        plan: Plan,
        scripts: Mapping[str, Sequence[Sequence[RunScript]]] | None = None,
        cluster: ClusterSettings | None = None,
    ) -> None:
        self.root = root
        self.plan = plan
        self.clock = ManualClock()
        self.slurm = FakeSlurm(self.clock, Ran, by_job(scripts or {}), cluster)
        self.session = MemorySession()
        self.faults: list[str] = []
        """Tracebacks that engines logged: bugs."""
        self._orders = 0
        for spec in plan.jobs:
            Path(spec.output_dir).mkdir(parents=True, exist_ok=True)
        self.start()
        self.order(Submit())

    # -------------------------------------------------------------------- its engine
    def start(self) -> None:
        """A new engine takes the session, as after a kill."""
        lease = self.session.acquire(holder_is_dead=True)
        self.pool = InlinePool()
        journal = self.session.open(lease)
        sha = journal.add_plan(self.plan)
        begun = bool(self.session.records)
        state = self.session.load() if begun else SessionState(plans={sha: self.plan})
        first: list[events.Event] = [
            events.EngineStarted(
                host="h",
                pid=1,
                sealed_part=journal.seal.part,
                sealed_bytes=journal.seal.bytes,
                gap_seconds=state.measure_seconds_until(self.clock.utc())
                if begun
                else 0.0,
            )
        ]
        if not begun:
            opened = events.SessionStarted(
                session="s",
                name="s",
                engine_version="0",
                wrapper_version="0",
                plan_sha=sha,
            )
            first = [opened, *first, events.PlanAdded(sha=sha)]
        self.executor = self._executor()
        pool = self.pool
        self.engine = Engine(
            state,
            Parts(
                clock=self.clock,
                journal=journal,
                lease=lease,
                executor=self.executor,
                facts=OutsideFacts(self.clock),
                logs=LogReader(),
                inbox=Mailbox(),
                planner=Recompose(),
                preparation=Ready(),
                checkpoints=CheckpointFiles(),
                errands=Errands(),
                pools=defaultdict(lambda: pool),
                store_plan=journal.add_plan,
                load_plan=self.session.plans.__getitem__,
                attempt_dir=self._attempt_dir,
                live_sink=Nobody(),
                policy=SchedulingPolicy(),
                log_fault=self.faults.append,
            ),
        )
        self.engine.begin(first)

    def _executor(self) -> SlurmExecutor:
        settings = SlurmSettings(
            submit=SubmitSettings(
                wrapper=self.root / "session" / "wrapper.py",
                python="python3",
                scripts=self.root / "scripts",
                array_logs=self.root / "logs" / ".arrays",
                grace_seconds=1.0,
                submit_seconds=20.0,
            ),
            ask_seconds=20.0,
            settle_seconds=1.0,
            lost_seconds=3.0,
            patience_seconds=2.0,
        )
        rhythm = Rhythm(first=0.5, latest=0.5, soonest=0.2)
        return SlurmExecutor(replace(settings, rhythm=rhythm), self.slurm, self.clock)

    def _attempt_dir(self, job: str, number: int) -> Path:
        return self.root / "session" / "attempts" / job / str(number)

    def order(self, command: Command) -> None:
        """Command the engine."""
        self._orders += 1
        self.engine.order(Order(command_id=f"c{self._orders}", command=command))

    # -------------------------------------------------------------------------- time
    def step(self) -> None:
        """Let every answer in and decide, until nothing moves at this instant."""
        for _ in range(200):
            self.engine.commit()
            if not self.pool.step():
                return

    def until(self, holds: Callable[[], bool], seconds: float = 120.0) -> None:
        """Run until something holds.

        Raises:
            AssertionError: it did not within `seconds`.
        """
        for _ in range(int(seconds / STEP)):
            self.step()
            if holds():
                return
            self.clock.advance(STEP)
        raise AssertionError(f"it never came: {self.states()}; {self.faults}")

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.step()
            self.clock.advance(STEP)
        self.step()

    def until_all(self, *states: JobState) -> None:
        """Run until every job is in one of `states`."""
        jobs = self.engine.state.jobs
        self.until(lambda: all(job.state in states for job in jobs.values()))

    # ----------------------------------------------------------------------- looking
    def job(self, name: str) -> JobRecord:
        """A job as it is."""
        return self.engine.state.jobs[name]

    def is_(self, name: str, state: JobState) -> Callable[[], bool]:
        """Whether a job is in a state, to be asked later."""
        return lambda: self.job(name).state is state

    def states(self) -> dict[str, str]:
        """Every job's state."""
        return {n: job.state.value for n, job in self.engine.state.jobs.items()}

    def waiting(self) -> set[str]:
        """Jobs that were not submitted yet."""
        jobs = self.engine.state.jobs
        return {name for name, job in jobs.items() if job.state is JobState.WAITING}

    def submitted(self) -> list[str]:
        """The jobs that the cluster was given, in its order."""
        self.slurm.cluster.settle()
        return [task[0] for task, _, _ in self.slurm.cluster.begun]
