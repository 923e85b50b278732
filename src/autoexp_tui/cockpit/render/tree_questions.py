"""What the dialogs of a search ask: marks, ideas, ends and further tries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from autoexp_tui.cockpit.render.questions import Choice, Question
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.model.commands import Command
from autoexp_tui.tree.commands import (
    EndEvaluation,
    MarkEvaluation,
    ProposeIdea,
    RetryEvaluation,
)
from autoexp_tui.tree.state import Evaluation, Node

_WORDS: Final = {
    "promote": "It takes its place in the beam whatever gate and width say.",
    "reject": "It is out of the beam, however good its numbers are.",
}


def _ask_mark(choice: Literal["promote", "reject"], one: Evaluation) -> Question:
    """A mark that is there can be taken away."""
    choices = [Choice(choice, f"{choice} {one.id}", asks="reason")]
    if one.mark is not None:
        choices.append(Choice("", f"take the mark away: {one.mark.choice}"))

    def build(chosen: Choice, text: str) -> Command:
        if not chosen.id:
            return MarkEvaluation(evaluation=one.id, choice=None)
        return MarkEvaluation(evaluation=one.id, choice=choice, reason=text.strip())

    return Question(
        title=f"{choice.capitalize()} {one.id}?",
        lines=(_name_idea(one), line(_WORDS[choice])),
        stay="Leave it",
        confirm="mark it",
        choices=tuple(choices),
        build=build,
    )


def _ask_end(one: Evaluation) -> Question:
    """A countdown follows."""
    told = "Its steps are ended with all their processes. It has no result."
    return Question(
        title=f"End {one.id}?",
        lines=(_name_idea(one), line(told)),
        stay="Keep running",
        confirm="end it",
        danger=True,
        subject=one.id,
        choices=(Choice("end", f"end {one.id}"),),
        build=lambda *_: EndEvaluation(evaluation=one.id),
    )


def _ask_retry(one: Evaluation) -> Question:
    told = f"Round {one.round + 1}: it is implemented and measured anew, at once."
    return Question(
        title=f"Try {one.id} again?",
        lines=(_name_idea(one), line(told)),
        stay="Leave it",
        confirm="try it again",
        choices=(Choice("retry", f"try {one.id} again"),),
        build=lambda *_: RetryEvaluation(evaluation=one.id),
    )


ASKED: Final[Mapping[str, Callable[[Evaluation], Question]]] = {
    "approve": partial(_ask_mark, "promote"),
    "reject": partial(_ask_mark, "reject"),
    "end": _ask_end,
    "retry": _ask_retry,
}
"""What a verb asks of an evaluation."""


def ask_idea(node: Node) -> Question:
    """What I and B ask: an idea for a node."""
    of = f", made of {node.evaluation}" if node.evaluation else ", the root"
    chain = [line(Span(f"  {outside(one.title)}", "muted")) for one in node.chain]
    told = f"It is tried on {node.id}{of}, behind the other ideas of the depth."
    return Question(
        title=f"Add an idea to {node.id}?",
        lines=(line(told), *chain),
        stay="Add none",
        confirm="add it",
        choices=(Choice("idea", "an idea", asks="title: what to do and why"),),
        build=lambda _, text: ProposeIdea(node=node.id, text=format_idea(text)),
    )


def format_idea(text: str) -> str:
    """`title: what to do` as markdown; without a colon the whole is title and text."""
    title, colon, rest = text.strip().partition(": ")
    return f"# {title}\n\n{rest.strip() if colon else title}\n"


def _name_idea(one: Evaluation) -> Line:
    return line(Span(outside(one.idea.title if one.idea else "the root"), "strong"))
