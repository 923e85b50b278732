"""One simulated campaign: the real engine over a made-up cluster, from one seed.

The engine is killed between any two steps and at named points, is stopped, or sleeps
while another takes the session; its disk is full, its clock jumps; a person meddles and
the cluster lies. After every step the invariants of `sim_checks` hold. When enough has
happened all is mended, and the campaign must come to its end.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Final

from autoexp_tui.engine.loop import Engine
from autoexp_tui.events import events
from autoexp_tui.model.commands import StopEngine, Submit
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.ids import digest
from autoexp_tui.model.outputs import Checkpoint
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.testing.clock import ManualClock
from tests.support import sim_ends
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import DiskKind, Killed, MemoryJournal, MemoryLease
from tests.support.memory_journal import Fault as DiskFault
from tests.support.sim_bugs import Bug
from tests.support.sim_checks import Checks, Violation
from tests.support.sim_person import Person
from tests.support.sim_plans import make_plan
from tests.support.sim_scripts import make_scripts
from tests.support.sim_slurm import Kind
from tests.support.sim_tally import Danger, Tally
from tests.support.sim_watched import ShakyFacts, WatchedExecutor
from tests.support.sim_world import House, Recompose, first_events

MOST_STEPS: Final = 200_000
FAMILIES: Final = (2, 6, 12, 24, 48, 72, 96)
"""Sizes of plans; three jobs or so a family."""
REACTING: Final = 0.4
"""Share of campaigns whose rules let further jobs join."""
GROWING: Final = 0.4
"""Share of campaigns in which a person has a further plan join."""
STEPS_A_JOB: Final = 30
"""With faults."""
HOPS: Final = (0.1, 0.5, 2.0, 5.0, 5.0, 10.0)
"""Seconds that pass between two rounds of an engine that has nothing to do."""
CALM_HOPS: Final = (2.0, 10.0, 20.0)
ORPHAN_SECONDS: Final = 7200.0
"""After a campaign's end, for whatever still runs to show itself."""


class SkewedClock:
    """A machine's own clock over the true time: its wall clock may jump either way."""

    def __init__(self, true: ManualClock) -> None:
        self.offset = 0.0
        """Seconds by which its wall clock is ahead of the true one."""
        self._true = true

        self.monotonic, self.boottime = true.monotonic, true.boottime

    def utc(self) -> float:
        return self._true.utc() + self.offset


@dataclass(slots=True)
class Holder:
    """An engine and what it holds."""

    engine: Engine
    pool: InlinePool
    lease: MemoryLease


