"""What a person may order of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from autoexp_tui.actions.orders import emit_order
from autoexp_tui.actions.policy_commands import OrderRefused, PolicyCommand
from autoexp_tui.model.states import why
from autoexp_tui.tree import effects, events
from autoexp_tui.tree.state import PART, Evaluation, Idea, Mark, Tree

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext


def _require_evaluation(tree: Tree, name: str, *, is_here: bool = False) -> Evaluation:
    if name not in tree.evaluations:
        raise OrderRefused(f"there is no evaluation {name}")
    if is_here and name not in tree.here:
        raise OrderRefused(f"the depth of {name} is closed")
    return tree.evaluations[name]


def _require_open(tree: Tree, name: str) -> Evaluation:
    one = _require_evaluation(tree, name)
    if one.judgement is not None:
        raise OrderRefused(f"{name} has ended")
    return one


class _OfTree(PolicyCommand):
    __slots__ = ()
    part: ClassVar[str] = PART
    absent: ClassVar[str] = "there is no search"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkEvaluation(_OfTree, kind="mark_evaluation"):
    """Promote or reject an evaluation of the present depth by hand; None: neither."""

    evaluation: str
    choice: Literal["promote", "reject"] | None
    reason: str = ""

    def change(self, context: DecisionContext, tree: Tree, by: str) -> None:
        one = _require_evaluation(tree, self.evaluation, is_here=True)
        if self.choice == "promote" and one.judgement and not one.judgement.commit:
            raise OrderRefused(f"{one.id} has no commit to promote")
        choice = self.choice
        mark = Mark(choice=choice, by=by, reason=self.reason) if choice else None
        context.draft.emit(events.EvaluationMarked(evaluation=one.id, mark=mark))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvaluation(_OfTree, kind="end_evaluation"):
    """End an evaluation that is under way; it has no result."""

    evaluation: str

    def change(self, context: DecisionContext, tree: Tree, by: str) -> None:
        if not _require_open(tree, self.evaluation).ending:
            ended, reason = events.EvaluationStopped, why("ended_by_hand")
            context.draft.emit(ended(evaluation=self.evaluation, why=reason, by=by))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddIdea(_OfTree, kind="add_idea"):
    """Try an idea of a person's on a node; its text lies in `node_ideas/<node>/`."""

    idea: Idea

    def change(self, context: DecisionContext, tree: Tree, by: str) -> None:
        if problem := effects.find_objection(tree, self.idea):
            raise OrderRefused(problem)
        context.draft.emit(events.IdeaAdded(idea=self.idea))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIdea(_OfTree, kind="propose_idea"):
    """Write a person's idea to `node_ideas/<node>/`, and try it."""

    node: str
    text: str
    """Markdown; its first heading is the title."""

    def change(self, context: DecisionContext, tree: Tree, by: str) -> None:
        if problem := effects.find_objection(tree, self.node):
            raise OrderRefused(problem)
        write = effects.WriteIdea(node=self.node, text=self.text, by=by)
        emit_order(context, write)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvaluation(_OfTree, kind="retry_evaluation"):
    """Try an idea of the present depth again that came to no results. It is opened at
    once, beside those that are open, under its number and in the next round."""

    evaluation: str
    anyway: bool = False
    """Also one that has results."""

    def change(self, context: DecisionContext, tree: Tree, by: str) -> None:
        if tree.stopped:
            raise OrderRefused("the search has ended")
        one = _require_evaluation(tree, self.evaluation, is_here=True)
        if one.judgement is None:
            raise OrderRefused(f"{one.id} has not ended")
        if one.judgement.outcome == "scored" and not self.anyway:
            raise OrderRefused(f"{one.id} has results")
        effects.open_evaluation(context, one.id, one.node, one.idea, one.round + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRetry(_OfTree, kind="grant_retry"):
    """Let the jobs of an evaluation that is open be tried once more than
    `eval_retries` says, where their end is not its own."""

    evaluation: str

    def change(self, context: DecisionContext, tree: Tree, by: str) -> None:
        _require_open(tree, self.evaluation)
        context.draft.emit(events.RetryGranted(evaluation=self.evaluation, by=by))
