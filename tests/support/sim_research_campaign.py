"""One simulated research: the real engine and policy over two fake executors, with
planning in memory and scripted agents, from one seed.

What befalls any campaign befalls it; a person edits the list, answers in part, tells
the agent something, calls it, ends its calls, and meddles with jobs. When all is mended
agents have no more ideas, and the research must come to its end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.jobs import MaxAttempts
from autoexp_tui.engine.executor_port import Task
from autoexp_tui.events import events
from autoexp_tui.model.commands import Kill, Resubmit, Resume, Submit
from autoexp_tui.model.rules import Monitoring, StateClass, StateEvent, Storm
from autoexp_tui.model.specs import JobSpec, Plan, Resources
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import ACTIVE, NOT_STARTED, REVIVABLE, Why
from autoexp_tui.research import events as told
from autoexp_tui.research.commands import (
    AcknowledgeCondition,
    Consult,
    EndCall,
    EndResearch,
    MoveItem,
    PutItem,
    RemoveItem,
    TellAgent,
)
from autoexp_tui.research.state import PART, Item, find_research, research_of
from tests.support.fake_script import AGENT, FOREVER, RunScript
from tests.support.sim_campaign import Campaign
from tests.support.sim_policy import PolicyCampaign, PolicyCluster, PolicyPerson
from tests.support.sim_research import GPUS, SimLaboratory
from tests.support.sim_research_checks import ResearchChecks
from tests.support.sim_world import House

BY: Final = "kurt"


class ResearchCluster(PolicyCluster):
    """What runs the jobs of a research."""

    kind = "research"
    laboratory: SimLaboratory

    def _script(self, task: Task) -> Sequence[RunScript]:
        return self.laboratory.script(task)

    def _write(self, path: str, data: bytes) -> None:
        if path.startswith(AGENT):
            self.laboratory.act(path, data)
        else:
            self.files.append(path, data)

    def _list_fates(self, job: str) -> Sequence[str]:
        return [self.laboratory.find_fate(job)]

    def lasts(self, job: str, attempt: int) -> bool:
        """Whether an attempt runs that never ends by itself."""
        copies = (host.claims.get((job, attempt)) for host in (self.main, self.beside))
        runs = (one.runs[-1] for one in copies if one and one.running)
        return any(run.script.seconds >= FOREVER for run in runs)


class ResearchPerson(PolicyPerson):
    """Decides on a research."""

    cluster: ResearchCluster
    notes: list[str]
    """Commands that told the agent something."""
    ends: bool = False
    """Whether they end it at times."""
    share = 0.75

    def order(self, command: Any, expected: Any = None) -> str:
        name = super().order(command, expected)
        self._inbox.orders[name] = self._last = replace(self._inbox.orders[name], by=BY)
        return name

    def is_known(self, state: SessionState) -> bool:
        research = find_research(state)
        return research is not None and bool(research.directory)

    def _insert(self, state: SessionState) -> str:
        rng, research = self._rng, research_of(state)
        item = Item(
            id=f"p{rng.randrange(1, 9)}",
            gpus=rng.choice([1, 2, 8, None]),
            depends_on=(rng.choice([*research.runs, "nobody"]),)
            if rng.random() < 0.2
            else (),
        )
        self.order(PutItem(item=item, place=rng.randrange(len(research.items) + 1)))
        return "inserts an item"

    def _edit(self, state: SessionState) -> str:
        item = self._choose_item(state)
        wider = replace(item, note="edited", gpus=self._rng.choice([1, 2, 8]))
        self.order(PutItem(item=replace(wider, jobs=())))
        return "edits an item"

    def _move(self, state: SessionState) -> str:
        place = self._rng.randrange(4)
        self.order(MoveItem(item=self._choose_item(state).id, place=place))
        return "moves an item"

    def _remove(self, state: SessionState) -> str:
        self.order(RemoveItem(item=self._choose_item(state).id))
        return "removes an item"

    def _choose_item(self, state: SessionState) -> Item:
        return self._rng.choice([*research_of(state).items, Item(id="nobody")])

    def _tell(self, _state: SessionState) -> str:
        self.notes.append(self.order(TellAgent(text=f"note {self._given}")))
        return "tells the agent"

    def _consult(self, _state: SessionState) -> str:
        self.order(Consult())
        return "consults"

    def _end_call(self, state: SessionState) -> str:
        known = research_of(state).open
        self.order(EndCall(consultation=self._rng.choice([*known, "c999"])))
        return "ends a call"

    def _see(self, state: SessionState) -> str:
        warnings = [*research_of(state).warnings, "none"]
        self.order(AcknowledgeCondition(key=self._rng.choice(warnings)))
        return "has seen a condition"

    def _finish(self, _state: SessionState) -> str:
        if not self.ends or self._rng.random() < 0.8:
            return ""
        self.order(EndResearch(reason="enough"))
        return "ends the research"

    def _kill(self, state: SessionState) -> str:
        return super()._kill(state) if state.jobs else ""

    def _pause_or_go_on(self, state: SessionState) -> str:
        is_wanted = state.paused or self._rng.random() < 0.2
        return self._pause(state) if is_wanted else ""

    def _run_again(self, state: SessionState) -> str:
        """Have a job of an item run again: it is paid twice, as they want it."""
        ended = [
            job.name
            for job in state.jobs.values()
            if job.state in REVIVABLE and job.spec.place == "main"
        ]
        if not ended:
            return ""
        self.order(Resubmit(jobs=(self._rng.choice(ended),)))
        return "resubmits"

    def bring_home(self, state: SessionState) -> None:
        if self._inbox.orders:
            return
        if state.paused:
            self.order(Resume())
        elif self.answer(state, kindly=True):
            return
        elif lasting := self._find_lasting(state):
            self.order(lasting)
        elif wanted := self._end_wait(state):
            self.order(wanted)
        elif any(job.state in NOT_STARTED for job in state.jobs.values()):
            self.order(Submit())

    def _end_wait(self, state: SessionState) -> Any:
        """The order that ends what nobody else ends: a wait for agents, or a research
        that finds nothing to try."""
        research, end = find_research(state), state.asks.get("end")
        if research is None or research.stopped:
            return None
        if end and end.approved is False:
            return EndResearch(reason="it is enough")
        if research.agents_wait is None:
            return None
        if research.wants_mending:
            return Consult()
        # A clock was set after a service had told when it is back.
        is_far = research.resume_at > state.t + 86_400
        return EndResearch(reason="it waits for ever") if is_far else None

    def _find_lasting(self, state: SessionState) -> Any:
        """The order that ends a call or a run that never ends by itself."""
        for job in state.jobs.values():
            if job.state in ACTIVE and self.cluster.lasts(job.name, len(job.attempts)):
                name = job.name.partition("_")[0]
                if job.spec.place == "main" or find_research(state) is None:
                    return Kill(jobs=(job.name,))
                one = research_of(state).consultations[name]
                if research_of(state).stopped is None and not one.ending:
                    return EndCall(consultation=name)
        return None


_ACTS: Any = (
    *[ResearchPerson._insert] * 2,
    ResearchPerson._edit,
    ResearchPerson._move,
    ResearchPerson._remove,
    ResearchPerson._tell,
    ResearchPerson._consult,
    ResearchPerson._end_call,
    ResearchPerson._see,
    ResearchPerson._finish,
    ResearchPerson._kill,
    ResearchPerson._run_again,
    ResearchPerson._pause_or_go_on,
    ResearchPerson._again,
    *[ResearchPerson.answer] * 6,
)


class ResearchCampaign(PolicyCampaign):
    """One seed's research, step by step."""

    cluster: ResearchCluster
    checks: ResearchChecks
    person: ResearchPerson
    part = PART
    begun = told.ResearchBegun()
    faulty_steps = 1500

    def __init__(self, seed: int, **options: Any) -> None:
        self._pace = random.Random(f"{seed} pace").choice([1.0, 4.0])
        super().__init__(seed, ResearchCluster, **options)
        self._happenings += [
            (0.02, 0.0, Campaign.meddle),
            (0.005, 0.0, Campaign.strike),
        ]

    def hop(self, seconds: float) -> None:
        super().hop(seconds * self._pace)

    def _make_plan(self, *_: Any, **__: Any) -> Plan:
        draw = random.Random(f"{self.seed} options")
        again = Restart(reason="again", conditions=(MaxAttempts(max_attempts=3),))
        kinds: Sequence[StateClass] = ("node_fail", "crash")
        reactions = [
            StateEvent(name=kind, state=kind, actions=(again,)) for kind in kinds
        ]
        rules = Monitoring(
            poll_seconds=3.0,
            state_events=tuple(reactions[: draw.choice([0, 1, 1, 2])]),
            doomed_grace_seconds=5.0,
            storm=Storm(failures=2),
        )
        own = range(draw.choice([0, 0, 0, 2]))
        return Plan(
            plan_id="sim",
            name="sim",
            state_dir="/state",
            jobs=tuple(_make_own(number) for number in own),
            research=_draw_options(draw),
            monitoring=rules,
        )

    def _make_world(self) -> House:
        draw = random.Random(f"{self.seed} world")
        self.laboratory = self.cluster.laboratory = SimLaboratory(
            clock=self._clock,
            seed=self.seed,
            most_calls=draw.choice([3, 8, 20]),
            disk=random.Random(f"{self.seed} disk"),
        )
        granted = draw.choice([(), (), (), ("*",), ("kills",), ("code", "end")])
        return self.cluster.house(
            self.seed,
            self._clock,
            adapters={"research": self._bug.laboratory(self.laboratory)},
            auto_approve=frozenset(granted),
            slots=draw.choice([0, 0, 1, 4]),
            beside_slots=draw.choice([0, 1, 3]),
        )

    def _make_checks(self) -> ResearchChecks:
        elapsed = self._true_clock.monotonic
        checks = ResearchChecks(self.session, self.cluster, elapsed)
        checks.laboratory, checks.granted = self.laboratory, self.world.auto_approve
        return checks

    def _make_person(self) -> ResearchPerson:
        person = ResearchPerson(self._rng, self.world.inbox, self.tally.faults)
        person.cluster, person.notes, person.acts = self.cluster, [], _ACTS
        person.ends = random.Random(f"{self.seed} person").random() < 0.2
        return person

    def step(self) -> None:
        if self.has_ended:
            self.calm_down()
        super().step()

    def calm_down(self) -> None:
        super().calm_down()
        self.laboratory.is_calm, self.laboratory.disk = True, None

    def check_end(self) -> None:
        super().check_end()
        research = research_of(self.state)
        assert research.stopped is not None, "it has no work left"
        self.checks.check_end(self.state, self.person.notes)
        self.tally.faults[f"ended: {research.stopped.code}"] += 1
        for record in self.session.records:
            self.tally.faults.update(filter(None, _list_names(record.event)))


