"""The invariants of a simulated search, beside those of every campaign."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded
from autoexp_tui.tree import events as told
from autoexp_tui.tree.state import Evaluation, Idea, Tree, tree_of
from autoexp_tui.tree.views import list_search
from tests.support.memory_journal import MemorySession
from tests.support.sim_checks import Checks, Violation
from tests.support.sim_git import FOREIGN, OURS
from tests.support.sim_trees import SimTrees

_BEFORE_JOBS: Final = frozenset({"not_prepared", "ended_by_hand"})
"""Why an evaluation is judged of which no job has run."""


class TreeChecks(Checks):
    """Holds a campaign with a search to its invariants."""

    trees: SimTrees

    def __init__(
        self, session: MemorySession, truth: Any, elapsed: Callable[[], float]
    ) -> None:
        super().__init__(session, truth, elapsed)
        self._listed: set[str] = set()
        self._opened: set[str] = set()
        self._promoted: set[str] = set()
        self._ranked: set[int] = set()

    def look_outside(self) -> None:
        super().look_outside()
        if problem := self.trees.git.problems or self.trees.problems:
            raise Violation(problem[0])
        for name, made in self.trees.git.commits.items():
            if len(made) > 1:
                raise Violation(f"{name} has {len(made)} commits: {sorted(made)}")

    def _problems(self, record: Recorded) -> Iterator[str]:
        yield from super()._problems(record)
        match record.event:
            case told.DepthListed() as event:
                yield from self._list_ideas(event.ideas)
            case told.IdeaAdded(idea=idea):
                yield from self._list_ideas((idea,))
            case told.EvaluationOpened() as event:
                yield from self._open(event, tree_of(self.shadow))
            case told.EvaluationJudged() as event:
                yield from self._judge(event, tree_of(self.shadow))
            case told.DepthClosed() as event:
                yield from self._close(event, tree_of(self.shadow))
            case told.NodesReady(nodes=nodes):
                refs, known = self.trees.git.refs, tree_of(self.shadow).nodes
                for node in nodes:
                    if refs.get(f"refs/tree/r/{node}") != known[node].commit:
                        yield f"{node} is ready and has no ref"
            case events.WarningRaised(why=reason) if reason.code == "policy_failed":
                yield "the search met a bug"

    def _list_ideas(self, ideas: tuple[Idea, ...]) -> Iterator[str]:
        for idea in ideas:
            if idea.id in self._listed:
                yield f"{idea.id} is listed again"
            self._listed.add(idea.id)

    def _open(self, event: told.EvaluationOpened, tree: Tree) -> Iterator[str]:
        if event.round > 1:
            return
        if event.evaluation in tree.evaluations:
            yield "it was opened before"
        if event.idea is None:
            return
        if event.idea.id in self._opened or event.idea.id not in self._listed:
            yield f"{event.idea.id} was opened before, or never listed"
        self._opened.add(event.idea.id)
        if event.evaluation != f"e{tree.next_evaluation}":
            yield f"its number is not {tree.next_evaluation}"
        if tree.stopped:
            yield "the search had ended"
        most = tree.options.max_total_idea_evals
        if most is not None and tree.opened >= most:
            yield f"{most} evaluations are allowed"
        rounds = [one for one in tree.open if tree.evaluations[one].round == 1]
        if len(rounds) >= tree.options.max_parallel_evals:
            yield f"{rounds} are open, which is as many as may be"

    def _judge(self, event: told.EvaluationJudged, tree: Tree) -> Iterator[str]:
        one = tree.evaluations[event.evaluation]
        if one.judgement is not None:
            yield "it was judged before"
        jobs = [*self._list_jobs(one)]
        if alive := [job.name for job in jobs if not job.ended]:
            yield f"{alive} have not ended"
        reason = event.judgement.why
        if not jobs and (reason is None or reason.code not in _BEFORE_JOBS):
            yield "no job of it has run"
        if not jobs and not self._is_refused(one):
            yield "it is lost: nothing was tried, and nothing refused it"

    def _list_jobs(self, one: Evaluation) -> Iterator[Any]:
        for step in ("implement", "sweep"):
            if job := self.shadow.jobs.get(one.name_job(step)):
                yield job

    def _is_refused(self, one: Evaluation) -> bool:
        return bool(one.ending) or any(
            one.id in name.split() for name in self.shadow.refused_joins
        )

    def _close(self, event: told.DepthClosed, tree: Tree) -> Iterator[str]:
        if tree.waiting or tree.open:
            yield f"{tree.waiting or tree.open} are lost"
        if not tree.stopped and (lost := self._listed - self._opened):
            yield f"{sorted(lost)} were never opened"
        ranked = [one.eval_id for one in event.ranking]
        here = {tree.evaluations[name].number for name in tree.here}
        if len(ranked) != len({*ranked}) or {*ranked} != here:
            yield f"it ranks {ranked}, and {sorted(here)} were evaluated"
        if again := self._ranked & {*ranked}:
            yield f"{again} were ranked before"
        self._ranked |= {*ranked}
        promoted = [f"e{one.eval_id}" for one in event.ranking if one.promoted]
        for name in promoted:
            if name in self._promoted:
                yield f"{name} is promoted again"
            self._promoted.add(name)
        first = tree.next_node
        numbers = range(first, first + len(promoted))
        if event.nodes != tuple(f"n{number}" for number in numbers):
            yield f"{promoted} become {event.nodes}"

    def check_end(self, tree: Tree) -> None:
        """What is there when a search is over; raises Violation."""
        git, options = self.trees.git, tree.options
        if problem := git.find_intrusion():
            raise Violation(problem)
        if open_ := [one.id for one in tree.evaluations.values() if not one.judgement]:
            raise Violation(f"{open_} were never judged")
        if tree.is_broken:
            return
        refs = {f"refs/tree/r/{node.id}": node.commit for node in tree.nodes.values()}
        found = {
            name: at
            for name, at in git.refs.items()
            if name.startswith(OURS) and at != FOREIGN
        }
        left = {one.path for one in tree.leftovers.values()}
        if {name: at for name, at in found.items() if name not in left} != refs:
            raise Violation(f"the refs are {found}, and are to be {refs}")
        nodes = {f"wt/{name[1:]}" for name in tree.nodes}
        if git.list_worktrees() - left != nodes:
            raise Violation(f"there are {git.list_worktrees()}, and are to be {nodes}")
        if self.trees.search != (wanted := list_search(tree, options)):
            raise Violation(
                f"manifest.json is not the end: {differ(self.trees.search, wanted)}"
            )


def differ(one: Any, other: Any, where: str = "") -> str:
    """The first place where two trees of plain data differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if one.get(key) != other.get(key):
                return differ(one.get(key), other.get(key), f"{where}.{key}")
    return f"{where} is {one!r} and {other!r}"