class Campaign:
    """One seed's campaign, step by step."""

    def __init__(
        self,
        seed: int,
        make: Kind,
        *,
        bug: Bug | None = None,
        families: int = 0,
        without: Container[str] = (),
        verbose: bool = False,
    ) -> None:
        """`families`: of the plan, 0 as the seed says; `without`: happenings, by name,
        that do not come to pass.
        """
        self.seed = seed
        self.tally = Tally(campaigns=1)
        self._verbose = verbose
        self._told = 0
        self._happenings = [h for h in HAPPENINGS if h[2].__name__ not in without]
        self._bug = bug or Bug()
        self._rng = random.Random(seed)
        self._true_clock = ManualClock()
        self._clock = SkewedClock(self._true_clock)
        self.danger = Danger(self._rng, self.tally.faults)
        self.cluster = make(self._rng, self._true_clock, self.danger)
        self.tally.kinds[self.cluster.kind] += 1
        families = families or self._rng.choice(FAMILIES)
        self._reacts = random.Random(f"{seed} reacts").random() < REACTING
        self.plan = self._make_plan(families, "", 0)
        self._later = self._make_plan(2, "_later", len(self.plan.jobs))
        self._joins = self._rng.random() < 0.3
        self._growth = self._make_growth(random.Random(f"{seed} grows"))
        self.world = self._make_world()
        self.session = self.world.session
        self.checks = self._make_checks()
        self.checks.slots = {
            "main": self.world.slots,
            "beside": self.world.beside_slots,
        }
        self._bug.cluster(self.cluster)
        self.person = self._make_person()
        self._paused: list[Holder] = []
        self._calm = False
        self._rests = False
        """The engine has nothing to do until time passes."""
        self._faulty_steps = STEPS_A_JOB * (len(self.plan.jobs) + 10)
        self._begun_at = self._true_clock.monotonic()
        self.holder = self._first_engine()

    def _make_growth(self, rng: random.Random) -> Plan | None:
        """A plan that a person will ask for; None: they will not."""
        if rng.random() >= GROWING:
            return None
        return self._make_plan(2, "_more", 0, rng)

    def _make_plan(
        self, families: int, series: str, first: int, rng: random.Random | None = None
    ) -> Plan:
        rng = rng or self._rng
        shape = self.cluster.shape(families, series, first)
        plan = make_plan(rng, replace(shape, reacts=self._reacts))
        scripts = make_scripts(plan, rng, pace=shape.pace)
        self.cluster.scripts.update(scripts)
        self.cluster.prepare(plan.jobs)
        return plan

    def _make_world(self) -> House:
        facts, rng = self.cluster.facts, self._rng
        world = self.cluster.house(
            self.seed,
            self._clock,
            planner=Recompose(monitoring=self.plan.monitoring),
            files=ShakyFacts(facts, rng, self.danger, self._true_clock),
            auto_approve=frozenset({"*"}) if rng.random() < 0.6 else frozenset(),
            slots=rng.choice([0, 0, 0, 6, 20]),
            beside_slots=random.Random(f"{self.seed} beside").choice([0, 1, 3]),
            has_nodes=rng.random() < 0.5,
        )
        for spec in (*self.plan.jobs, *self._later.jobs):
            world.shelf.saved[spec.output_dir] = [
                Checkpoint(path=f"{spec.output_dir}/iter_{step}", step=step)
                for step in (20, 40)
            ]
        return world

    def _make_checks(self) -> Checks:
        return Checks(self.session, self.cluster, self._true_clock.monotonic)

    def _make_person(self) -> Person:
        return Person(self._rng, self.world.inbox, self.tally.faults)

    @property
    def state(self) -> SessionState:
        return self.holder.engine.state

    def _first_engine(self) -> Holder:
        lease = self.session.acquire()
        state = SessionState(plans=self.session.plans)
        holder, journal = self._holder(lease, state)
        sha = journal.add_plan(self.plan)
        holder.engine.begin(first_events(state, sha, journal.seal))
        some = tuple(spec.name for spec in self.plan.jobs if self._rng.random() < 0.9)
        self.person.order(Submit(jobs=some if self._rng.random() < 0.3 else ()))
        return holder

    def _holder(
        self, lease: MemoryLease, state: SessionState
    ) -> tuple[Holder, MemoryJournal]:
        pool = InlinePool(seed=self._rng.randrange(1 << 30))
        inner = self._bug.executor(self.cluster.executor(self._clock))
        self.world.executor = WatchedExecutor(
            inner, self.checks, self.danger, lambda: not lease.is_held()
        )
        parts = self.world.parts(lease, pool)
        journal = parts.journal
        assert isinstance(journal, MemoryJournal)
        self._bug.journal(journal)
        return Holder(self._bug.engine(state, parts), pool, lease), journal

    def _next_engine(self, *, dead: bool = True) -> Holder:
        """A successor; it may itself be killed while it begins."""
        while True:
            lease = self.session.acquire(holder_is_dead=dead)
            dead = True
            loaded = self.session.load()
            holder, journal = self._holder(lease, loaded)
            try:
                self.danger.point("as it began", 0.05)
                holder.engine.begin(self._first_events(loaded, journal))
            except Killed as killed:
                self._say(f"killed {killed} as it began")
            except EnvironmentFailed:
                self._say("the disk was full as it began")
            else:
                self.checks.look_whole(holder.engine.state)
                return holder

    def _first_events(
        self, loaded: SessionState, journal: MemoryJournal
    ) -> list[events.Event]:
        gap = loaded.measure_seconds_until(self._clock.utc())
        first = first_events(loaded, "", journal.seal, gap)
        if not self._joins or self._later.jobs[0].name in loaded.jobs:
            return first
        self._note("plan joined later")
        self.person.order(Submit(jobs=tuple(spec.name for spec in self._later.jobs)))
        return [*first, events.PlanAdded(sha=journal.add_plan(self._later))]

    def run(self) -> None:
        """To its end; raises Violation."""
        try:
            while not self.is_over():
                self.step()
                if self.tally.steps > MOST_STEPS:
                    rest = sim_ends.unfinished(self.state, self.world)
                    raise Violation(f"it does not end: {rest}")
            self.check_end()
        finally:
            self.cluster.close()

    def step(self) -> None:
        """One step of anybody, and a look at the invariants; raises Violation."""
        if not self._calm and self.tally.steps >= self._faulty_steps:
            self.calm_down()
        self.tally.steps += 1
        try:
            if self._calm or not self._happens():
                self.work()
        except Killed as killed:
            self._say(f"killed {killed}")
            self.holder = self._next_engine()
        self._look()

    def _look(self) -> None:
        if self._verbose:
            self._tell()
        self.checks.look(self.state)
        if traces := [text for text in self.world.faults if "Traceback" in text]:
            raise Violation(traces[0])
        if self.holder.engine.stopped:
            self._say("the engine has stopped")
            self.holder.lease.release()
            self.holder = self._next_engine(dead=False)

    def work(self) -> None:
        draw = self._rng.random()
        pool = self.holder.pool
        if draw < 0.7 and pool.step():
            return
        if draw < 0.9 and not self._rests:
            self.holder.engine.commit()
            self._rests = not pool.pending
        elif self._calm and self._rng.random() < 0.1:
            self.person.bring_home(self.state)
        else:
            self._rests = False
            self.hop(self._rng.choice(CALM_HOPS if self._calm else HOPS))

    def hop(self, seconds: float) -> None:
        self._true_clock.advance(seconds)
        self.cluster.settle()

    def _happens(self) -> bool:
        """Draw what befalls the campaign now; whether anything does."""
        draw = self._rng.random()
        for share, a_campaign, happening in self._happenings:
            draw -= share + a_campaign / self._faulty_steps
            if draw < 0:
                happening(self)
                return True
        return False

    def _note(self, fault: str) -> None:
        self._say(fault)
        self.tally.faults[fault] += 1

    def kill(self) -> None:
        self._note("killed between two steps")
        raise Killed("between two steps")

    def stop(self) -> None:
        self._note("stopped by a person")
        self.person.order(StopEngine())

    def pause_engine(self) -> None:
        """The engine sleeps; another one takes the session, as from a dead one."""
        self._note("taken over while paused")
        self._paused.append(self.holder)
        self.hop(self._rng.choice([1.0, 60.0, 600.0]))
        self.holder = self._next_engine()

    def wake_paused(self) -> None:
        """A deposed engine goes on as if nothing had happened, until it notices."""
        if not self._paused:
            return
        self._note("paused engine woke")
        holder = self._paused.pop(0)
        before = len(self.session.records)
        try:
            for _ in range(self._rng.randint(1, 40)):
                if self._rng.random() < 0.5 or not holder.pool.step():
                    holder.engine.commit()
                self.checks.look_outside()
                if holder.engine.stopped:
                    break
        except Killed as killed:
            self._say(f"it was killed {killed}")
        if len(self.session.records) != before:
            raise Violation("a deposed engine wrote what is believed")

    def second_starter(self) -> None:
        """Another engine wants the session of a living one."""
        try:
            self.session.acquire()
        except SessionOwned:
            self._note("second starter refused")
        else:
            raise Violation("two engines own the session")

    def break_disk(self) -> None:
        """The next write is refused, or the engine dies at it."""
        kind = self._rng.choice(tuple(_DISK))
        self._note(_DISK[kind])
        fault = DiskFault(kind=kind, kept=self._rng.randint(0, 3))
        self.session.faults[self.session.appends] = fault

    def break_errands(self) -> None:
        """What rules ask for beside the jobs goes wrong for a while, or goes again."""
        if self.world.errands.problem:
            self._mend_errands()
            return
        self._note("errands fail")
        trouble = "no space left on device"
        self.world.errands.problem = self.world.shelf.problem = trouble
        self.world.errands.exit_code = self._rng.choice([1, None])

    def _mend_errands(self) -> None:
        self.world.errands.problem = self.world.shelf.problem = ""
        self.world.errands.exit_code = 0

    def jump(self) -> None:
        name, least, most = self._rng.choice(_JUMPS)
        self._note(name)
        self._clock.offset += self._rng.uniform(least, most)

    def strike(self) -> None:
        if name := self.cluster.strike(self._rng):
            self._note(name)

    def meddle(self) -> None:
        if said := self.person.meddle(self.state):
            self._say(f"a person {said}")

    def grow(self) -> None:
        """A person asks for more jobs, maybe again for the same."""
        if self._growth is not None:
            sha = digest(self._growth, length=16)
            self.session.plans[sha] = self._growth
            self.person.grow(self.state, sha, self._growth)

    def refold(self) -> None:
        """The journal, folded from its begin, and from somewhere in it."""
        self._note("snapshot and tail")
        cut = self._rng.randint(0, len(self.session.records))
        self.checks.look_by_parts(self.state, cut)

    def calm_down(self) -> None:
        """Mend everything: the campaign must come to its end now."""
        self._say("all is mended")
        self._calm = True
        self.danger.over = True
        self.session.faults.clear()
        self.cluster.heal()
        self._mend_errands()
        while self._paused:
            self.wake_paused()

    def is_over(self) -> bool:
        """Whether all is mended, and everything has come to its end."""
        if not self._calm or self.world.inbox.orders:
            return False
        ended = [job.ended for job in self.state.jobs.values()]
        whole = len(ended) >= len(self.plan.jobs) and all(ended)
        return whole and not self.state.pending

    def check_end(self) -> None:
        """Look at the whole, and whether anything lives on; count it; raises Violation
        where something is not as it must be."""
        self.checks.look_whole(self.state)
        self.checks.look_by_parts(self.state, len(self.session.records) // 2)
        wanted = {spec.name for spec in self.plan.jobs}
        if lost := wanted - set(self.state.jobs):
            raise Violation(f"jobs are lost: {sorted(lost)}")
        sim_ends.check_words(self.state, self.world)
        sim_ends.check_ledger(self.session, self.world)
        sim_ends.check_growth(self.person.grown, self.session)
        self.hop(ORPHAN_SECONDS)
        self.checks.look_outside()
        if living := self.cluster.living():
            raise Violation(f"orphans run on: {living}")
        self.tally.seconds = self._elapsed() - ORPHAN_SECONDS
        sim_ends.count(self.tally, self.state, self.session, self.cluster)

    def digest(self) -> str:
        """Of all that was journaled: equal for equal seeds."""
        return sim_ends.digest(self.session, self.cluster.root)

    def _elapsed(self) -> float:
        return self._true_clock.monotonic() - self._begun_at

    def _say(self, text: str) -> None:
        if self._verbose:
            print(f"{self._elapsed():9.1f}  {text}", file=sys.stderr)

    def _tell(self) -> None:
        for record in self.session.records[self._told :]:
            self._say(f"{record.seq:5} {record.epoch} {record.event!r}"[:400])
        self._told = len(self.session.records)


_DISK: Final[Mapping[DiskKind, str]] = {
    "refused": "disk full",
    "killed_before": "killed before a write",
    "killed_amid": "killed amid a write",
    "killed_after": "killed after a write",
}
_JUMPS: Final = (
    ("clock forward", 5.0, 7200.0),
    ("clock back", -7200.0, -5.0),
    ("clock a year forward", 3e7, 4e7),
    ("clock a year back", -4e7, -3e7),
    ("clock slewed", -0.5, 0.5),
)
HAPPENINGS: Final[tuple[tuple[float, float, Callable[[Campaign], None]], ...]] = (
    (0.0, 4.0, Campaign.kill),
    (0.0, 0.5, Campaign.stop),
    (0.0, 1.0, Campaign.pause_engine),
    (0.0, 4.0, Campaign.wake_paused),
    (0.0, 1.0, Campaign.second_starter),
    (0.0, 3.0, Campaign.break_disk),
    (0.0, 2.0, Campaign.break_errands),
    (0.0, 2.0, Campaign.jump),
    (0.003, 6.0, Campaign.strike),
    (0.004, 4.0, Campaign.meddle),
    (0.0, 1.5, Campaign.grow),
    (0.0, 0.5, Campaign.refold),
)
"""How often each comes: a share of the steps with faults, and times a campaign. What
makes a new engine fold the journal is counted by campaign: its price grows with that.
"""
