"""Events mode: every command and effect, as sent, and what it said; and the evidence.

What a snapshot does not carry any more is read back from the journal, a page at a
time, when somebody goes up that far or a filter leaves room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cockpit.logfile import LogSpot, find_evidence
from autoexp_tui.cockpit.screens.base import LogScreen, Request
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    join,
    line,
    outside,
    shorten,
    wrap,
)
from autoexp_tui.cockpit.state.event_history import (
    Entry,
    EventFilter,
    EventHistory,
    Page,
    build_page,
    collect_tokens,
    describe_entry,
    find_headline,
    format_entry,
)
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.cockpit.widgets.pane import ListPane, TextPane
from autoexp_tui.events import events
from autoexp_tui.text.spelling import clock_time, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane

PAGE: Final = 2000
"""Records that are read back at a time."""
_MARKS: Final[Mapping[str, tuple[str, Role]]] = {
    "ok": ("✓", "done"),
    "failed": ("✗", "failed"),
    "uncertain": ("≈", "asks"),
    "pending": ("⧗", "queued"),
}


def render_entry(entry: Entry, now: float, cells: int) -> Line:
    """`04:12:04  a_job  job ended  out of memory`, at most `cells` wide."""
    mark, role = _find_mark(entry)
    names, t = entry.jobs, entry.record.t
    job_cells = max(12, min(36, cells // 3))
    several = plural(len(names), "job") if names else ""
    job = outside(names[0] if len(names) == 1 else several) or "-"
    clock = clock_time(t, now)
    when = clock[5:] if " " in clock else f"   {clock}:{int(t) % 60:02}"
    what, about = find_headline(entry, now)
    content = line(
        Span(f"{mark} ", role),
        Span(f"{when}  ", "muted"),
        Span(f"{fit(job, job_cells, middle=True)}  "),
        Span(f"{fit(outside(what), 18)} ", "text" if role == "muted" else role),
        Span(fit(outside(about), max(1, cells - job_cells - 36)), "muted"),
    )
    return cut(content, cells)


def _find_mark(entry: Entry) -> tuple[str, Role]:
    match entry.event:
        case events.EffectOrdered():
            return _MARKS[entry.settled.outcome if entry.settled else "pending"]
        case events.EffectSettled(outcome=outcome):
            return _MARKS[outcome]
        case events.EngineFaulted() | events.CommandRefused():
            return "✗", "failed"
        case events.WarningRaised():
            return "!", "warning"
    return " ", "muted"


class EventsPane(ListPane):
    """All events, newest below; it stays at the end until the cursor is moved."""

    name_in_table = "events"
    number = "8"
    heading = "Events"

    reading: bool = False
    """Whether an older page is being read."""
    _is_unreadable: bool = False

    def __init__(self, context: CockpitContext, **options: Any) -> None:
        super().__init__(context, **options)
        self.history = EventHistory()

    def renew(self) -> None:
        if self.history.take(self.model.session.snapshot) or not self.keys:
            self._show_entries()
        else:
            self.update_lines()
        if len(self.keys) < self.rows_in_body:
            self.read_back()

    def filter_by(self, wanted: EventFilter) -> None:
        kept, at_end = self.key, self.cursor >= len(self.keys) - 1
        self._is_unreadable = False
        self.history.filter_by(wanted, self.model.session.snapshot)
        self._show_entries()
        if at_end or not self.move_to_key(kept):
            self.move("last")

    def _show_entries(self) -> None:
        """Show the history as it is now; at the end the cursor stays there."""
        at_end = self.cursor >= len(self.keys) - 1
        self.set_keys(entry.key for entry in self.history.page.entries)
        if at_end:
            self.move("last")

    def move(self, how: str) -> None:
        if self.cursor == 0 and how in ("up", "half_up", "first"):
            self._is_unreadable = False
            self.read_back()
        super().move(how)

    def read_back(self) -> None:
        """Read the page before the oldest event that was looked at."""
        if not (self.reading or self.history.complete or self._is_unreadable):
            self.reading = True
            self.update_lines()
            self.run_worker(self._read_page())

    async def _read_page(self) -> None:
        handle, wanted = self.context.handle, self.history.wanted
        first, snapshot = self.history.page.first, self.model.session.snapshot

        def work() -> Page:
            records = handle.earlier(first, PAGE)
            return build_page(records, wanted, collect_tokens(snapshot))

        told = "older events cannot be read"
        page = await self.context.fetch_or_tell(self, "events", work, told)
        self._is_unreadable = page is None
        is_same = self.history.wanted is wanted and self.history.page.first == first
        if page is not None and is_same:
            self._show_older(page)
        self.reading = False
        self.renew()
        self.post_message(self.CursorMoved(self))

    def _show_older(self, page: Page) -> None:
        """Put an older page before the rest; the cursor stays where it is.

        Its line may have gone: what came of an order is told with the order.
        """
        kept, below = self.key, len(self.keys) - self.cursor
        self.history.prepend(page)
        self._show_entries()
        if kept not in self.keys:
            self.move_to(len(self.keys) - below)

    def build_title(self) -> Line:
        number, wanted = len(self.keys), self.history.wanted
        if wanted.narrows:
            counted = plural(number, "event")
        elif wanted.everything:
            counted = f"the newest {number}, all (. fewer)"
        else:
            counted = f"{number}: commands, effects, ends, warnings (. shows all)"
        parts: list[Line] = [(Span(counted, "muted"),)]
        if wanted.kind:
            parts.append((Span(f"{wanted.kind} ([ ])", "accent"),))
        if wanted.job:
            name = shorten(outside(wanted.job), 30, middle=True)
            parts.append((Span(f"{name} (f)", "accent"),))
        if wanted.text:
            parts.append((Span(f"/{outside(wanted.text)} (esc)", "accent"),))
        if self.reading:
            parts.append((Span("reading back", "muted"),))
        elif not self.history.complete and self.top == 0:
            parts.append((Span("older: k", "muted"),))
        return join(parts, "   ")

    def describe_nothing(self) -> str:
        if self.reading:
            return " Reading back in the journal."
        if self.history.wanted.narrows:
            return " No event is like that. esc shows the others."
        return " Nothing has happened yet."

    def row(self, place: int, cells: int) -> Line:
        entry = self.history.page.entries[place]
        return render_entry(entry, self.model.session.now, cells)

    def copy_text(self) -> str:
        entry = self.find_entry()
        return format_entry(entry, self.model.session.now) if entry else ""

    def find_entry(self) -> Entry | None:
        return self.history.page.entries[self.cursor] if self.keys else None


class EffectPane(TextPane):
    """All of one entry: the exact words sent and answered."""

    name_in_table = "effect"
    heading = "As sent, and what it said"

    entry: Entry | None = None

    def show(self, entry: Entry | None) -> None:
        self.entry = entry
        self.renew(entry and entry.key)

    def build_lines(self, cells: int) -> Sequence[Line]:
        if self.entry is None:
            return ((Span(" Nothing has happened yet.", "muted"),),)
        return [
            row
            for label, text in describe_entry(self.entry, self.model.session.now)
            for row in wrap(
                (Span(f" {label:<11} ", "muted"), Span(text)), cells, " " * 13
            )
        ]

    def copy_text(self) -> str:
        return format_entry(self.entry, self.model.session.now) if self.entry else ""


class EvidencePane(LogPane):
    """The log that an event tells of, at the place that it tells of."""

    name_in_table = "evidence"
    number = ""
    heading = "Evidence"


class EventsScreen(LogScreen):
    """The list above, the effect under the cursor below; evidence over both."""

    first_pane: Pane = "events"
    lower_pane: Pane = "effect"

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        self.events_pane = EventsPane(context, id="events")
        self.effect = EffectPane(context, id="effect")
        self.logs = EvidencePane(context, id="evidence")
        self.content = (self.events_pane, self.effect, self.logs)

    def follow_cursor(self) -> None:
        self.effect.show(self.events_pane.find_entry())

    @property
    def event_filter(self) -> EventFilter:
        return self.events_pane.history.wanted

    def filter_by(self, **changes: Any) -> None:
        self.events_pane.filter_by(replace(self.event_filter, **changes))
        self.renew()

    def action_events_all(self) -> None:
        """Every event, or only what a person asked for, was done, or ended."""
        self.filter_by(everything=not self.event_filter.everything)

    def action_events_kind(self, step: int) -> None:
        self.filter_by(kind=self.event_filter.find_next_kind(step))

    def action_events_same_job(self) -> None:
        entry = self.events_pane.find_entry()
        names = entry.jobs if entry is not None else ()
        if self.event_filter.job or names:
            self.filter_by(job="" if self.event_filter.job else names[0])
        else:
            self.notify("this event is about no job")

    def action_events_filter(self) -> None:

        def answer(text: str) -> str:
            self.filter_by(text=text.strip())
            return ""

        hint = "words that an event has"
        text = self.event_filter.text
        self.ask_line(Request(label="filter", hint=hint, text=text, answer=answer))

    async def action_events_job(self) -> None:
        entry = self.events_pane.find_entry()
        jobs = self.model.session.list_jobs(entry.jobs) if entry else ()
        if jobs:
            await self.app.run_action(("app", "show_job", jobs[:1]))
        else:
            self.notify("this event is about no job")

    def action_look_open(self) -> None:
        """The evidence of the event; where there is none, its own words."""
        entry = self.events_pane.find_entry()
        spot = find_evidence(entry.event, self.model.session) if entry else None
        if spot is None:
            self.action_look_larger()
        else:
            self.show_log(spot)

    def action_look_larger(self) -> None:
        if self.enlarged is None:
            self.enlarge("effect")
            self.focus_pane(self.effect)

    def show_log(self, spot: LogSpot) -> None:
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
        if not (self.focused is self.logs and self.logs.has_stopped_search()):
            await super().action_look_back()

    def go_back(self) -> bool:
        narrows = self.event_filter.narrows
        if narrows:
            self.filter_by(kind="", job="", text="")
        return narrows
