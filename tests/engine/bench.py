"""An engine over fakes on a manual clock, for tests that watch it decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from autoexp_tui.engine.loop import Engine
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model.commands import Command, Kill, Order, Resubmit, Submit
from autoexp_tui.model.decision_context import (
    DecisionContext,
    Draft,
    Roster,
    SchedulingPolicy,
    Timers,
    Watch,
)
from autoexp_tui.model.event import Event
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import (
    Ask,
    ConditionStatus,
    JobRecord,
    SessionState,
    Warned,
)
from autoexp_tui.model.states import JobState, Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import at, job, plan
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import RunScript, by_job
from tests.support.inline_pool import InlinePool
from tests.support.sim_world import Files, Logs, World, first_events

OneEvent = TypeVar("OneEvent", bound=Event)
OneEffect = TypeVar("OneEffect")
Found = TypeVar("Found")
RULES = Monitoring()


def decide(
    state: SessionState, t: float = 300.0, metrics: Telemetry | None = None
) -> DecisionContext:
    """A commit at `t` that knows nothing from outside."""
    roster = Roster()
    for record in state.jobs.values():
        roster.note(record)
    return DecisionContext(
        draft=(draft := Draft(state, at(t), epoch=1)),
        now=draft.now,
        watch=Watch(),
        timers=Timers(),
        roster=roster,
        outside={},
        metrics=metrics.metrics if metrics else {},
        runs=metrics.runs if metrics else {},
        policy=SchedulingPolicy(),
    )


def require(found: Found | None) -> Found:
    assert found is not None
    return found


class Bench:
    """One session: what the world does is scripted, what the engine does is real."""

    def __init__(
        self,
        plan: Plan,
        scripts: Mapping[str, Sequence[Sequence[RunScript]]] | None = None,
        *,
        approve: frozenset[str] = frozenset(),
        submit: bool = True,
        done: Sequence[DoneWork] = (),
        foreign: tuple[str, ...] = (),
        first: Sequence[Event] = (),
        **world: Any,
    ) -> None:
        self.clock = ManualClock()
        self.files = Files(self.clock)
        script, write = by_job(scripts or {}), self.files.append
        self.executor = FakeExecutor(self.clock, script, write=write)
        ports: dict[str, Any] = {"executor": self.executor, "files": self.files}
        ports |= {"logs": Logs(self.files), **world}
        self.world = World(clock=self.clock, auto_approve=approve, **ports)
        self.snapshots: list[Snapshot] = []
        self.gap_seconds = 0.0
        """Before the next engine: how long none lived."""
        self._orders = 0
        self._plan = plan
        self._first = [*first]
        if done:
            self._first.append(events.DoneFound(works=tuple(done)))
        if foreign:
            self._first.append(events.ForeignFilesFound(jobs=foreign))
        """What is told as the session begins."""
        self.start()
        if submit:
            self.order(Submit())

    def die(self, gone_for: float) -> None:
        """Be without an engine for so many seconds, then have a new one."""
        self.clock.advance(gone_for)
        self.gap_seconds = gone_for
        self.start()

    def start(self) -> None:
        """A new engine takes the session, as after a kill."""
        session = self.world.session
        lease = session.acquire(holder_is_dead=True)
        self.pool = InlinePool()
        parts = self.world.parts(lease, self.pool)
        sha = parts.journal.add_plan(self._plan)
        state = session.load() if session.records else SessionState(plans=session.plans)
        away = state.measure_seconds_until(self.clock.utc()) if state.session else 0.0
        unrecorded = max(0.0, away - self.gap_seconds)
        self.engine = Engine(state, parts, self.snapshots.append, unrecorded=unrecorded)
        self.files.watcher = self.engine.nudge_files
        seal = parts.journal.seal  # type: ignore[attr-defined]
        self.engine.begin(self.make_first(state, sha, seal))

    def make_first(self, state: SessionState, sha: str, seal: Any) -> list[Event]:
        """The first events of an engine."""
        first = first_events(state, sha, seal, self.gap_seconds)
        return first if state.session else [*first, *self._first]

    @property
    def over(self) -> bool:
        return all(record.ended for record in self.engine.state.jobs.values())

    # ------------------------------------------------------------------------ time
    def step(self) -> None:
        """Let every answer in and decide, until nothing moves at this instant."""
        for _ in range(200):
            self.engine.commit()
            if not self.pool.step():
                return

    def _pass(self) -> None:
        self.clock.advance(0.5)
        self.executor.settle()

    def single_steps(self, steps: int) -> None:
        """Decide or let one answer in, one at a time."""
        for _ in range(steps):
            self.engine.commit()
            if not self.pool.step():
                self._pass()

    def run(self, seconds: float) -> None:
        """Let time pass in half seconds."""
        for _ in range(int(seconds * 2)):
            self.step()
            self._pass()
        self.step()

    def until(self, holds: Callable[[], bool], seconds: float = 300.0) -> None:
        """Run until something holds; raises AssertionError: not within `seconds`."""
        for _ in range(int(seconds * 2)):
            self.step()
            if holds():
                return
            self._pass()
        raise AssertionError(f"it never came: {self.states()}")

    def reach(self, seconds: float = 300.0, /, **states: str) -> None:
        """Run until each of these jobs has been in its state."""
        for name, state in states.items():
            self.until(self.is_(name, JobState(state)), seconds)

    def ends(self, seconds: float = 300.0) -> None:
        """Run until all jobs have ended."""
        self.until(lambda: self.over, seconds)

    # -------------------------------------------------------------------- commanding
    def order(self, command: Command, **fields: Any) -> str:
        self._orders += 1
        made = Order(command_id=f"c{self._orders}", command=command, **fields)
        self.engine.order(made)
        return made.command_id

    def kill(self, *names: str) -> None:
        self.order(Kill(jobs=names))

    def resubmit(self, *names: str, **how: Any) -> None:
        self.order(Resubmit(jobs=names, **how))

    def plan_by(self, planner: object) -> None:
        """Have another planner, until the next engine."""
        object.__setattr__(self.engine._parts, "planner", planner)

    # ----------------------------------------------------------------------- looking
    def job(self, name: str) -> JobRecord:
        return self.engine.state.jobs[name]

    def state(self, name: str) -> str:
        return self.job(name).state.value

    def states(self) -> dict[str, str]:
        return {name: self.state(name) for name in self.engine.state.jobs}

    def is_(self, name: str, state: JobState) -> Callable[[], bool]:
        """Whether a job is in a state, to be asked later."""
        return lambda: self.job(name).state is state

    def cause(self, name: str) -> str | None:
        return self.job(name).cause

    def tries(self, name: str) -> int:
        return len(self.job(name).attempts)

    def why(self, name: str) -> Why:
        """Why a job is as it is."""
        return require(self.job(name).why)

    def ask(self, name: str) -> Ask:
        """What a person is asked about a job."""
        return require(self.job(name).ask)

    def wait(self, name: str) -> ConditionStatus:
        """How a job's first start condition stands."""
        return require(self.job(name).start[0])

    def live(self) -> Live:
        """What the newest snapshot shows of the first job's run."""
        return require(self.snapshots[-1].live[0])

    def happened(self, kind: type[OneEvent]) -> list[OneEvent]:
        """All events of a type, oldest first."""
        records = self.world.session.records
        return [r.event for r in records if isinstance(r.event, kind)]

    def ordered(self, kind: type[OneEffect]) -> list[OneEffect]:
        """All effects of a type that were ordered, oldest first."""
        effects = (event.effect for event in self.happened(events.EffectOrdered))
        return [effect for effect in effects if isinstance(effect, kind)]

    def codes(self, kind: type[Any]) -> list[str]:
        """Why such events were, by their codes, oldest first."""
        return [event.why.code for event in self.happened(kind)]

    def dropped(self) -> list[str]:
        return self.codes(events.ActionDropped)

    def logged(self) -> list[str]:
        return [event.text for event in self.happened(events.MessageLogged)]

    def warning(self) -> Warned:
        """The only warning that stands."""
        (found,) = self.engine.state.warnings.values()
        return found

    def warned(self) -> list[str]:
        """The codes of the warnings that stand."""
        return [one.why.code for one in self.engine.state.warnings.values()]

    def words(self, why: Why | None) -> str:
        return sentence(require(why), self.clock.utc())


def alone(*attempts: RunScript, rules: Monitoring = RULES, **of: Any) -> Bench:
    """One job `a`, attempt after attempt; `submit`: whether it is at once."""
    submit = of.pop("submit", True)
    the_plan = plan(job("a", **of), monitoring=rules)
    return Bench(the_plan, {"a": [[run] for run in attempts]}, submit=submit)
