"""Orders of a search to the outside, all of which may be done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from autoexp_tui.actions.orders import emit_order
from autoexp_tui.effects.effects import (
    PATIENCE_SECONDS,
    AdapterEffect,
    Call,
    find_resumption,
)
from autoexp_tui.events.session import MessageLogged
from autoexp_tui.model.states import Why, why
from autoexp_tui.tree import events
from autoexp_tui.tree.ideas import cut_ideas
from autoexp_tui.tree.jobs import build_evaluation_jobs, build_idea_job, list_job_names
from autoexp_tui.tree.ports import (
    ADAPTER,
    CollectRequest,
    GitWork,
    Packed,
    PackRequest,
    Proposed,
    Trees,
)
from autoexp_tui.tree.state import (
    PART,
    ROOT,
    Evaluation,
    Idea,
    Judgement,
    Leftover,
    Node,
    Tree,
    tree_of,
)

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.state import SessionState


class _OfTree(AdapterEffect):
    """An order that goes to `Trees`."""

    __slots__ = ()
    adapter: ClassVar[str] = ADAPTER

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        context.draft.emit(events.TreeStopped(why=why("tree_broken", problem=problem)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTree(_OfTree, kind="open_tree"):
    """Check the repository and make the root."""

    run: str

    def name_object(self) -> str:
        return self.run

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        return partial(trees.open, self.run, tree_of(state).options)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, tuple)
        opened, notes = value
        for note in notes:
            context.draft.emit(MessageLogged(text=note, level="warning"))
        context.draft.emit(opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePack(_OfTree, kind="write_pack"):
    """Write the prompt and the request of a call, then have its jobs join."""

    node: str
    evaluation: str = ""
    """Empty: ideas are wanted for the node."""
    patience_seconds: ClassVar[float] = PATIENCE_SECONDS

    def name_object(self) -> str:
        return self.evaluation or self.node

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        return partial(trees.write_pack, build_pack(state, self))

    def describe_value(self, value: object) -> str:
        return value.sha256 if isinstance(value, Packed) else ""

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, Packed)
        tree, state = tree_of(context.state), context.state
        asker: Evaluation | Node = tree.nodes[self.node]
        if evaluation := tree.evaluations.get(self.evaluation):
            asker = evaluation
            jobs = build_evaluation_jobs(state, evaluation, value.jobs)
        else:
            written = events.ContextWritten(
                node=self.node, sha256=value.sha256, files=value.files
            )
            context.draft.emit(written)
            jobs = (build_idea_job(state, tree.nodes[self.node]),)
        context.add_jobs(PART, asker.asker, jobs)

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        emit = context.draft.emit
        if self.evaluation:
            failed = make_failure("not_prepared", problem)
            emit(events.EvaluationJudged(evaluation=self.evaluation, judgement=failed))
        else:
            emit(events.IdeasFound(node=self.node, ideas=(), problem=problem))


def open_evaluation(
    context: DecisionContext, name: str, node: str, idea: Idea | None, number: int = 1
) -> None:
    """Open an idea on a node, or the root's measurement; `number`: of the round."""
    opened = events.EvaluationOpened(
        evaluation=name, node=node, idea=idea, round=number
    )
    context.draft.emit(opened)
    emit_order(context, WritePack(node=node, evaluation=name))


def make_failure(code: str, problem: str) -> Judgement:
    return Judgement(outcome="failed", why=why(code, problem=problem))


def build_pack(state: SessionState, effect: WritePack) -> PackRequest:
    """What a call is told; depths that are not closed are left out of it. A call for
    ideas costs what the node's chain holds, unless all of the search is asked for."""
    tree, node = tree_of(state), tree_of(state).nodes[effect.node]
    known, above = list[Node](), list[Node]()
    if not effect.evaluation:
        known = tree.list_context(node.id)
        _, *above = tree.list_ancestors(node.id)
    made = tree.evaluations.get(node.evaluation)
    return PackRequest(
        root_commit=tree.root_commit,
        node=node,
        ancestors=tuple(above),
        siblings=_list_tried(tree, above[:1]),
        tried=_list_tried(tree, known),
        ideas_dirs=tuple(
            f"node_ideas/{at}" for one in known for at in one.ideas_places
        ),
        comparison=made.judgement.root if made and made.judgement else None,
        evaluation=tree.evaluations.get(effect.evaluation),
        known_diffs=tree.list_made_changes(node.id),
    )


def _list_tried(tree: Tree, nodes: Sequence[Node]) -> tuple[Evaluation, ...]:
    """The evaluations of nodes, of depths that are closed: what runs beside another
    must not change its end."""
    names = (name for node in nodes for name in tree.tried.get(node.id, ()))
    return tuple(tree.evaluations[name] for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadIdeas(_OfTree, kind="read_ideas"):
    """See what was proposed for a node."""

    node: str
    problem: str = ""
    """Why its call ended without having done all."""

    def name_object(self) -> str:
        return self.node

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        return partial(trees.read_ideas, tree_of(state).nodes[self.node])

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, Proposed)
        tree = tree_of(context.state)
        node = tree.nodes[self.node]
        job = context.state.jobs.get(node.ideas_job)
        used = len(job.attempts) - 1 if job else 0
        if self.problem and _take_fault(context, self.node, value, used):
            return
        problem = value.problem or self.problem
        tried = {
            idea.sha256 for at in tree.list_scope(node) for idea in at.list_ideas()
        }
        ideas = cut_ideas(value.ideas, tried, tree.options.ideas_per_node)
        found = events.IdeasFound(node=self.node, ideas=ideas, problem=problem)
        context.draft.emit(found)

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        context.draft.emit(events.IdeasFound(node=self.node, ideas=(), problem=problem))


