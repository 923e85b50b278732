"""Events mode: every command and effect, as sent, and what it said; and the evidence.

What a snapshot does not carry any more is read back from the journal, a page at a
time, when somebody goes up that far or a filter leaves room.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult

from autoexp_tui.cockpit.render.logs import Folder, LogSpot, find_evidence
from autoexp_tui.cockpit.screens.base import LogScreen, Request
from autoexp_tui.cockpit.state.event_history import (
    EventFilter,
    Page,
    build_page,
    collect_tokens,
)
from autoexp_tui.cockpit.widgets.events_panes import (
    EffectPane,
    EventsPane,
    EvidencePane,
)
from autoexp_tui.model.errors import AutoexpError

if TYPE_CHECKING:
    from autoexp_tui.cockpit.keymap import Pane
    from autoexp_tui.cockpit.widgets.list_pane import ListPane

PAGE: Final = 2000
"""Records that are read back at a time."""


class EventsScreen(LogScreen):
    """The list above, the effect under the cursor below; evidence over both."""

    first_pane: Pane = "events"
    lower_pane: Pane = "effect"
    _is_unreadable: bool = False

    def compose(self) -> ComposeResult:
        self.events_pane = EventsPane(self.context, id="events")
        self.effect = EffectPane(self.context, id="effect")
        self.logs = EvidencePane(self.context, id="evidence")
        yield self.events_pane
        yield self.effect
        yield self.logs
        yield from self.compose_frame()

    def renew_panes(self) -> None:
        self.events_pane.renew()
        self.effect.show(self.events_pane.find_entry())
        has_room = len(self.events_pane.keys) < self.events_pane.rows_in_body
        if has_room and not self.events_pane.history.complete:
            self.read_back()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.effect.show(self.events_pane.find_entry())

    def on_events_pane_at_top(self, message: EventsPane.AtTop) -> None:
        message.stop()
        self._is_unreadable = False
        self.read_back()

    def read_back(self) -> None:
        """Read the page before the oldest event that was looked at."""
        pane = self.events_pane
        if not (pane.reading or pane.history.complete or self._is_unreadable):
            pane.reading = True
            pane.update_lines()
            self.run_worker(self._read_page())

    async def _read_page(self) -> None:
        pane, history = self.events_pane, self.events_pane.history
        handle, first, wanted = self.context.handle, history.page.first, history.wanted
        snapshot = self.model.session.snapshot

        def work() -> Page:
            records = handle.earlier(first, PAGE)
            return build_page(records, wanted, collect_tokens(snapshot))

        try:
            page = await self.context.background.fetch("events", work)
        except (AutoexpError, OSError) as problem:
            self._is_unreadable = True
            self.show_notice(f"older events cannot be read: {problem}", "warning")
        else:
            if history.wanted is wanted and history.page.first == first:
                pane.show_older(page)
        pane.reading = False
        self.renew()

    def filter_by(self, wanted: EventFilter) -> None:
        """Show other events."""
        self._is_unreadable = False
        self.events_pane.filter_by(wanted)
        self.renew()

    def action_events_all(self) -> None:
        """Every event, or only what a person asked for, was done, or ended."""
        wanted = self.events_pane.history.wanted
        self.filter_by(replace(wanted, everything=not wanted.everything))

    def action_events_kind(self) -> None:
        """Events of the next kind alone."""
        self.filter_by(self.events_pane.history.wanted.next_kind(1))

    def action_events_kind_before(self) -> None:
        """Events of the kind before."""
        self.filter_by(self.events_pane.history.wanted.next_kind(-1))

    def action_events_same_job(self) -> None:
        """Events of this job alone, or of all."""
        wanted, entry = self.events_pane.history.wanted, self.events_pane.find_entry()
        names = entry.jobs if entry is not None else ()
        if wanted.job:
            self.filter_by(replace(wanted, job=""))
        elif names:
            self.filter_by(replace(wanted, job=names[0]))
        else:
            self.show_notice("this event is about no job")

    def action_events_filter(self) -> None:
        """Ask for words."""

        def answer(text: str) -> str:
            wanted = self.events_pane.history.wanted
            self.filter_by(replace(wanted, text=text.strip()))
            return ""

        request = Request(
            label="filter",
            hint="words that an event has",
            text=self.events_pane.history.wanted.text,
            answer=answer,
        )
        self.ask_line(request)

    async def action_events_job(self) -> None:
        """To the job of the event, in the table."""
        entry = self.events_pane.find_entry()
        jobs = self.model.session.list_jobs(entry.jobs) if entry else ()
        if jobs:
            await self.app.run_action(("app", "show_job", jobs[:1]))
        else:
            self.show_notice("this event is about no job")

    async def action_look_open(self) -> None:
        """The evidence of the event; where there is none, its own words."""
        entry = self.events_pane.find_entry()
        proof = find_evidence(entry.event, self.model.session) if entry else None
        match proof:
            case LogSpot():
                self.show_log(proof)
            case Folder():
                await self.app.run_action(
                    ("app", "show_folder", (proof.path, proof.job))
                )
            case None:
                self.action_look_larger()

    def action_look_larger(self) -> None:
        if self.enlarged is None:
            self.enlarge("effect")
            self.focus_pane(self.effect)

    def show_log(self, spot: LogSpot) -> None:
        """Open a log as evidence."""
        self.enlarge("evidence")
        self.logs.read((spot.source,), "", spot.job)
        self.focus_pane(self.logs)
        if spot.offset is not None:
            self.logs.show_offset(spot.offset)
        elif spot.words:
            self.logs.find_words(spot.words)
        else:
            self.logs.set_follow(on=True)

    async def action_look_back(self) -> None:
        """One level back."""
        wanted = self.events_pane.history.wanted
        if self.focused is self.logs and self.logs.has_stopped_search():
            return
        if self.enlarged is not None:
            self.enlarge(None)
            self.focus_pane()
        elif self.focused is self.effect:
            self.focus_pane()
        elif wanted.narrows:
            self.filter_by(EventFilter(everything=wanted.everything))
        else:
            await self.run_action("app.show_pane('jobs')")
