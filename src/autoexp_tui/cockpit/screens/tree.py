"""Mode 6: a search through code states."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

from autoexp_tui.cockpit.dialogs.reader import Page, render_diff
from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.logfile import read_clean
from autoexp_tui.cockpit.render.tree import Records
from autoexp_tui.cockpit.render.tree_questions import ASKED, ask_idea
from autoexp_tui.cockpit.screens.outline import MOST_READ, OutlineScreen
from autoexp_tui.cockpit.spans import Line, line, outside
from autoexp_tui.cockpit.widgets.tree_pane import (
    EvaluationPane,
    FrontierPane,
    TreePane,
    TreeView,
)
from autoexp_tui.text.spelling import count, duration, plural
from autoexp_tui.tree.decide import TreePolicy
from autoexp_tui.tree.jobs import find_evaluation_dir
from autoexp_tui.tree.state import BASELINE, ROOT, Evaluation, Node

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.render.questions import Question

_MOST_BESIDE: Final = 200
"""Lines of a change that stand in the detail."""
_STEPS: Final = ("implemented.json", "swept.json")
"""What each step says of itself."""


class TreeScreen(OutlineScreen):
    """The tree, who would go on, and all of the row under the cursor."""

    first_pane: Pane = "tree"
    pane: TreePane
    below: FrontierPane
    detail: EvaluationPane
    explained: ClassVar[Mapping[str, str]] = {
        "approve": "only an evaluation of the present depth can be promoted",
        "reject": "only an evaluation of the present depth can be rejected",
        "end": "it is not under way",
        "retry": "only one of the present depth without results can be tried again",
        "idea": "the search has ended",
        "branch": "it is no node, or the search has ended",
    }
    _told: Evaluation | None = None
    """The evaluation, as it was when its records were looked for."""

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        self.view = TreeView(self.model)
        self.pane = TreePane(context, id="tree")
        self.detail = EvaluationPane(context, id="detail")
        self.below = FrontierPane(context, id="frontier")
        self.pane.view = self.detail.view = self.below.view = self.view

    def renew_panes(self) -> None:
        if not self.view.renew():
            self.run_worker(self._lay_out())
        super().renew_panes()

    def follow_cursor(self) -> None:
        super().follow_cursor()
        one = self.pane.evaluation
        if one is not self._told and one is not None and one.judgement is not None:
            self.run_worker(self._read_records(one.id))
        self._told = one

    async def _lay_out(self) -> None:
        await self.view.lay_out(self.context.background)
        self.renew_panes()  # of what came meanwhile

    async def _read_records(self, evaluation: str) -> None:
        home = self._find_home(evaluation)
        found = await self.fetch(lambda: _read_records(home))
        key = ROOT if evaluation == BASELINE else evaluation
        self.detail.take_records(key, found)

    def _find_home(self, evaluation: str) -> str:
        tree = self.view.tree
        return find_evaluation_dir(tree.directory if tree else "", evaluation)

    def find_useful(self) -> Collection[str]:
        """What could be done with the row under the cursor."""
        tree, one = self.view.tree, self.pane.evaluation
        if tree is None or self.context.is_read_only:
            return ()
        is_here = one is not None and one.id in tree.here
        judged = one.judgement if one is not None else None
        adds = not tree.stopped
        useful = {
            "tree.approve": is_here or bool(self.list_asks()),
            "tree.reject": is_here,
            "tree.idea": adds,
            "tree.branch": adds and self._find_node() is not None,
            "tree.end": one is not None and judged is None,
            "tree.retry": is_here and judged is not None and judged.outcome != "scored",
            "run.pause": tree.stopped is None,
        }
        return {command for command, could in useful.items() if could}

    def list_asks(self) -> tuple[str, ...]:
        """What the search asks: whether a beam goes on, or after a failure."""
        asks, own = self.model.session.asks, TreePolicy.asks
        return tuple(name for name in asks if name.partition("/")[0] in own)

    def _find_node(self) -> Node | None:
        """The node that the row is."""
        tree, outline = self.view.tree, self.view.outline
        if tree is None or outline is None:
            return None
        name = ROOT if self.pane.key == ROOT else outline.nodes.get(self.pane.key)
        return tree.nodes[name] if name else None

    def _find_frontier_node(self) -> Node | None:
        """Where an idea is added: the row's node, where that is of the present depth,
        else the one that the row is tried on, else the first."""
        tree, one, own = self.view.tree, self.pane.evaluation, self._find_node()
        if tree is None or not tree.frontier:
            return None
        names = (own.id if own else "", one.node if one else "")
        here = (name for name in names if name in tree.frontier)
        return tree.nodes[next(here, tree.frontier[0])]

    def find_question(self, verb: str) -> Question | None:
        """None: there is nothing here that the verb could do."""
        one, is_branch = self.pane.evaluation, verb == "branch"
        if f"tree.{verb}" not in self.find_useful():
            return None
        if is_branch or verb == "idea":
            node = self._find_node() if is_branch else self._find_frontier_node()
            return ask_idea(node) if node is not None else None
        return ASKED[verb](one) if one is not None else None

    # Looking

    async def action_tree_diff(self) -> None:
        """The change of the row; again: all changes since the root."""
        one = self.pane.evaluation
        if one is None or one.idea is None:
            self.notify("it changes nothing")
        else:
            self.run_worker(self._show_changes(one))

    async def _show_changes(self, one: Evaluation) -> None:
        home, files = self._find_home(one.id), {f"against {one.node}": _OWN}
        if one.node != ROOT:
            files["since the root"] = "since_root.patch"
        pages = await self.fetch(
            lambda: [
                Page(title, tuple(render_diff(_read_patch(home, name))))
                for title, name in files.items()
            ]
        )
        await self.show_pages(f"The change of {one.id}", pages, turn="d")

    async def action_tree_transcript(self) -> None:
        one = self.pane.evaluation
        if one is not None:
            self.run_worker(self._show_transcripts(one.id))

    async def _show_transcripts(self, name: str) -> None:
        home = os.path.join(self._find_home(name), "experiment", "calls")
        pages = await self.fetch(lambda: [*_read_transcripts(home)])
        if not pages:
            self.notify(f"{name} has called no agent")
            return
        await self.show_pages(f"Transcript of {name}", pages)


_OWN: Final = "candidate.patch"


def _read_patch(home: str, name: str) -> list[str]:
    path = os.path.join(home, name)
    text = read_clean(path, MOST_READ, missing="it left no change")
    return [outside(row, 2000) for row in text.split("\n")]


def _read_records(home: str) -> Records:
    """What the files of an evaluation that has ended say."""
    steps = (_read_record(home, name) for name in _STEPS)
    calls = os.path.join(home, "experiment", "calls")
    found = ((name, _read_record(calls, name, "answer.json")) for name in _list(calls))
    rows = _read_patch(home, _OWN) if os.path.exists(f"{home}/{_OWN}") else []
    return Records(
        isolation=[*{str(one["isolation"]): 0 for one in steps if "isolation" in one}],
        calls=[f"{name}: {_describe_call(one)}" for name, one in found if one],
        changes=[*render_diff(rows[:_MOST_BESIDE])],
    )


def _read_record(*path: str) -> dict[str, Any]:
    """Empty: it was not left, or says nothing; why, its evaluation tells."""
    try:
        record = json.loads(read_clean(os.path.join(*path), MOST_READ))
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


def _read_transcripts(home: str) -> Iterator[Page]:
    """The ends of the transcripts of an evaluation's calls, in their order."""
    for call in _list(home):
        path = os.path.join(home, call, "transcript.log")
        rows = read_clean(path, MOST_READ, end=True).rstrip("\n").split("\n")
        lines: list[Line] = [line(outside(row, 2000)) for row in rows]
        yield Page(outside(call), tuple(lines))