def _list_names(event: Any) -> Iterator[str]:
    """What an event of a research tells of what happened, for the report."""
    match event:
        case told.TriggerFired(kind=kind):
            yield f"trigger {kind}"
        case told.AnswerRead(outcome=outcome):
            yield f"call: {outcome}"
        case told.RunJudged(ended=ended):
            yield f"run {ended.outcome}"
            yield f"run failed: {ended.mechanical}" if ended.mechanical else ""
        case told.FixDecided(item=item):
            yield "run is fixed" if item else "run is not fixed"
        case told.DecisionApplied(decided=decided, order=order):
            yield from ["line applied"] * len(decided.applied)
            yield from ["line refused"] * len(decided.refused)
            yield from ["line void"] * len(decided.void)
            yield "list is another" if order is not None else ""
        case told.MilestoneCrossed():
            yield "milestone"
        case told.ConditionFound():
            yield "warning to agents"
        case told.CallsPaused():
            yield "agents wait"
        case events.EffectOrdered(why=Why(code=code)) if code in _KILLS:
            yield f"kill: {code}"


_KILLS: Final = frozenset({"ended_by_agent", "kill_criterion", "budget_reached"})


def _make_own(number: int) -> JobSpec:
    """A job of the session's own plan, which is a run too."""
    name = f"own{number}"
    return JobSpec(
        name=name,
        index=number,
        command=("train", name),
        output_dir=f"/out/{name}",
        log_dir=f"/logs/{name}",
        resources=Resources(gpus=1),
    )