def _take_fault(
    context: DecisionContext, about: str, fault: Proposed, used: int
) -> bool:
    """Whether the call is tried again: for as long as there is a rate limit, which ends
    by itself; as often as an evaluation may be for a service that is away. A login that
    is refused stops the search: every call would meet it."""
    tree = tree_of(context.state)
    if fault.code == "agent_auth_error" and not tree.stopped:
        reason = why("agent_login", problem=fault.problem)
        context.draft.emit(events.TreeStopped(why=reason))
    is_away = fault.code == "agent_unavailable"
    if fault.code != "agent_rate_limit" and not is_away:
        return False
    if is_away and used >= tree.options.eval_retries:
        return False
    until = find_resumption(context.now, fault.resume_at)
    reason = why("agents_wait", at=until, problem=fault.problem)
    context.draft.emit(
        events.AgentsPaused(what=about, why=reason, resume_at=until, costs=is_away)
    )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIdea(_OfTree, kind="write_idea"):
    """Write a person's idea where those of its node lie; then it is tried."""

    node: str
    text: str
    by: str = ""

    def name_object(self) -> str:
        return self.node

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        return partial(trees.write_idea, self.node, self.text)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, Idea)
        idea = replace(value, by=self.by)
        # The depth may have been closed while it was written.
        if problem := find_objection(tree_of(context.state), idea):
            self.take_failure(context, problem)
        else:
            context.draft.emit(events.IdeaAdded(idea=idea))

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        told = f"the idea for {self.node} is not tried: {problem}"
        context.draft.emit(MessageLogged(text=told, level="warning"))


def find_objection(tree: Tree, idea: Idea | str) -> str:
    """Why an idea, or one for a node of that name, cannot be tried; empty: it can."""
    node = idea if isinstance(idea, str) else idea.node
    if node not in tree.nodes:
        return f"there is no node {node}"
    if tree.stopped:
        return "the search has ended"
    known = (*tree.nodes[node].list_ideas(), *tree.added)
    if isinstance(idea, Idea) and any(one.id == idea.id for one in known):
        return f"{idea.id} is there"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectResult(_OfTree, kind="collect_result"):
    """Take in what the jobs of an evaluation left, and judge it."""

    evaluation: str
    ending: Why | None = None
    patience_seconds: ClassVar[float] = PATIENCE_SECONDS

    def name_object(self) -> str:
        return self.evaluation

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        tree = tree_of(state)
        evaluation = tree.evaluations[self.evaluation]
        request = CollectRequest(
            evaluation=evaluation,
            node=tree.nodes[evaluation.node],
            root=tree.nodes[ROOT],
            ending=self.ending,
            standard_error=tree.measure_error(),
            jobs={
                name: state.jobs[name]
                for name in list_job_names(tree, evaluation)
                if tree.sweep and name in state.jobs
            },
        )
        return partial(trees.collect, request)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, Judgement)
        known = tree_of(context.state).evaluations[self.evaluation]
        names = list_job_names(tree_of(context.state), known)
        jobs = map(context.state.jobs.get, names)
        if not all(job is None or job.ended for job in jobs):
            return  # a person had one of them run again meanwhile
        if value.why is not None and not known.ending:
            code, problem = (str(value.why.arg(name)) for name in ("code", "problem"))
            fault = Proposed(code=code, problem=problem, resume_at=value.resume_at)
            if _take_fault(context, self.evaluation, fault, known.retries):
                return
        context.draft.emit(
            events.EvaluationJudged(evaluation=self.evaluation, judgement=value)
        )

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        self.take(context, make_failure("not_collected", problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInGit(_OfTree, kind="work_in_git"):
    """Give promoted nodes their refs and worktrees; remove those of candidates."""

    nodes: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    leftovers_only: bool = False
    patience_seconds: ClassVar[float] = PATIENCE_SECONDS

    def name_object(self) -> str:
        return ", ".join((*self.nodes, *self.rejected, *self.leftovers))

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        tree = tree_of(state)
        work = GitWork(
            nodes=tuple(tree.nodes[node] for node in self.nodes),
            rejected=self.rejected,
            failed=tuple(filter(tree.has_failed, self.rejected)),
            leftovers=tuple(
                tree.leftovers[one] for one in self.leftovers if one in tree.leftovers
            ),
        )
        return partial(trees.work, work)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, list | tuple)
        left = tuple(one for one in value if isinstance(one, Leftover))
        still = {one.path for one in left}
        removed = tuple(path for path in self.leftovers if path not in still)
        if not self.leftovers_only:
            context.draft.emit(events.NodesReady(nodes=self.nodes))
        if left or removed:
            context.draft.emit(events.CleanupDeferred(left=left, removed=removed))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteViews(_OfTree, kind="write_views"):
    """Write manifest.json and TREE_SUMMARY.md."""

    stamp: tuple[int, ...] = ()
    """Of the search, as it is to be shown."""

    def name_object(self) -> str:
        return "manifest.json"

    def build_call(self, trees: Trees, state: SessionState) -> Call:
        engine = {
            "as_of_seq": state.seq,
            "host": state.engine_host,
            "take_overs": max(0, state.epoch - 1),
        }
        return partial(trees.write_views, tree_of(state).fork(), engine)

    def take(self, context: DecisionContext, value: object) -> None:
        context.draft.emit(events.ViewsWritten(stamp=self.stamp))

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        text = f"manifest.json: {problem}"
        context.draft.emit(MessageLogged(text=text, level="warning"))
        self.take(context, None)  # what comes next is written again
