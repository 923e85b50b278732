"""What simulated campaigns of a policy have in common, which is alone in its session:
its jobs run on two fake executors, scripted by their fates; a person answers what it
asks; it is over when the policy has no work left.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.engine.ports import Clock
from autoexp_tui.executors.routing import RoutingExecutor
from autoexp_tui.model.commands import AnswerAsk
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.event import Event
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.policy import has_work_left
from autoexp_tui.model.state import Ask, SessionState
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.clock import ManualClock
from tests.support import sim_ends
from tests.support.fake_script import SOUND, Fault, RunScript
from tests.support.sim_beside import BesideHost
from tests.support.sim_campaign import Campaign, Holder
from tests.support.sim_causes import Memory
from tests.support.sim_checks import Violation
from tests.support.sim_person import Person
from tests.support.sim_plans import Shape
from tests.support.sim_slurm import BESIDE, MEMORY
from tests.support.sim_tally import Danger
from tests.support.sim_world import Files, House, Logs, first_events
from tests.support.true_ends import Befallen

MOST_STEPS: Final = 60_000
"""Agents wait a day at most where a clock is months off."""


class PolicyCluster:
    """What runs the jobs of a policy: two fake executors and files in memory."""

    kind: ClassVar[str]

    def __init__(self, rng: random.Random, clock: ManualClock, danger: Danger) -> None:
        self.clock, self.danger = clock, danger
        self.facts = self.files = Files(clock)
        self.logs = Logs(self.files)
        self.scripts: dict[str, Sequence[Sequence[RunScript]]] = {}
        self.directory = Path(tempfile.mkdtemp(prefix="autoexp-sim-", dir=MEMORY))
        self.root = "/search"
        self.main, self.beside = (
            BesideHost(clock, self._script, self._write) for _ in range(2)
        )
        self._struck: set[str] = set()
        self._begun: list[tuple[TaskId, int, str]] = []
        self._seen = [0, 0]

    def _script(self, task: Task) -> Sequence[RunScript]:
        """What an attempt at a job does."""
        raise NotImplementedError

    def _write(self, path: str, data: bytes) -> None:
        """What a job writes."""
        raise NotImplementedError

    def _list_fates(self, job: str) -> Iterable[str]:
        """What becomes of a job by itself, and of what belongs to it."""
        raise NotImplementedError

    def shape(self, families: int, series: str, first_index: int) -> Shape:
        return Shape(families=families, series=series, first_index=first_index)

    def prepare(self, specs: Sequence[object]) -> None:
        """Nothing: files are in memory."""

    def house(self, seed: int, clock: Clock, **fields: Any) -> House:
        fields = {"executor": self.executor(clock), **fields, "files": self.files}
        return House(clock=clock, logs=self.logs, beside=self.beside, **fields)

    def executor(self, clock: Clock) -> Executor:
        return RoutingExecutor(self.main, self.beside)

    def settle(self) -> None:
        self.main.settle()
        self.beside.settle()

    def living(self) -> Sequence[TaskId]:
        return (*self.main.living(), *self.beside.living())

    def begun(self, since: int) -> Sequence[tuple[TaskId, int, str]]:
        for at, (host, mark) in enumerate(((self.main, ""), (self.beside, BESIDE))):
            new = host.begun[self._seen[at] :]
            self._begun += [(one.task, one.run, mark + one.executor_id) for one in new]
            self._seen[at] += len(new)
        return self._begun[since:]

    def has_succeeded(self, task: TaskId) -> bool:
        return self.main.has_succeeded(task) or self.beside.has_succeeded(task)

    def befallen(self, task: TaskId) -> Sequence[Befallen]:
        return [*self.main.befallen(task)] or [*self.beside.befallen(task)]

    @property
    def memory(self) -> Memory:
        return Memory(forgets=False, lost_after_seconds=self.main.lost_after_seconds)

    def strike(self, rng: random.Random) -> str:
        """A supervisor is killed, a node is lost, or the answer to a submission; no
        evaluation meets more than is tried again."""
        host = rng.choice([self.main, self.beside])
        if rng.random() < 0.4:
            host.faults.append(rng.choice([*Fault]))
            return "answer lost beside"
        ready = [task for task in host.living() if self._may_strike(task[0])]
        if not ready:
            return ""
        task = rng.choice(ready)
        self._struck.add(task[0].split("_")[0])
        if rng.random() < 0.5:
            host.kill_supervisor(task)
            return "supervisor killed beside"
        copy = host.claims[task]
        host._end(copy, copy.runs[-1], signal=9, cause=Cause.NODE_FAIL)
        return "node lost"

    def _may_strike(self, job: str) -> bool:
        is_new = job.split("_")[0] not in self._struck
        return is_new and {*self._list_fates(job)} == {SOUND}

    def heal(self) -> None:
        self.main.faults.clear()
        self.beside.faults.clear()

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class PolicyPerson(Person):
    """Decides on what a policy does."""

    acts: Sequence[Callable[[Any, SessionState], str]] = ()
    share: float = 1.0
    """Of questions that they approve."""

    def is_known(self, state: SessionState) -> bool:
        """Whether the policy can be ordered something."""
        raise NotImplementedError

    def meddle(self, state: SessionState) -> str:
        said = self._rng.choice(self.acts)(self, state) if self.is_known(state) else ""
        if said:
            self._counts[f"person {said}"] += 1
        return said

    def answer(self, state: SessionState, *, kindly: bool = False) -> str:
        asked = [(n, ask) for n, ask in state.asks.items() if ask.approved is None]
        if not asked:
            return ""
        name, ask = self._rng.choice(asked)
        approved = kindly or self.share == 1 or self._rng.random() < self.share
        lines = range(len(ask.lines))
        out = () if kindly else tuple(n for n in lines if self._rng.random() < 0.2)
        self.answer_ask(name, ask, out, approved=approved)
        return "answers"

    def answer_ask(
        self, name: str, ask: Ask, dropped: tuple[int, ...], *, approved: bool
    ) -> None:
        bound = digest_question(name, ask.prompt, ask.list_kept(dropped))
        said = AnswerAsk(ask=name, digest=bound, approved=approved, dropped=dropped)
        self.order(said)


class PolicyCampaign(Campaign):
    """One seed's campaign of a policy, step by step."""

    cluster: PolicyCluster  # type: ignore[assignment]
    part: ClassVar[str]
    """Of the session's state that is the policy's."""
    begun: ClassVar[Event]
    """Its first event."""
    faulty_steps: ClassVar[int]

    def __init__(self, seed: int, cluster: type[PolicyCluster], **options: Any) -> None:
        super().__init__(seed, cluster, **options)  # type: ignore[arg-type]
        not_here = (Campaign.grow, Campaign.break_errands)
        self._happenings = [h for h in self._happenings if h[2] not in not_here]
        self._joins, self._faulty_steps = False, self.faulty_steps

    def _make_growth(self, rng: random.Random) -> None:
        return None

    def _first_engine(self) -> Holder:
        lease = self.session.acquire()
        state = SessionState(plans=self.session.plans)
        holder, journal = self._holder(lease, state)
        sha = journal.add_plan(self.plan)
        holder.engine.begin([*first_events(state, sha, journal.seal), self.begun])
        return holder

    @property
    def has_ended(self) -> bool:
        """Whether the policy has begun, and has no work left."""
        return self.part in self.state.parts and not has_work_left(self.state)

    def step(self) -> None:
        super().step()
        if self.tally.steps > MOST_STEPS:
            pending = [one.effect for one in self.state.pending.values()]
            jobs = [j.name for j in self.state.jobs.values() if not j.ended]
            part = self.state.parts[self.part]
            raise Violation(f"it does not end: {jobs} {pending} {part}")

    def is_over(self) -> bool:
        return self._calm and not self.world.inbox.orders and self.has_ended

    def check_end(self) -> None:
        self.checks.look_whole(self.state)
        self.checks.look_by_parts(self.state, len(self.session.records) // 2)
        self.hop(7200.0)
        self.checks.look_outside()
        if living := self.cluster.living():
            raise Violation(f"orphans run on: {living}")
        self.tally.seconds = self._elapsed() - 7200.0
        sim_ends.count(self.tally, self.state, self.session, self.cluster)  # type: ignore[arg-type]
