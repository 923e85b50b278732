"""Events of a search. What was decided is here, whole: a replay never decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from autoexp_tui.model.event import Event, Headline, Recorded, join_parts
from autoexp_tui.model.state import SessionState, changed
from autoexp_tui.model.states import Topic, Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import plural
from autoexp_tui.tree.options import read_options
from autoexp_tui.tree.state import (
    BASELINE,
    PART,
    ROOT,
    Artifact,
    DepthRecord,
    Evaluation,
    Idea,
    Judgement,
    Leftover,
    Mark,
    Node,
    Ranked,
    SkippedIdea,
    Tree,
    tree_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfTree(Event):
    topic: ClassVar[Topic] = "state"
    matters: ClassVar[bool] = True


def _change(state: SessionState, evaluation: str, **changes: Any) -> None:
    known = tree_of(state).evaluations
    known[evaluation] = changed(known[evaluation], in_place=state.unseen, **changes)


def _change_node(state: SessionState, node: str, **changes: Any) -> None:
    known = tree_of(state).nodes
    known[node] = changed(known[node], in_place=state.unseen, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeBegun(_OfTree, verb="search began", about=("run",)):
    """Somebody started the search of the session's plan."""

    run: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        assert state.base is not None, "a search belongs to a plan"
        assert state.base.tree, "which has a section for it"
        state.parts[PART] = Tree(self.run, read_options(state.base.tree))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOpened(_OfTree, verb="repository opened", about=("root_commit",)):
    """The repository is as it has to be; the root has its ref and its worktree."""

    root_commit: str
    directory: str
    """Absolute: where the search keeps its files."""
    python: str
    """What runs the steps of its evaluations."""
    baseline: Artifact | None = None
    """None: the root is measured as an evaluation."""
    sweep: tuple[str, ...] = ()
    """The jobs that measure a candidate, as its plan calls them; empty: a command."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.root_commit, tree.directory = self.root_commit, self.directory
        tree.python, tree.sweep = self.python, self.sweep
        tree.nodes[ROOT] = Node(
            id=ROOT,
            depth=0,
            commit=self.root_commit,
            baseline=self.baseline,
            ready=True,
            created_at=record.t,
        )
        tree.frontier = (ROOT,)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeasFound(_OfTree):
    """What was proposed for a node, in the order of the files' names."""

    node: str
    ideas: tuple[Idea, ...]
    problem: str = ""
    """Why there are none, or fewer."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        _change_node(state, self.node, ideas=self.ideas, ideas_problem=self.problem)

    def format_headline(self, now: float) -> Headline:
        found = f"{self.node}: {plural(len(self.ideas), 'idea')}"
        return Headline("ideas found", join_parts(found, self.problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWritten(_OfTree, verb="context written", about=("node",)):
    """What is told to whoever proposes ideas for a node."""

    matters: ClassVar[bool] = False
    node: str
    sha256: str
    files: tuple[tuple[str, str], ...]
    """Path and sha256 of each idea in it, in its order."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        _change_node(state, self.node, context_sha256=self.sha256, context=self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsWritten(_OfTree, verb="manifest written"):
    """The files show the search as it was when they were ordered."""

    matters: ClassVar[bool] = False
    stamp: tuple[int, ...]

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.shown, tree.shown_lived = self.stamp, state.lived


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthListed(_OfTree):
    """All nodes of a depth have ideas: which are tried, and in what order."""

    depth: int
    ideas: tuple[Idea, ...]
    skipped: tuple[SkippedIdea, ...] = ()

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.waiting, tree.is_listed = self.ideas, True
        tree.skipped += self.skipped
        _admit_added(state)

    def format_headline(self, now: float) -> Headline:
        repeats = f"{plural(len(self.skipped), 'repeat')}" if self.skipped else ""
        tried = f"depth {self.depth}: {plural(len(self.ideas), 'idea')}"
        return Headline("ideas listed", join_parts(tried, repeats))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOpened(_OfTree):
    """An idea has its number; its jobs are to join."""

    evaluation: str
    node: str
    idea: Idea | None = None
    round: int = 1

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree, idea = tree_of(state), self.idea
        tree.evaluations[self.evaluation] = Evaluation(
            id=self.evaluation,
            node=self.node,
            depth=tree.depth,
            idea=idea,
            opened_lived=state.lived,
            opened_at=record.t,
            round=self.round,
        )
        tree.open = (*tree.open, self.evaluation)
        if idea is None or self.round > 1:
            return
        tree.here = (*tree.here, self.evaluation)
        if tree.waiting[:1] == (idea,):
            tree.waiting = tree.waiting[1:]
        tree.next_evaluation = max(tree.next_evaluation, int(self.evaluation[1:]) + 1)
        tree.opened += 1

    def format_headline(self, now: float) -> Headline:
        title = self.idea.title if self.idea else "measures the root"
        return Headline("evaluation", f"{self.evaluation} on {self.node}: {title}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRetried(_OfTree, verb="evaluation again", about=("evaluation",)):
    """Its jobs are tried again: their end was not its own."""

    evaluation: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        known = tree_of(state).evaluations[self.evaluation]
        _change(state, self.evaluation, retries=known.retries + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryGranted(_OfTree, verb="retry granted", about=("evaluation", "by")):
    """A person lets its jobs be tried once more than the options say."""

    evaluation: str
    by: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        known = tree_of(state).evaluations[self.evaluation]
        _change(state, self.evaluation, retries=known.retries - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationStopped(
    _OfTree, verb="evaluation is ended", about=("evaluation", "why", "by")
):
    """Its jobs are ended; it is judged once they have."""

    evaluation: str
    why: Why
    by: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        _change(state, self.evaluation, ending=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationJudged(_OfTree):
    """An evaluation is over, with all that its decision rests on."""

    is_progress: ClassVar[bool] = True
    evaluation: str
    judgement: Judgement

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        _change(state, self.evaluation, judgement=self.judgement)
        tree.open = tuple(one for one in tree.open if one != self.evaluation)
        known = tree.evaluations[self.evaluation]
        if known.id == BASELINE and self.judgement.artifact is not None:
            _change_node(state, known.node, baseline=self.judgement.artifact)

    def format_headline(self, now: float) -> Headline:
        reason = self.judgement.reason
        about = sentence(reason, now) if reason else "measured"
        return Headline("evaluated", f"{self.evaluation}: {about}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthClosed(_OfTree):
    """All evaluations of a depth have ended: their ranking, and who goes on."""

    is_progress: ClassVar[bool] = True
    depth: int
    ranking: tuple[Ranked, ...]
    nodes: tuple[str, ...]
    """Of those that are promoted, in the ranking's order."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        closed = DepthRecord(
            depth=self.depth,
            expanded=tree.frontier,
            ranking=self.ranking,
            nodes=self.nodes,
        )
        tree.closed = (*tree.closed, closed)
        for evaluation, node in closed.list_promoted():
            tree.nodes[node] = _promote(tree, evaluation, node, record.t)
        for one in tree.list_here():
            tried = tree.tried.get(one.node, ())
            if one.idea is not None and one.id not in tried:
                tree.tried[one.node] = (*tried, one.id)
            if one.judgement and one.judgement.diff_sha256:
                mine, known = {one.judgement.diff_sha256: one.id}, tree.changes
                known[one.node] = {**mine, **known.get(one.node, {})}
        tree.next_node += len(self.nodes)
        tree.depth = self.depth + 1
        if self.nodes or tree.options.stop_on_empty_frontier:
            tree.frontier = self.nodes
        else:
            for name in tree.frontier:
                expanded = tree.nodes[name]
                earlier, again = expanded.list_ideas(), expanded.round + 1
                _change_node(state, name, ideas=None, earlier=earlier, round=again)
        tree.here, tree.waiting, tree.is_listed = (), (), False

    def format_headline(self, now: float) -> Headline:
        promoted = (one.name for one in self.ranking if one.promoted)
        pairs = zip(promoted, self.nodes, strict=True)
        kept = ", ".join(f"{one} is {node}" for one, node in pairs) or "none"
        return Headline("depth closed", f"{self.depth}: {kept}")


def _promote(tree: Tree, name: str, node: str, t: float) -> Node:
    evaluation = tree.evaluations[name]
    parent, judged = tree.nodes[evaluation.node], evaluation.judgement
    assert judged is not None, "it was ranked"
    assert evaluation.idea is not None, "the root is not ranked"
    return Node(
        id=node,
        depth=parent.depth + 1,
        commit=judged.commit,
        parent=parent.id,
        evaluation=evaluation.id,
        baseline=judged.artifact,
        chain=(*parent.chain, evaluation.idea),
        created_at=t,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReady(_OfTree, verb="nodes ready", about=("nodes",)):
    """Promoted nodes have refs and worktrees; the other candidates of the depth have
    none any more, as far as they could be removed."""

    matters: ClassVar[bool] = False
    nodes: tuple[str, ...]

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree_of(state).pruned += 1
        for node in self.nodes:
            _change_node(state, node, ready=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationMarked(_OfTree):
    """A person promotes or rejects an evaluation, whatever its numbers say."""

    evaluation: str
    mark: Mark | None

    def apply(self, state: SessionState, record: Recorded) -> None:
        _change(state, self.evaluation, mark=self.mark)

    def format_headline(self, now: float) -> Headline:
        if self.mark is None:
            return Headline("mark taken away", self.evaluation)
        about = f"{self.evaluation}: {self.mark.choice}"
        by = f"by {self.mark.by}" if self.mark.by else ""
        return Headline("marked", join_parts(about, by, self.mark.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaAdded(_OfTree):
    """A person adds an idea to a node; one that is no node of the beam becomes one of
    the present depth. While the ideas of the depth are sought it waits for them."""

    idea: Idea

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.added = (*tree.added, self.idea)
        if tree.is_listed:
            _admit_added(state)

    def format_headline(self, now: float) -> Headline:
        about = f"{self.idea.node}: {self.idea.title}"
        by = f"by {self.idea.by}" if self.idea.by else ""
        return Headline("idea added", join_parts(about, by))


def _admit_added(state: SessionState) -> None:
    """Let what a person added be tried, behind what was proposed."""
    tree = tree_of(state)
    for idea in tree.added:
        if idea.node not in tree.frontier:
            tree.frontier = (*tree.frontier, idea.node)
        known = tree.nodes[idea.node].ideas or ()
        _change_node(state, idea.node, ideas=(*known, idea))
    tree.waiting, tree.added = (*tree.waiting, *tree.added), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupDeferred(_OfTree):
    """What could not be removed, and is tried again; or what was at last."""

    left: tuple[Leftover, ...] = ()
    removed: tuple[str, ...] = ()

    def apply(self, state: SessionState, record: Recorded) -> None:
        leftovers = tree_of(state).leftovers
        for path in self.removed:
            leftovers.pop(path, None)
        for one in self.left:
            before = leftovers.get(one.path)
            attempts = before.attempts + 1 if before else 1
            again = record.t + 2 ** (attempts - 1)
            leftovers[one.path] = replace(one, attempts=attempts, next_retry_at=again)

    def format_headline(self, now: float) -> Headline:
        left = ", ".join(f"{one.path}: {one.reason}" for one in self.left)
        return Headline("cleanup put off" if self.left else "cleaned up", left)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthHeld(_OfTree, verb="search paused"):
    """Evaluations failed so that a person is asked whether the depth goes on."""

    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree_of(state).held = self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthResumed(_OfTree, verb="search goes on", about=("depth",)):
    """A depth goes on whatever fails in it."""

    depth: int

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.held, tree.excused = None, self.depth


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsPaused(_OfTree, verb="agents wait", about=("what", "why")):
    """The service of an agent cannot be used: a call of `what` is tried again once it
    can, and nothing that needs one begins before."""

    is_progress: ClassVar[bool] = True
    what: str
    """An evaluation, or a node that wants ideas."""
    why: Why
    resume_at: float
    costs: bool
    """Whether it counts among the further attempts of an evaluation."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.resume_at = max(tree.resume_at, self.resume_at)
        tree.agents_wait = self.why
        tree.blocked = (*tree.blocked, self.what)
        if known := tree.evaluations.get(self.what):
            retries = known.retries + self.costs
            _change(state, self.what, retries=retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsResumed(_OfTree, verb="agents are called again"):
    """The time of the pause is over."""

    is_progress: ClassVar[bool] = True

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.agents_wait, tree.resume_at, tree.blocked = None, 0.0, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStopped(_OfTree, verb="search ended"):
    """Nothing more is opened."""

    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        tree = tree_of(state)
        tree.stopped, tree.held = self.why, None
        tree.waiting, tree.added = (), ()
