"""Events mode: every command and effect, as sent, and what it said; and the evidence.

What a snapshot does not carry any more is read back from the journal, a page at a
time, when somebody goes up that far or a filter leaves room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.render.event_log import Folder, LogSpot, find_evidence
from autoexp_tui.cockpit.render.layout import Boxes, build_two_boxes
from autoexp_tui.cockpit.screens.log_screen import LOG_COMMANDS, LogScreen
from autoexp_tui.cockpit.state.event_history import (
    EventFilter,
    NoSuchKind,
    Page,
    build_page,
    collect_tokens,
    format_entry,
    parse_filter,
)
from autoexp_tui.cockpit.widgets.bars import ProblemLine
from autoexp_tui.cockpit.widgets.events_panes import (
    EffectPane,
    EventsPane,
    EvidencePane,
)
from autoexp_tui.model.errors import AutoexpError

if TYPE_CHECKING:
    from autoexp_tui.cockpit.background import Background
    from autoexp_tui.cockpit.commands import Pane
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.cockpit.widgets.list_pane import ListPane

PAGE: Final = 2000
"""Records that are read back at a time."""


class EventsScreen(LogScreen):
    """The list above, the effect under the cursor below; evidence over both."""

    COMMANDS_HERE = cast("Mapping[str, Callable[[Any], object]]", LOG_COMMANDS)
    first_pane: Pane = "events"

    def __init__(self, skin: Skin, desk: Desk, background: Background) -> None:
        super().__init__("events")
        self.skin = skin
        self.desk = desk
        self._background = background
        self._unreadable = False

    def compose(self) -> ComposeResult:
        self.events_pane = EventsPane(self.skin, self.desk, id="events")
        self.effect = EffectPane(self.skin, self.desk, id="effect")
        self.logs = EvidencePane(self.skin, self._background, id="evidence")
        yield self.events_pane
        yield self.effect
        yield self.logs
        yield ProblemLine(self.skin, id="problem")
        yield from self.frame(self.skin, self.desk)

    def on_mount(self) -> None:
        self.set_interval(1.0, self.tick)

    def tick(self) -> None:
        """A second has passed: ages grow, the log may have."""
        self.pass_time()
        self.logs.tick()

    def boxes_for(self, size: Size) -> Boxes:
        found = build_two_boxes(
            size.width, size.height, "events", "effect", self.enlarged
        )
        return self.with_problem(found, size)

    def renew(self) -> None:
        if not self.is_mounted:
            return
        self.tell_time()
        self.events_pane.renew()
        self.effect.show(self.events_pane.entry())
        self.tell_footer()
        if self.events_pane.wants_more:
            self.read_back()

    def on_list_pane_cursor_moved(self, message: ListPane.CursorMoved) -> None:
        message.stop()
        self.effect.show(self.events_pane.entry())

    # ---------------------------------------------------------------- older events
    def on_events_pane_at_top(self, message: EventsPane.AtTop) -> None:
        message.stop()
        self._unreadable = False
        self.read_back()

    def read_back(self) -> None:
        """Read the page before the oldest event that was looked at."""
        pane, annals = self.events_pane, self.events_pane.annals
        if pane.reading or annals.complete or self._unreadable:
            return
        pane.reading = True
        pane.repaint()
        handle, first, wanted = self.cockpit.handle, annals.first, annals.wanted
        settled = annals.settled
        snapshot = self.desk.session.snapshot

        def work() -> Page:
            records = handle.earlier(first, PAGE)
            return build_page(records, wanted, settled, collect_tokens(snapshot))

        def done(result: Any, problem: BaseException | None) -> None:
            pane.reading = False
            if problem is not None:
                self._not_read(problem)
            elif annals.wanted is wanted and annals.first == first:
                pane.show_older(result)
            self.renew()

        self._background.call("events", work, done)

    def _not_read(self, problem: BaseException) -> None:
        if not isinstance(problem, AutoexpError | OSError):
            raise problem
        self._unreadable = True
        self.say(f"older events cannot be read: {problem}", "warning")

    # --------------------------------------------------------------------- filters
    def want(self, wanted: EventFilter) -> None:
        """Show other events."""
        self._unreadable = False
        self.events_pane.want(wanted)
        self.renew()

    def do_events_all(self) -> None:
        """Every event, or only what a person asked for, was done, or ended."""
        wanted = self.events_pane.wanted
        self.want(replace(wanted, everything=not wanted.everything))

    def do_events_kind(self) -> None:
        """Events of the next kind alone."""
        self.want(self.events_pane.wanted.next_kind(1))

    def do_events_kind_before(self) -> None:
        """Events of the kind before."""
        self.want(self.events_pane.wanted.next_kind(-1))

    def do_events_same_job(self) -> None:
        """Events of this job alone, or of all."""
        wanted, entry = self.events_pane.wanted, self.events_pane.entry()
        names = entry.jobs if entry is not None else ()
        if wanted.job:
            self.want(replace(wanted, job=""))
        elif names:
            self.want(replace(wanted, job=names[0]))
        else:
            self.say("this event is about no job")

    def do_events_filter(self) -> None:
        """Ask for words, jobs and kinds."""

        def answered(text: str) -> None:
            try:
                self.want(parse_filter(self.events_pane.wanted, text))
            except NoSuchKind as error:
                self.say(f"filter as before: {error}", "warning")

        before = self.events_pane.wanted.text
        self.prompt("filter", "words, job:NAME, kind:submit,error", before, answered)

    # --------------------------------------------------------------------- looking
    def do_events_job(self) -> None:
        """To the job of the event, in the table."""
        entry = self.events_pane.entry()
        jobs = self.desk.session.list_jobs(entry.jobs) if entry else ()
        if not jobs:
            self.say("this event is about no job")
            return
        self.cockpit.to_jobs("jobs")
        self.cockpit.jobs_screen.reveal(jobs[0])

    def do_look_open(self) -> None:
        """The evidence of the event; where there is none, its own words."""
        entry = self.events_pane.entry()
        proof = find_evidence(entry, self.desk.session) if entry is not None else None
        match proof:
            case LogSpot():
                self.show_log(proof)
            case Folder():
                self.cockpit.show_folder(proof.path, proof.job)
            case None:
                self.do_look_larger()

    def do_look_larger(self) -> None:
        if self.enlarged is None:
            self.enlarge("effect")
            self.set_focus(self.effect, scroll_visible=False)

    def show_log(self, spot: LogSpot) -> None:
        """Open a log at a place."""
        self.enlarge("evidence")
        self.logs.read((spot.source,), "", spot.job)
        self.set_focus(self.logs, scroll_visible=False)
        if spot.offset is not None:
            self.logs.go_to(spot.offset)
        elif spot.words:
            self.logs.look_for(spot.words)
        else:
            self.logs.set_follow(on=True)

    def do_look_back(self) -> None:
        """One level back."""
        wanted = self.events_pane.wanted
        if self.focused is self.logs and self.logs.give_up_search():
            return
        if self.enlarged is not None:
            self.enlarge(None)
            self.set_focus(self.events_pane, scroll_visible=False)
        elif self.focused is self.effect:
            self.set_focus(self.events_pane, scroll_visible=False)
        elif wanted.narrows:
            self.want(EventFilter(everything=wanted.everything))
        else:
            self.cockpit.to_jobs("jobs")

    def do_look_copy(self) -> None:
        """Copy the entry under the cursor, or what is seen of the log."""
        entry = self.events_pane.entry()
        if self.focused is self.logs:
            self.cockpit.copy(self.logs.copied())
        elif entry is not None:
            self.cockpit.copy(format_entry(entry, self.desk.session.now))
