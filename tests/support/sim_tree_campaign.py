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
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.events import events
from autoexp_tui.model.commands import Resume, Submit
from autoexp_tui.model.rules import Monitoring, Storm
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.tree import events as told
from autoexp_tui.tree.commands import (
    AddIdea,
    EndEvaluation,
    MarkEvaluation,
    ProposeIdea,
    RetryEvaluation,
)
from autoexp_tui.tree.state import PART, Idea, Mark, find_tree, tree_of
from autoexp_tui.tree.views import list_search
from tests.support.fake_script import RunScript
from tests.support.sim_checks import Violation
from tests.support.sim_git import FOREIGN, OURS, MemoryGit
from tests.support.sim_person import Person
from tests.support.sim_policy import PolicyCampaign, PolicyCluster, PolicyPerson
from tests.support.sim_tree_checks import TreeChecks, differ
from tests.support.sim_trees import TIMEOUT, SimTrees
from tests.support.sim_world import House

FREE: Final = 0.3
"""Share of searches that are not made again."""


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


class TreeCluster(PolicyCluster):
    """What runs the jobs of a search."""

    kind = "tree"
    trees: SimTrees

    def _script(self, task: Task) -> Sequence[RunScript]:
        return self.trees.script(task)

    def _write(self, path: str, data: bytes) -> None:
        self.trees.act(path, data)

    def _list_fates(self, job: str) -> Iterator[str]:
        name = job.split("_")[0]
        steps = ("implement", "sweep") if name.startswith("e") else ("ideas",)
        return (self.trees.find_fate(f"{name}_{step}") for step in steps)


class TreePerson(PolicyPerson):
    """Decides on a search; in free ones also what depends on when it comes."""

    is_free = False
    adds_ideas = True
    """False: how many may be tried is limited, and who comes late finds it used up."""

    def is_known(self, state: SessionState) -> bool:
        return find_tree(state) is not None

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


class TreeCampaign(PolicyCampaign):
    """One seed's search, step by step."""

    cluster: TreeCluster
    checks: TreeChecks
    person: TreePerson
    part = PART
    begun = told.TreeBegun(run="r")
    faulty_steps = 1200

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
        super().__init__(seed, TreeCluster, **options)
        self._happenings.append((0.0, 2.0, TreeCampaign.vandal))  # type: ignore[arg-type]
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
        person.acts = _TREE_ACTS + (_FREE_ACTS if self._is_free else ())
        person.share = 0.7 if self._is_free else 1.0
        person.adds_ideas = self.plan.tree["max_total_idea_evals"] is None
        return person

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
        elif self.has_ended:
            self.calm_down()
        super().step()

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

    def check_end(self) -> None:
        super().check_end()
        self.checks.check_end(tree_of(self.state))
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
