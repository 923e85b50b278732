"""Mode 6: a search through code states."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.dialogs.reader import Page, ReaderScreen
from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.logfile import open_regular
from autoexp_tui.cockpit.render.layout import Boxes, build_tree_boxes
from autoexp_tui.cockpit.render.tree_questions import (
    ask_end,
    ask_idea,
    ask_mark,
    ask_retry,
)
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import Line, Role, Span, line, outside
from autoexp_tui.cockpit.widgets.pane import ListPane
from autoexp_tui.cockpit.widgets.tree_pane import (
    DetailPane,
    FrontierPane,
    TreePane,
    TreeView,
)
from autoexp_tui.text.sanitize import clean
from autoexp_tui.tree.decide import TreePolicy
from autoexp_tui.tree.jobs import find_evaluation_dir
from autoexp_tui.tree.state import ROOT, Evaluation, Node

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.render.questions import Question

T = TypeVar("T")

MOST_SHOWN: Final = 1 << 17
"""Bytes of a patch, or of the end of a transcript, that are shown."""
_ROLES: Final[Mapping[str, Role]] = {"+": "done", "-": "failed", "@": "accent"}
"""Of the lines of a patch, by their first sign."""
_RECORDS: Final = {"implement": "implemented.json", "sweep": "swept.json"}
"""What each step says of itself."""


class TreeScreen(BoxScreen):
    """The tree, who would go on, and all of the row under the cursor."""

    first_pane: Pane = "tree"
    _told: Evaluation | None = None
    """The evaluation, as it was when its records were looked for."""

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        view = TreeView(self.model)
        self.pane = TreePane(context, id="tree")
        self.detail = DetailPane(context, id="detail")
        self.frontier = FrontierPane(context, id="frontier")
        self.pane.view = self.detail.view = self.frontier.view = view
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self.frontier
        yield self.detail
        yield from self.compose_frame()

    def find_boxes(self, size: Size) -> Boxes:
        whole = "detail" if self.enlarged and self.focused is self.detail else None
        boxes = build_tree_boxes(*size, whole or self.enlarged)
        self.frontier.bare = "frontier" in boxes and boxes["frontier"].height == 1
        return boxes

    def renew_panes(self) -> None:
        self.pane.renew()
        self.frontier.renew()
        self._follow_cursor()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self._follow_cursor()
        self.show_keys()

    def _follow_cursor(self) -> None:
        self.detail.show(self.pane.key)
        one = self.pane.evaluation
        if one is not self._told and one is not None and one.judgement is not None:
            self.run_worker(self._read_isolation(one.id))
        self._told = one

    async def _read_isolation(self, evaluation: str) -> None:
        home = self._find_home(evaluation)
        found = await self._fetch(lambda: _read_isolation(home))
        if self.detail.key in (evaluation, ROOT) and found != self.detail.isolation:
            self.detail.isolation = found
            self.detail.renew()

    async def _fetch(self, work: Callable[[], T]) -> T:
        return await self.context.background.fetch(f"tree {work}", work)

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
        adds = tree.is_listed and not tree.stopped
        useful = {
            "tree.approve": is_here or bool(self._list_asks()),
            "tree.reject": is_here,
            "tree.idea": adds,
            "tree.branch": adds and self._find_node() is not None,
            "tree.end": one is not None and judged is None,
            "tree.retry": is_here and judged is not None and judged.outcome != "scored",
            "run.pause": tree.stopped is None,
        }
        return {command for command, could in useful.items() if could}

    def _list_asks(self) -> tuple[str, ...]:
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

    async def act(self, verb: str) -> None:
        """Ask about the row under the cursor, then order it."""
        if verb in ("pause", "undo"):
            await self.run_action(f"app.order({verb!r})")
        elif verb == "approve" and (asks := self._list_asks()):
            await self.app.run_action(("app", "answer", (asks,)))
        elif question := self._find_question(verb):
            await self.app.run_action(("app", "ask", (question,)))
        else:
            self.notify(_EXPLAINED[verb], severity="warning")

    def _find_question(self, verb: str) -> Question | None:
        """None: there is nothing here that the verb could do."""
        one = self.pane.evaluation
        if verb in ("idea", "branch"):
            if "tree.idea" not in self.find_useful():
                return None
            is_branch = verb == "branch"
            node = self._find_node() if is_branch else self._find_frontier_node()
            return ask_idea(node) if node is not None else None
        if one is None or f"tree.{verb}" not in self.find_useful():
            return None
        if verb == "approve":
            return ask_mark(one, "promote")
        if verb == "reject":
            return ask_mark(one, "reject")
        return ask_end(one) if verb == "end" else ask_retry(one)

    # Looking

    def action_look_larger(self) -> None:
        self.enlarge("tree")

    async def action_look_open(self) -> None:
        """To the row's job in the table."""
        if jobs := self.pane.find_jobs():
            await self.app.run_action(("app", "show_job", jobs))
        else:
            self.notify("there is no job of it")

    async def action_look_back(self) -> None:
        if self.enlarged is not None:
            self.enlarge(None)
        elif self.focused is not self.pane:
            self.focus_pane()
        else:
            await self.run_action("app.show_pane('jobs')")

    async def action_tree_log(self) -> None:
        """The log of the row's job."""
        if jobs := self.pane.find_jobs():
            await self.app.run_action(("app", "show_job", jobs))
        await self.run_action("app.show_pane('log')")

    async def action_tree_diff(self) -> None:
        """The change of the row; again: all changes since the root."""
        tree, one = self.view.tree, self.pane.evaluation
        if tree is None or one is None or one.idea is None:
            self.notify("it changes nothing")
            return
        above = [node.evaluation for node in tree.list_ancestors(one.node)]
        chain = [*filter(None, reversed(above)), one.id]
        self.run_worker(self._show_diffs(one.id, one.node, chain))

    async def _show_diffs(self, name: str, node: str, chain: Sequence[str]) -> None:
        homes = [self._find_home(one) for one in chain]
        found = await self._fetch(lambda: [*map(_read_patch, homes)])
        own = Page(f"against {node}", tuple(_render_patch(found[-1])))
        lines: list[Line] = []
        for evaluation, text in zip(chain, found, strict=True):
            lines += [line(Span(f"-- {evaluation}", "title")), *_render_patch(text)]
        page, other = own, Page("since the root", tuple(lines))
        while True:
            passes = {"d": f"the change {other.title}"}
            title = f"The change of {name}, {page.title}"
            reader = ReaderScreen(self.context, title, [page], passes)
            if await self.app.push_screen_wait(reader) != "d":
                return
            page, other = other, page

    async def action_tree_transcript(self) -> None:
        one = self.pane.evaluation
        if one is not None:
            self.run_worker(self._show_transcripts(one.id))

    async def _show_transcripts(self, name: str) -> None:
        home = os.path.join(self._find_home(name), "experiment", "calls")
        pages = await self._fetch(lambda: [*_read_transcripts(home)])
        if not pages:
            self.notify(f"{name} has called no agent")
            return
        title = f"Transcript of {name}"
        title += f", {pages[0].title}" if len(pages) == 1 else ""
        await self.app.push_screen(ReaderScreen(self.context, title, pages))