def _draw_options(draw: random.Random) -> dict[str, Any]:
    def is_so(share: float) -> bool:
        return draw.random() < share

    budgets: dict[str, Any] = {
        name: draw.choice(amounts) for name, amounts in _BUDGETS.items() if is_so(0.1)
    }
    kinds = ("experiments", "kills", "code", "budget", "end")
    objective = {"mode": "min"}
    return {
        "goal": "a lower loss",
        "agent": ["a"],
        "gpus": GPUS,
        "objective": objective | ({"target": 0.5} if is_so(0.1) else {}),
        "starve_after": draw.choice([0, 1, 2, 3]),
        "refill_below": draw.choice([0, 1, 2, 2, 4]),
        "min_interval_seconds": draw.choice([1.0, 10.0, 60.0]),
        "heartbeat_seconds": draw.choice([60.0, 120.0, 600.0]),
        "max_items": draw.choice([4, 100]),
        "falsified_after": draw.choice([1, 3]),
        "rounds_without_gain": draw.choice([1, 3]),
        "no_metric_seconds": draw.choice([20.0, 600.0]),
        "breaker_failures": draw.choice([1, 3]),
        "breaker_seconds": draw.choice([30.0, 300.0]),
        "approve": {kind: draw.choice(["auto", "ask"]) for kind in kinds},
        "fixer": {
            "agent": ["a"] if is_so(0.8) else [],
            "may_override": ["batch_size"],
            "attempts": draw.choice([1, 3]),
        },
        "budgets": budgets | {"on_reached": draw.choice(["finish", "kill"])},
    }


_BUDGETS: Final[Mapping[str, Sequence[Any]]] = {
    "wall_seconds": [300.0, 900.0, 3000.0],
    "gpu_hours": [0.05, 0.5, 2.0],
    "calls": [0, 1, 4, 10],
    "tokens": [250, 1500],
    "money": [1.2, 8.0],
    "research": [{"calls": 3}],
    "fixer": [{"calls": 1}],
}
