"""One simulated search: the real engine and policy over two fake executors, a git in
memory and scripted agents, from one seed.

What befalls any campaign befalls it; a person marks, adds ideas, ends evaluations and
approves in part. Afterwards the search is made again without faults, at another speed,
with other numbers of workers and the same decisions of the person: it must come to the
same `search`, byte for byte. Seeds that are `free` have what makes an end depend on its
time (jobs killed, a refused login, a beam refused, a ref that is somebody else's), and
are not made again.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.engine.ports import Clock
from autoexp_tui.events import events
from autoexp_tui.executors.routing import RoutingExecutor
from autoexp_tui.model.commands import AnswerAsk, Resume, Submit
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.policy import has_work_left
from autoexp_tui.model.rules import Monitoring, Storm
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.tree import events as told
from autoexp_tui.tree.commands import (
    AddIdea,
    EndEvaluation,
    MarkEvaluation,
    ProposeIdea,
    RetryEvaluation,
)
from autoexp_tui.tree.state import Idea, Mark, find_tree, tree_of
from autoexp_tui.tree.views import list_search
from tests.support import sim_ends
from tests.support.fake_script import Fault, RunScript
from tests.support.sim_beside import BesideHost
from tests.support.sim_campaign import Campaign, Holder
from tests.support.sim_causes import Memory
from tests.support.sim_checks import Violation
from tests.support.sim_git import FOREIGN, OURS, MemoryGit
from tests.support.sim_person import Person
from tests.support.sim_plans import Shape
from tests.support.sim_slurm import BESIDE, MEMORY
from tests.support.sim_tally import Danger
from tests.support.sim_tree_checks import TreeChecks, differ
from tests.support.sim_trees import SOUND, TIMEOUT, SimTrees
from tests.support.sim_world import Files, House, Logs, first_events
from tests.support.true_ends import Befallen

FREE: Final = 0.3
"""Share of searches that are not made again."""
STEPS: Final = 1200
"""With faults."""
TREE_MOST_STEPS: Final = 60_000
"""Agents wait a day at most where a clock is months off."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a person decided in a search."""

    marks: Mapping[str, Mark] = field(default_factory=dict)
    ideas: Mapping[Idea, tuple[int, bool]] = field(default_factory=dict)
    """With the depth, and whether its ideas were known, as each was added."""
    ended: Container[str] = ()
    dropped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Question -> the lines that were left out."""
    is_timed: bool = False
    """Whether an idea came just before a search would have ended without one."""


class TreeCluster:
    """What runs the jobs of a search: two fake executors and files in memory."""

    kind = "tree"

    def __init__(self, rng: random.Random, clock: ManualClock, danger: Danger) -> None:
        self.clock, self.danger = clock, danger
        self.facts = self.files = Files(clock)
        self.logs = Logs(self.files)
        self.scripts: dict[str, Sequence[Sequence[RunScript]]] = {}
        self.directory = Path(tempfile.mkdtemp(prefix="autoexp-sim-", dir=MEMORY))
        self.root = "/search"
        self.trees: SimTrees
        self.main, self.beside = (
            BesideHost(clock, self._script, self._write) for _ in range(2)
        )
        self._struck: set[str] = set()
        self._begun: list[tuple[TaskId, int, str]] = []
        self._seen = [0, 0]

    def _script(self, task: Task) -> Sequence[RunScript]:
        return self.trees.script(task)

    def _write(self, path: str, data: bytes) -> None:
        self.trees.act(path, data)

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
        name = job.split("_")[0]
        steps = ("implement", "sweep") if name.startswith("e") else ("ideas",)
        fates = {self.trees.find_fate(f"{name}_{step}") for step in steps}
        return name not in self._struck and fates == {SOUND}

    def heal(self) -> None:
        self.main.faults.clear()
        self.beside.faults.clear()

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class TreePerson(Person):
    """Decides on a search; in free ones also what depends on when it comes."""

    is_free = False
    adds_ideas = True
    """False: how many may be tried is limited, and who comes late finds it used up."""

    def meddle(self, state: SessionState) -> str:
        acts = _TREE_ACTS + (_FREE_ACTS if self.is_free else ())
        if find_tree(state) is None:
            return ""
        said: str = self._rng.choice(acts)(self, state)
        if said:
            self._counts[f"person {said}"] += 1
        return said

    def _choose(self, state: SessionState) -> str:
        here = tree_of(state).here
        return self._rng.choice(here) if here else "e999"

    def _mark(self, state: SessionState) -> str:
        choice: Any = self._rng.choice(["promote", "reject", "reject", None])
        self.order(MarkEvaluation(evaluation=self._choose(state), choice=choice))
        return "marks"

    def _end(self, state: SessionState) -> str:
        self.order(EndEvaluation(evaluation=self._choose(state)))
        return "ends an evaluation"

    def _add(self, state: SessionState) -> str:
        if not self.adds_ideas and not self.is_free:
            return ""
        node = self._rng.choice([*tree_of(state).nodes, "n99"])
        text = f"# {self._rng.choice([-0.2, 0.2, 0.6])} of a person for {node}"
        self.order(ProposeIdea(node=node, text=text))
        return "adds an idea"

    def _retry_evaluation(self, state: SessionState) -> str:
        self.order(RetryEvaluation(evaluation=self._choose(state)))
        return "retries an evaluation"

    def _of_a_job(act: Callable[[Any, SessionState], str]) -> Any:  # type: ignore[misc]
        return lambda self, state: act(self, state) if state.jobs else ""

    _kill_job, _run_again = _of_a_job(Person._kill), _of_a_job(Person._resubmit)

    def answer(self, state: SessionState, *, kindly: bool = False) -> str:
        asked = [(n, ask) for n, ask in state.asks.items() if ask.approved is None]
        if not asked:
            return ""
        name, ask = self._rng.choice(asked)
        approved = kindly or not self.is_free or self._rng.random() < 0.7
        lines = range(len(ask.lines))
        out = () if kindly else tuple(n for n in lines if self._rng.random() < 0.2)
        self.answer_ask(name, ask, out, approved=approved)
        return "answers"

    def answer_ask(
        self, name: str, ask: Any, dropped: tuple[int, ...], *, approved: bool
    ) -> None:
        bound = digest_question(name, ask.prompt, ask.list_kept(dropped))
        said = AnswerAsk(ask=name, digest=bound, approved=approved, dropped=dropped)
        self.order(said)

    def bring_home(self, state: SessionState) -> None:
        if self._inbox.orders:
            return
        if state.paused:
            self.order(Resume())
        elif not self.answer(state, kindly=True):
            self.order(Submit())


_TREE_ACTS: Any = (
    *[TreePerson._mark] * 2,
    TreePerson._end,
    TreePerson._add,
    TreePerson._pause,
    TreePerson._again,
    *[TreePerson.answer] * 2,
)
_FREE_ACTS: Any = (
    TreePerson._retry_evaluation,
    TreePerson._kill_job,
    TreePerson._run_again,
)


class TreeCampaign(Campaign):
    """One seed's search, step by step."""

    cluster: TreeCluster  # type: ignore[assignment]
    checks: TreeChecks
    person: TreePerson

    def __init__(
        self,
        seed: int,
        *,
        speed: int = 0,
        decisions: Decisions | None = None,
        **options: Any,
    ) -> None:
        """`decisions`: of a former search of the seed, which is made again."""
        self._speed, self._decisions = speed, decisions
        self._taken: set[object] = set()
        """Decisions that were given again."""
        draw = random.Random(f"{seed} search")
        self._is_free = draw.random() < FREE
        super().__init__(seed, TreeCluster, **options)  # type: ignore[arg-type]
        self._happenings = [h for h in self._happenings if h[2] not in _NOT_HERE]
        self._happenings.append((0.0, 2.0, TreeCampaign.vandal))  # type: ignore[arg-type]
        self._joins, self._faulty_steps = False, STEPS
        if decisions is not None:
            self.calm_down()
        self._may_vandal = self._is_free and draw.random() < 0.2

    def _make_plan(self, *_: Any, **__: Any) -> Plan:
        """The plan of a search; how many are at work is a matter of the speed."""
        draw = random.Random(f"{self.seed} options")
        pace = random.Random(f"{self.seed} {self._speed} pace")
        tree = {
            "metrics": [{"name": "m"}],
            "gate": {"min_rows": 1},
            "beam_width": draw.choice([1, 2, 2, 3]),
            "max_depth": draw.choice([2, 2, 3, 3]),
            "ideas_per_node": draw.choice([2, 3, 4, 5]),
            "max_total_idea_evals": draw.choice([None, None, None, 5, 12]),
            "frontier": draw.choice(["global", "global", "per_parent"]),
            "approve": draw.choice(["none", "beam"]),
            "dedupe": draw.choice(["node", "node_plus_ancestors", "global"]),
            "strict_fail_depth": draw.random() < 0.1,
            "eval_timeout_seconds": TIMEOUT,
            "noise": {"repeats": draw.choice([0, 0, 2])},
            "max_parallel_evals": pace.choice([1, 2, 4]),
            "llm_max_inflight": pace.choice([None, None, 1, 2]),
        }
        self._has_baseline = draw.random() < 0.6
        rules = Monitoring(
            poll_seconds=3.0, doomed_grace_seconds=5.0, storm=Storm(failures=2)
        )
        return Plan(
            plan_id="sim",
            name="sim",
            state_dir="/state",
            jobs=(),
            tree=tree,
            monitoring=rules,
        )

    def _make_growth(self, rng: random.Random) -> None:
        return None

    def _make_world(self) -> House:
        git = MemoryGit(self.cluster.directory, self.danger)
        self.trees = self.cluster.trees = SimTrees(
            propose=lambda _node: (),
            has_baseline=self._has_baseline,
            git=git,
            clock=self._true_clock,
            seed=self.seed,
            speed=self._speed,
            is_free=self._is_free,
        )
        return self.cluster.house(
            self.seed,
            self._clock,
            adapters={"tree": self._bug.trees(self.trees)},
            auto_approve=frozenset(),
            slots=self._rng.choice([0, 1, 3]),
            beside_slots=self._rng.choice([0, 1, 3]),
        )

    def _make_checks(self) -> TreeChecks:
        elapsed = self._true_clock.monotonic
        checks = TreeChecks(self.session, self.cluster, elapsed)
        checks.trees = self.trees
        return checks

    def _make_person(self) -> TreePerson:
        person = TreePerson(self._rng, self.world.inbox, self.tally.faults)
        person.is_free = self._is_free
        person.adds_ideas = self.plan.tree["max_total_idea_evals"] is None
        return person

    def _first_engine(self) -> Holder:
        lease = self.session.acquire()
        state = SessionState(plans=self.session.plans)
        holder, journal = self._holder(lease, state)
        sha = journal.add_plan(self.plan)
        first = first_events(state, sha, journal.seal)
        holder.engine.begin([*first, told.TreeBegun(run="r")])
        return holder

    def vandal(self) -> None:
        """Somebody makes a ref that the search is about to make."""
        tree = find_tree(self.state)
        if not self._may_vandal or tree is None:
            return
        self._note("ref of somebody else")
        self._may_vandal = False
        name = f"{OURS}n{tree.next_node}"
        if name not in self.trees.git.refs:
            self.trees.git.refs[name] = FOREIGN

    def step(self) -> None:
        if self._decisions is not None:
            self._decide_again(self._decisions)
        elif find_tree(self.state) is not None and not has_work_left(self.state):
            self.calm_down()
        super().step()
        if self.tally.steps > TREE_MOST_STEPS:
            pending = [one.effect for one in self.state.pending.values()]
            raise Violation(f"it does not end: {tree_of(self.state)}, {pending}")

    def _decide_again(self, given: Decisions) -> None:
        """Order what the person had decided, as soon as it can be."""
        tree = find_tree(self.state)
        if tree is None:
            return
        for name in tree.here:
            if self._is_new(name):
                if name in given.ended:
                    self.person.order(EndEvaluation(evaluation=name))
                if mark := given.marks.get(name):
                    self.person.order(
                        MarkEvaluation(evaluation=name, choice=mark.choice)
                    )
        for idea, moment in given.ideas.items():
            is_due = moment == (tree.depth, tree.is_listed) and idea.node in tree.nodes
            if is_due and self._is_new(idea):
                self.person.order(AddIdea(idea=idea))
        for name, ask in self.state.asks.items():
            if ask.approved is None and self._is_new((name, ask.digest)):
                dropped = given.dropped.get(name, ())
                self.person.answer_ask(name, ask, dropped, approved=True)
        for order in [*self.world.inbox.orders.values()]:
            self.holder.engine.order(order)

    def _is_new(self, what: object) -> bool:
        is_new = what not in self._taken
        self._taken.add(what)
        return is_new

    def is_over(self) -> bool:
        if not self._calm or self.world.inbox.orders:
            return False
        return find_tree(self.state) is not None and not has_work_left(self.state)

    def check_end(self) -> None:
        self.checks.look_whole(self.state)
        self.checks.look_by_parts(self.state, len(self.session.records) // 2)
        self.hop(7200.0)
        self.checks.look_outside()
        if living := self.cluster.living():
            raise Violation(f"orphans run on: {living}")
        self.tally.seconds = self._elapsed() - 7200.0
        sim_ends.count(self.tally, self.state, self.session, self.cluster)  # type: ignore[arg-type]
        tree = tree_of(self.state)
        self.checks.check_end(tree)
        if self._decisions is None and not self._is_free:
            self._make_again()

    def _make_again(self) -> None:
        """Raises Violation where the search comes to something else."""
        decisions = self._read_decisions()
        if decisions.is_timed:
            return
        again = TreeCampaign(self.seed, speed=1, decisions=decisions)
        again._verbose = self._verbose
        again.run()
        one, other = (
            list_search(tree := tree_of(campaign.state), tree.options)
            for campaign in (self, again)
        )
        if one != other:
            raise Violation(f"at another speed: {differ(one, other)}")
        prompts, known = self.trees.prompts, again.trees.prompts
        if told_ := [n for n in prompts if prompts[n] != known.get(n, prompts[n])]:
            raise Violation(f"{told_} were told something else at another speed")

    def _read_decisions(self) -> Decisions:
        tree, depth, is_listed, is_timed = tree_of(self.state), 0, False, False
        ideas, dropped, has_nodes = dict[Idea, tuple[int, bool]](), {}, True
        for record in self.session.records:
            match record.event:
                case told.DepthListed():
                    is_listed = True
                case told.DepthClosed(nodes=nodes):
                    depth, is_listed, has_nodes = depth + 1, False, bool(nodes)
                case told.IdeaAdded(idea=idea):
                    ideas[idea] = (depth, is_listed)
                    is_timed = is_timed or not (is_listed or has_nodes)
                case events.AskAnswered() as event if event.approved:
                    dropped[event.ask] = event.dropped
        known = tree.evaluations.values()
        reasons = {one.id: one.judgement and one.judgement.why for one in known}
        return Decisions(
            marks={one.id: one.mark for one in known if one.mark},
            ideas=ideas,
            ended={
                n for n, why in reasons.items() if why and why.code == "ended_by_hand"
            },
            dropped=dropped,
            is_timed=is_timed,
        )


_NOT_HERE: Final = (Campaign.grow, Campaign.break_errands)
