"""Events mode: every command and effect, as sent, and what it said; and the evidence.

What a snapshot does not carry any more is read back from the journal, a page at a
time, when somebody goes up that far or a filter leaves room.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult

from autoexp_tui.cockpit.render.logs import Folder, LogSpot, find_evidence
from autoexp_tui.cockpit.screens.base import LogScreen, Request
from autoexp_tui.cockpit.state.event_history import EventFilter
from autoexp_tui.cockpit.widgets.events_panes import (
    EffectPane,
    EventsPane,
    EvidencePane,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.keymap import Pane
    from autoexp_tui.cockpit.widgets.list_pane import ListPane


class EventsScreen(LogScreen):
    """The list above, the effect under the cursor below; evidence over both."""

    first_pane: Pane = "events"
    lower_pane: Pane = "effect"

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

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.effect.show(self.events_pane.find_entry())

    @property
    def wanted(self) -> EventFilter:
        """Which events are shown."""
        return self.events_pane.history.wanted

    def filter_by(self, **changes: Any) -> None:
        """Show other events."""
        self.events_pane.filter_by(replace(self.wanted, **changes))
        self.renew()

    def action_events_all(self) -> None:
        """Every event, or only what a person asked for, was done, or ended."""
        self.filter_by(everything=not self.wanted.everything)

    def action_events_kind(self, step: int) -> None:
        """Events of the next kind alone, or of the one before."""
        self.filter_by(kind=self.wanted.next_kind(step).kind)

    def action_events_same_job(self) -> None:
        """Events of this job alone, or of all."""
        entry = self.events_pane.find_entry()
        names = entry.jobs if entry is not None else ()
        if self.wanted.job or names:
            self.filter_by(job="" if self.wanted.job else names[0])
        else:
            self.notify("this event is about no job")

    def action_events_filter(self) -> None:
        """Ask for words."""

        def answer(text: str) -> str:
            self.filter_by(text=text.strip())
            return ""

        hint = "words that an event has"
        text = self.wanted.text
        self.ask_line(Request(label="filter", hint=hint, text=text, answer=answer))

    async def action_events_job(self) -> None:
        """To the job of the event, in the table."""
        entry = self.events_pane.find_entry()
        jobs = self.model.session.list_jobs(entry.jobs) if entry else ()
        if jobs:
            await self.app.run_action(("app", "show_job", jobs[:1]))
        else:
            self.notify("this event is about no job")

    async def action_look_open(self) -> None:
        """The evidence of the event; where there is none, its own words."""
        entry = self.events_pane.find_entry()
        match find_evidence(entry.event, self.model.session) if entry else None:
            case LogSpot() as spot:
                self.show_log(spot)
            case Folder(path=path, job=job):
                await self.app.run_action(("app", "show_folder", (path, job)))
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
        if spot.offset is not None:  # once it has a size
            self.call_after_refresh(self.logs.show_offset, spot.offset)
        elif spot.words:
            self.call_after_refresh(self.logs.find_words, spot.words)
        else:
            self.logs.set_follow(on=True)

    async def action_look_back(self) -> None:
        """One level back."""
        if self.focused is self.logs and self.logs.has_stopped_search():
            return
        if self.enlarged is not None or self.focused is self.effect:
            self.enlarge(None)
            self.focus_pane()
        elif self.wanted.narrows:
            self.filter_by(kind="", job="", text="")
        else:
            await self.run_action("app.show_pane('jobs')")
