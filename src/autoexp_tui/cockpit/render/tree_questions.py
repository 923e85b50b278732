"""What the dialogs of a search ask: marks, ideas, ends and further tries."""

from __future__ import annotations

from collections.abc import Mapping
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

_MARKS: Final[Mapping[str, Literal["promote", "reject"]]] = {
    "approve": "promote",
    "reject": "reject",
}
_ASKED: Final = {
    "approve": (
        "promote {}",
        "It takes its place in the beam whatever gate and width say.",
        ("Leave it", "mark it"),
    ),
    "reject": (
        "reject {}",
        "It is out of the beam, however good its numbers are.",
        ("Leave it", "mark it"),
    ),
    "end": (
        "end {}",
        "Its steps are ended with all their processes. It has no result.",
        ("Keep running", "end it"),
    ),
    "retry": (
        "try {} again",
        "Round {}: it is implemented and measured anew, at once.",
        ("Leave it", "try it again"),
    ),
}
"""By the verb: what is done, what comes of it, and the two answers."""


def ask_about(verb: str, one: Evaluation) -> Question:
    """What a verb asks of an evaluation. A mark that is there can be taken away; before
    an end a countdown follows."""
    what, told, (stay, confirm) = _ASKED[verb]
    what, is_mark = what.format(one.id), verb in _MARKS
    choices = [Choice(verb, what, asks="reason" if is_mark else "")]
    if one.mark is not None and is_mark:
        choices.append(Choice("", f"take the mark away: {one.mark.choice}"))

    def build(chosen: Choice, text: str) -> Command:
        if verb == "end":
            return EndEvaluation(evaluation=one.id)
        if verb == "retry":
            return RetryEvaluation(evaluation=one.id)
        choice, reason = (_MARKS[verb], text.strip()) if chosen.id else (None, "")
        return MarkEvaluation(evaluation=one.id, choice=choice, reason=reason)

    return Question(
        title=f"{what.capitalize()}?",
        lines=(_name_idea(one), line(told.format(one.round + 1))),
        stay=stay,
        confirm=confirm,
        danger=verb == "end",
        subject=one.id,
        choices=tuple(choices),
        build=build,
    )


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
