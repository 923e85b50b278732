"""Mode 6: a search through code states."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.logfile import read_clean
from autoexp_tui.cockpit.render.questions import Choice, Question
from autoexp_tui.cockpit.render.tree import (
    Records,
    TreeOutline,
    build_outline,
    sign_tree,
)
from autoexp_tui.cockpit.screens.outline import Order, OutlineScreen, read_lines
from autoexp_tui.cockpit.spans import Span, line, outside
from autoexp_tui.model.commands import Command
from autoexp_tui.text.spelling import count, duration, plural
from autoexp_tui.tree.commands import (
    EndEvaluation,
    MarkEvaluation,
    ProposeIdea,
    RetryEvaluation,
)
from autoexp_tui.tree.decide import TreePolicy
from autoexp_tui.tree.jobs import find_evaluation_dir
from autoexp_tui.tree.state import PART, ROOT, Evaluation, Node, Tree

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.model.policy import Policy

_MANY: Final = 500
"""Evaluations from which on the keys would feel that an outline is made."""
_MOST_READ: Final = 1 << 17
"""Bytes of a record."""
_MOST_BESIDE: Final = 200
"""Lines of a change that stand in the detail."""
_STEPS: Final = ("implemented.json", "swept.json")
"""What each step says of itself."""
_CALLS: Final = ("experiment", "calls")
"""Where its calls of agents lie."""
_PATCH: Final = "candidate.patch"


class TreeScreen(OutlineScreen):
    """The tree, who would go on, and all of the row under the cursor."""

    first_pane: Pane = "tree"
    policy: ClassVar[type[Policy]] = TreePolicy
    number: ClassVar[str] = "6"
    heading: ClassVar[str] = "Tree"
    nothing: ClassVar[str] = "The repository is being opened."
    lower: ClassVar[tuple[str, str]] = (
        "If this depth closed now",
        "rank, score on the root, why",
    )
    explained: ClassVar[Mapping[str, str]] = {
        "approve": "only an evaluation of the present depth can be promoted",
        "reject": "only an evaluation of the present depth can be rejected",
        "end": "it is not under way",
        "retry": "only one of the present depth without results can be tried again",
        "idea": "the search has ended",
        "branch": "it is no node, or the search has ended",
    }
    outline: TreeOutline | None = None
    _signature: tuple[object, ...] = ()
    _is_busy: bool = False

    def find_outline(self) -> TreeOutline | None:
        """Rows are made anew where they are others; of a large tree behind the screen,
        and the former ones stand until then."""
        session = self.model.session
        tree, known = session.snapshot.parts.get(PART), self.outline
        if not isinstance(tree, Tree) or not tree.root_commit:
            self.outline = None
        elif known is not None and known.tree is tree:
            self.outline = replace(known, session=session)
        elif self._is_busy:
            pass
        elif (signature := sign_tree(tree)) == self._signature and known is not None:
            self.outline = replace(known, tree=tree, session=session)
        elif len(tree.evaluations) >= _MANY:
            self._is_busy = True
            self.run_worker(self._lay_out(tree, session))
        else:
            self._signature = signature
            self.outline = build_outline(tree, session)
        return self.outline

    async def _lay_out(self, tree: Tree, session: SessionView) -> None:
        try:
            self.outline = await self.context.background.fetch(
                "outline", lambda: build_outline(tree, session)
            )
            self._signature = sign_tree(tree)
        finally:
            self._is_busy = False
        self.renew_panes()  # of what came meanwhile

    def find_reader(self) -> tuple[object, Callable[[], object]]:
        one = self._find_evaluation()
        if one is None or one.judgement is None:
            return None, Records
        return one, partial(_read_records, self._find_home(one))

    def _find_evaluation(self) -> Evaluation | None:
        return self.outline.find_evaluation(self.pane.key) if self.outline else None

    def _find_home(self, one: Evaluation) -> str:
        assert self.outline is not None, "an evaluation is of an outline"
        return find_evaluation_dir(self.outline.tree.directory, one.id)

    def list_orders(self) -> Mapping[str, Callable[[], Order]]:
        one, outline = self._find_evaluation(), self.outline
        if outline is None:
            return {}
        found: dict[str, Callable[[], Order]] = {}
        if one is not None:
            is_here, judged = one.id in outline.tree.here, one.judgement
            has_failed = judged is not None and judged.outcome != "scored"
            could = {
                "approve": is_here,
                "reject": is_here,
                "end": judged is None,
                "retry": is_here and has_failed,
            }
            found = {
                verb: partial(ask_about, verb, one) for verb in could if could[verb]
            }
        nodes, frontier = outline.tree.nodes, outline.tree.frontier
        own = ROOT if self.pane.key == ROOT else outline.nodes.get(self.pane.key, "")
        if not self.is_over and own:
            found["branch"] = partial(ask_idea, nodes[own])
        if not self.is_over and frontier:
            # The row's node, else the one that it is tried on, else the first.
            near = (name for name in (own, one.node if one else "") if name in frontier)
            found["idea"] = partial(ask_idea, nodes[next(near, frontier[0])])
        return found

    # Looking

    async def action_tree_diff(self) -> None:
        """The change of the row; again: all changes since the root."""
        one = self._find_evaluation()
        if one is None or one.idea is None:
            self.notify("it changes nothing")
            return
        names = {f"against {one.node}": _PATCH}
        if one.node != ROOT:
            names["since the root"] = "since_root.patch"
        home = self._find_home(one)
        files = {title: os.path.join(home, name) for title, name in names.items()}
        self.run_worker(self.show_files(f"The change of {one.id}", files, turn="d"))

    async def action_tree_transcript(self) -> None:
        if (one := self._find_evaluation()) is not None:
            self.run_worker(self._show_transcripts(one))

    async def _show_transcripts(self, one: Evaluation) -> None:
        home = os.path.join(self._find_home(one), *_CALLS)
        names = await self.fetch(lambda: _list(home))
        if not names:
            self.notify(f"{one.id} has called no agent")
            return
        files = {name: os.path.join(home, name, "transcript.log") for name in names}
        await self.show_files(f"Transcript of {one.id}", files)


def _read_records(home: str) -> Records:
    """What the files of an evaluation that has ended say."""
    steps = (_read_record(home, name) for name in _STEPS)
    calls, patch = os.path.join(home, *_CALLS), os.path.join(home, _PATCH)
    found = ((name, _read_record(calls, name, "answer.json")) for name in _list(calls))
    told = (("Calls", f"{name}: {_describe_call(one)}") for name, one in found if one)
    held = (("Isolation", str(one["isolation"])) for one in steps if "isolation" in one)
    return Records(
        facts=[*told, *dict.fromkeys(held)],
        changes=read_lines(patch)[:_MOST_BESIDE] if os.path.exists(patch) else (),
    )


def _read_record(*path: str) -> dict[str, Any]:
    """Empty: it was not left, or says nothing; why, its evaluation tells."""
    try:
        record = json.loads(read_clean(os.path.join(*path), _MOST_READ))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _describe_call(answer: Mapping[str, Any]) -> str:
    """`ok, 4 min, 12 steps, 31k tokens, cost 0.21`"""
    usage = answer.get("usage")
    told = {**answer, **(usage if isinstance(usage, dict) else {})}.items()
    numbers = {key: one for key, one in told if isinstance(one, int | float)}
    known = {key: one for key, one in numbers.items() if one and isfinite(one)}
    tokens = known.get("input_tokens", 0) + known.get("output_tokens", 0)
    parts = [str(answer.get("outcome")), duration(known.get("seconds", 0.0))]
    parts += [plural(int(known["steps"]), "step")] if "steps" in known else []
    parts += [f"{count(tokens)} tokens"] if tokens else []
    parts += [f"cost {known['cost']:g}"] if "cost" in known else []
    return ", ".join(parts)


def _list(home: str) -> list[str]:
    """The names in a directory, the oldest first."""
    try:
        found = sorted(os.scandir(home), key=lambda one: one.stat().st_mtime)
    except OSError:
        return []
    return [one.name for one in found]


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
    title = one.idea.title if one.idea else "the root"
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
        lines=(line(Span(outside(title), "strong")), line(told.format(one.round + 1))),
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