_EXPLAINED: Final[Mapping[str, str]] = {
    "approve": "only an evaluation of the present depth can be promoted",
    "reject": "only an evaluation of the present depth can be rejected",
    "end": "it is not under way",
    "retry": "only one of the present depth without results can be tried again",
    "idea": "an idea can be added once those of the depth are listed",
    "branch": "no node, or no time for it: only a node, while a depth is evaluated",
}
"""Why a verb has nothing to do."""


def _read_isolation(home: str) -> Mapping[str, str]:
    """What held in each step, as the steps told."""
    found = {}
    for step, name in _RECORDS.items():
        try:
            record = json.loads(_read_text(os.path.join(home, name)))
        except (OSError, ValueError):
            continue  # the step left no record; its reason says why
        if isinstance(record, dict) and record.get("isolation"):
            found[step] = str(record["isolation"])
    return found


def _read_text(path: str, *, end: bool = False) -> str:
    """The beginning, or the end, of a regular file; raises OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        if end:
            file.seek(max(0, os.path.getsize(path) - MOST_SHOWN))
        return file.read(MOST_SHOWN).decode("utf-8", "replace")


def _read_patch(home: str) -> str:
    try:
        return _read_text(os.path.join(home, "candidate.patch"))
    except FileNotFoundError:
        return "(it left no change)"
    except OSError as error:
        return f"(cannot be read: {error.strerror or error})"


def _render_patch(text: str) -> Iterator[Line]:
    for row in clean(text, keep_newlines=True).split("\n"):
        yield line(Span(outside(row, 2000), _ROLES.get(row[:1], "text")))


def _read_transcripts(home: str) -> Iterator[Page]:
    """The ends of the transcripts of an evaluation's calls, in their order."""
    try:
        calls = sorted(os.scandir(home), key=lambda one: one.stat().st_mtime)
    except FileNotFoundError:
        return
    for call in calls:
        try:
            text = _read_text(os.path.join(call.path, "transcript.log"), end=True)
        except OSError as error:
            text = f"(cannot be read: {error.strerror or error})"
        rows = clean(text, keep_newlines=True).rstrip("\n").split("\n")
        yield Page(outside(call.name), tuple(line(outside(row, 2000)) for row in rows))
