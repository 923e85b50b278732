"""Mode 7: a research loop."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from autoexp_tui.cockpit.dialogs.reader import Page, render_diff
from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.logfile import read_clean
from autoexp_tui.cockpit.render.research import PROMPT, find_asks, find_call
from autoexp_tui.cockpit.render.research_questions import (
    ask_consult,
    ask_edit,
    ask_end_call,
    ask_insert,
    ask_move,
    ask_note,
    ask_refusal,
    ask_removal,
)
from autoexp_tui.cockpit.screens.outline import MOST_READ, OutlineScreen
from autoexp_tui.cockpit.spans import line, outside
from autoexp_tui.cockpit.widgets.research_pane import (
    NowPane,
    ResearchDetailPane,
    ResearchPane,
    ResearchView,
)
from autoexp_tui.research.commands import AcknowledgeCondition
from autoexp_tui.research.effects import list_planned
from autoexp_tui.research.jobs import find_call_dir

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.render.questions import Question
    from autoexp_tui.research.state import Consultation, Item, Warned


class ResearchScreen(OutlineScreen):
    """What there is, what the agent does, and all of the row under the cursor."""

    first_pane: Pane = "research"
    pane: ResearchPane
    explained: ClassVar[Mapping[str, str]] = {
        "approve": "nothing asks",
        "reject": "this is no question, no item of the list and no new warning",
        "edit": "only an item of the list can be edited",
        "move": "only an item of the list can be moved, where there are others",
        "end": "no call is under way",
        **dict.fromkeys(("insert", "tell", "consult"), "the research has ended"),
    }

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        self.view = ResearchView(self.model)
        self.pane = ResearchPane(context, id="research")
        self.detail = ResearchDetailPane(context, id="detail")
        self.below = NowPane(context, id="now")
        self.pane.view = self.detail.view = self.below.view = self.view

    def renew_panes(self) -> None:
        self.view.renew()
        super().renew_panes()

    def follow_cursor(self) -> None:
        super().follow_cursor()
        call = self._find_call()
        if call is not None and call.prompt_sha256 and self.detail.records is None:
            self.run_worker(self._measure_prompt(self.pane.key, call))

    async def _measure_prompt(self, key: str, call: Consultation) -> None:
        path = os.path.join(self._find_home(call), PROMPT)
        self.detail.take_records(key, await self.fetch(lambda: _measure(path)))

    def _find_call(self) -> Consultation | None:
        outline = self.view.outline
        return find_call(outline, self.pane.key) if outline else None

    def _find_home(self, call: Consultation) -> str:
        research = self.view.research
        return find_call_dir(research.directory if research else "", call)

    def _find_item(self) -> Item | None:
        """The item of the list under the cursor."""
        kind, _, name = self.pane.key.partition(":")
        research = self.view.research
        return research.find_item(name) if research and kind == "item" else None

    def _find_warning(self) -> Warned | None:
        """The warning under the cursor, where nobody acknowledged it."""
        kind, _, key = self.pane.key.partition(":")
        research = self.view.research
        known = research.warnings.get(key) if research and kind == "warning" else None
        return None if known is None or known.acknowledged_by else known

    def _find_running(self) -> Consultation | None:
        """The call under the cursor where it is under way, else any that is."""
        research, call = self.view.research, self._find_call()
        if research is None or (call is not None and call.ended_lived is None):
            return call
        return research.find_call("research") or research.find_call("fixer")

    def list_asks(self) -> tuple[str, ...]:
        """The question under the cursor, else all of the research."""
        asks, name = find_asks(self.model.session), self.pane.ask
        return (name,) if name in asks else tuple(asks)

    def find_useful(self) -> Collection[str]:
        """What could be done now, and with the row under the cursor."""
        research = self.view.research
        if research is None or self.context.is_read_only:
            return ()
        item, asks = self._find_item(), self.list_asks()
        is_over = research.stopped is not None
        useful = {
            "research.approve": bool(asks),
            "research.reject": bool(len(asks) == 1 or item or self._find_warning()),
            "research.edit": item is not None,
            "research.move": item is not None and len(research.items) > 1,
            "research.insert": not is_over,
            "research.tell": not is_over,
            "research.consult": not is_over,
            "research.end": self._find_running() is not None,
            "run.pause": not is_over,
        }
        return {command for command, could in useful.items() if could}

    async def act(self, verb: str) -> None:
        """As of any outline; a warning is acknowledged without a question."""
        warning = self._find_warning() if verb == "reject" else None
        if warning is None:
            await super().act(verb)
        else:
            seen = AcknowledgeCondition(key=warning.key)
            await self.app.run_action(("app", "send", (seen, "warning acknowledged")))

    def find_question(self, verb: str) -> Question | None:
        research, item = self.view.research, self._find_item()
        mask = self.model.session.mask
        if research is None or f"research.{verb}" not in self.find_useful():
            return None
        if item is not None and verb in _OF_ITEMS:
            return _OF_ITEMS[verb](research, item, mask)
        if verb == "reject":
            name = self.list_asks()[0]
            return ask_refusal(name, self.model.session.asks[name], mask)
        if verb == "end":
            call = self._find_running()
            return ask_end_call(call) if call else None
        if verb == "insert":
            items = research.items
            place = items.index(item) if item else len(items)
            planned = list_planned(self.model.session.snapshot.pending)
            return ask_insert(research, place, planned)
        return ask_note() if verb == "tell" else ask_consult(research)

    # Looking

    async def action_research_diff(self) -> None:
        """The change of code that the row's call left."""
        call = self._find_call()
        if call is None or call.code is None:
            self.notify("it changes no code")
        else:
            self.run_worker(self._show_file(call, "The change", "code.patch"))

    async def action_research_transcript(self) -> None:
        if (call := self._find_call()) is not None:
            self.run_worker(self._show_file(call, "Transcript", "transcript.log"))
        else:
            self.notify("no agent was called for it")

    async def _show_file(self, call: Consultation, what: str, name: str) -> None:
        path, is_patch = os.path.join(self._find_home(call), name), "patch" in name
        none = "it has left nothing yet"
        text = await self.fetch(
            lambda: read_clean(path, MOST_READ, end=not is_patch, missing=none)
        )
        text = text.rstrip() or f"({none})"
        rows = [outside(row, 2000) for row in text.split("\n")]
        lines = tuple(render_diff(rows) if is_patch else map(line, rows))
        await self.show_pages(f"{what} of {call.id}", [Page("", lines)])


def _measure(path: str) -> int | None:
    """The size of a file; None: it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


_OF_ITEMS = {"edit": ask_edit, "move": ask_move, "reject": ask_removal}
"""What a verb asks of an item of the list."""
