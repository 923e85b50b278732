"""What a person may order of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoexp_tui.actions.orders import emit_order
from autoexp_tui.events.session import CommandRefused
from autoexp_tui.model.commands import Command
from autoexp_tui.model.states import why
from autoexp_tui.tree import effects, events
from autoexp_tui.tree.ranking import Mark
from autoexp_tui.tree.state import Evaluation, Idea, find_tree

if TYPE_CHECKING:
    from autoexp_tui.model.commands import Order
    from autoexp_tui.model.decision_context import DecisionContext


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkEvaluation(Command, kind="mark_evaluation", is_personal=True):
    """Promote or reject an evaluation of the present depth by hand; None: neither."""

    evaluation: str
    choice: Literal["promote", "reject"] | None
    reason: str = ""

    def handle(self, context: DecisionContext, order: Order) -> None:
        found = _find_evaluation(context, self.evaluation)
        if found is None:
            return
        if self.evaluation not in _list_here(context):
            _refuse(context, f"the depth of {self.evaluation} is closed")
        elif (
            self.choice == "promote" and found.judgement and not found.judgement.commit
        ):
            _refuse(context, f"{self.evaluation} has no commit to promote")
        else:
            mark = self.choice and Mark(
                choice=self.choice, by=order.by, reason=self.reason
            )
            context.draft.emit(
                events.EvaluationMarked(evaluation=self.evaluation, mark=mark or None)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvaluation(Command, kind="end_evaluation", is_personal=True):
    """End an evaluation that is under way; it has no result."""

    evaluation: str

    def handle(self, context: DecisionContext, order: Order) -> None:
        found = _find_evaluation(context, self.evaluation)
        if found is not None and found.judgement is not None:
            _refuse(context, f"{self.evaluation} has ended")
        elif found is not None and not found.ending:
            context.draft.emit(
                events.EvaluationStopped(
                    evaluation=self.evaluation, why=why("ended_by_hand"), by=order.by
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddIdea(Command, kind="add_idea", is_personal=True):
    """Try an idea of a person's on a node; its text lies in `node_ideas/<node>/`."""

    idea: Idea

    def handle(self, context: DecisionContext, order: Order) -> None:
        if problem := effects.find_objection(find_tree(context.state), self.idea):
            _refuse(context, problem)
        else:
            context.draft.emit(events.IdeaAdded(idea=self.idea))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIdea(Command, kind="propose_idea", is_personal=True):
    """Write a person's idea to `node_ideas/<node>/`, and try it."""

    node: str
    text: str
    """Markdown; its first heading is the title."""

    def handle(self, context: DecisionContext, order: Order) -> None:
        if problem := effects.find_objection(find_tree(context.state), self.node):
            _refuse(context, problem)
        else:
            write = effects.WriteIdea(node=self.node, text=self.text, by=order.by)
            emit_order(context, write)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvaluation(Command, kind="retry_evaluation", is_personal=True):
    """Try an idea of the present depth again that came to no results. It is opened at
    once, beside those that are open, under its number and in the next round."""

    evaluation: str
    anyway: bool = False
    """Also one that has results."""

    def handle(self, context: DecisionContext, order: Order) -> None:
        found, tree = (
            _find_evaluation(context, self.evaluation),
            find_tree(context.state),
        )
        if found is None or tree is None:
            return
        name, judged = self.evaluation, found.judgement
        if tree.stopped:
            _refuse(context, "the search has ended")
        elif name not in tree.here:
            _refuse(context, f"the depth of {name} is closed")
        elif judged is None:
            _refuse(context, f"{name} has not ended")
        elif judged.outcome == "scored" and not self.anyway:
            _refuse(context, f"{name} has results")
        else:
            opened = events.EvaluationOpened(
                evaluation=name,
                node=found.node,
                idea=found.idea,
                round=found.round + 1,
            )
            context.draft.emit(opened)
            pack = effects.WritePack(node=found.node, evaluation=name)
            emit_order(context, pack)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRetry(Command, kind="grant_retry", is_personal=True):
    """Let the jobs of an evaluation that is open be tried once more than
    `eval_retries` says, where their end is not its own."""

    evaluation: str

    def handle(self, context: DecisionContext, order: Order) -> None:
        found = _find_evaluation(context, self.evaluation)
        if found is not None and found.judgement is not None:
            _refuse(context, f"{self.evaluation} has ended")
        elif found is not None:
            granted = events.RetryGranted(evaluation=self.evaluation, by=order.by)
            context.draft.emit(granted)


def _find_evaluation(context: DecisionContext, name: str) -> Evaluation | None:
    tree = find_tree(context.state)
    found = tree.evaluations.get(name) if tree else None
    if found is None:
        _refuse(context, f"there is no evaluation {name}")
    return found


def _list_here(context: DecisionContext) -> tuple[str, ...]:
    tree = find_tree(context.state)
    return tree.here if tree else ()


def _refuse(context: DecisionContext, text: str) -> None:
    context.draft.emit(CommandRefused(why=why("notice", text=text)))
