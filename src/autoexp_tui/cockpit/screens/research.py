"""Mode 7: a research loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.render.research import ResearchOutline, build_outline
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
from autoexp_tui.cockpit.render.research_rows import PROMPT
from autoexp_tui.cockpit.screens.outline import Order, OutlineScreen
from autoexp_tui.research.commands import AcknowledgeCondition
from autoexp_tui.research.decide import ResearchPolicy
from autoexp_tui.research.effects import list_planned
from autoexp_tui.research.state import PART, Research

if TYPE_CHECKING:
    from autoexp_tui.model.policy import Policy
    from autoexp_tui.model.state import Ask
    from autoexp_tui.research.state import Consultation, Warned


class ResearchScreen(OutlineScreen):
    """What there is, what the agent does, and all of the row under the cursor."""

    first_pane: Pane = "research"
    policy: ClassVar[type[Policy]] = ResearchPolicy
    number: ClassVar[str] = "7"
    heading: ClassVar[str] = "Research"
    nothing: ClassVar[str] = "There is no research."
    lower: ClassVar[tuple[str, str]] = ("Agent and budgets", "")
    explained: ClassVar[Mapping[str, str]] = {
        "approve": "nothing asks",
        "reject": "this is no question, no item of the list and no new warning",
        "edit": "only an item of the list can be edited",
        "move": "only an item of the list can be moved, where there are others",
        "end": "no call is under way",
        **dict.fromkeys(("insert", "tell", "consult"), "the research has ended"),
    }
    outline: ResearchOutline | None = None

    def find_outline(self) -> ResearchOutline | None:
        session = self.model.session
        if self.outline is None or self.outline.session is not session:
            part = session.snapshot.parts.get(PART)
            self.outline = None
            if isinstance(part, Research):
                self.outline = build_outline(part, session)
        return self.outline

    def find_reader(self) -> tuple[object, Callable[[], object]]:
        """The size of what the row's call saw."""
        call = self._find_call()
        if call is None or not call.prompt_sha256:
            return None, int
        return call, partial(_measure, self._find_file(call, PROMPT))

    def _find_file(self, call: Consultation, name: str) -> str:
        assert self.outline is not None, "a call is of an outline"
        return os.path.join(self.outline.loop.find_place(call), name)

    def _find_call(self) -> Consultation | None:
        return self.outline.find_call(self.pane.key) if self.outline else None

    def _find_warning(self) -> Warned | None:
        """The warning under the cursor, where nobody acknowledged it."""
        kind, _, key = self.pane.key.partition(":")
        known = self.outline.research.warnings if self.outline else {}
        found = known.get(key) if kind == "warning" else None
        return None if found is None or found.acknowledged_by else found

    @property
    def is_over(self) -> bool:
        return self.outline is None or self.outline.research.stopped is not None

    def list_asks(self) -> Mapping[str, Ask]:
        """The question under the cursor, else all of the research."""
        asks = super().list_asks()
        name = self.outline.find_ask(self.pane.key) if self.outline else ""
        return {name: asks[name]} if name in asks else asks

    def list_orders(self) -> Mapping[str, Callable[[], Order]]:
        if self.outline is None:
            return {}
        found: dict[str, Callable[[], Order]] = {}
        session, research = self.model.session, self.outline.research
        item, items = self.outline.find_item(self.pane.key), research.items
        asks, mask = [*self.list_asks().items()], session.mask
        if not self.is_over:
            place = items.index(item) if item else len(items)
            planned = list_planned(session.snapshot.pending)
            found["insert"] = partial(ask_insert, research, place, planned)
            found["tell"] = ask_note
            found["consult"] = partial(ask_consult, research)
        if item is not None:
            found["edit"] = partial(ask_edit, research, item, mask)
            found["reject"] = partial(ask_removal, research, item, mask)
            if len(items) > 1:
                found["move"] = partial(ask_move, research, item, mask)
        elif (warning := self._find_warning()) is not None:
            seen = AcknowledgeCondition(key=warning.key)
            found["reject"] = lambda: (seen, "warning acknowledged")
        elif len(asks) == 1:
            found["reject"] = partial(ask_refusal, *asks[0], mask)
        calls = (
            self._find_call(),
            research.find_call("research"),
            research.find_call("fixer"),
        )
        running = (one for one in calls if one and one.ended_lived is None)
        if (one := next(running, None)) is not None:
            found["end"] = partial(ask_end_call, one)
        return found

    # Looking

    async def action_research_diff(self) -> None:
        """The change of code that the row's call left."""
        call = self._find_call()
        if call is None or call.code is None:
            self.notify("it changes no code")
        else:
            self._show_file(call, "The change", "code.patch")

    async def action_research_transcript(self) -> None:
        if (call := self._find_call()) is not None:
            self._show_file(call, "Transcript", "transcript.log")
        else:
            self.notify("no agent was called for it")

    def _show_file(self, call: Consultation, what: str, name: str) -> None:
        files = {"": self._find_file(call, name)}
        self.run_worker(self.show_files(f"{what} of {call.id}", files))


def _measure(path: str) -> int | None:
    """The size of a file; None: it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None
