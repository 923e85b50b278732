"""Overlays that only tell: help, how jobs are made; and the palette.

What the plan tells of a job is shown at once; records of megabytes are read off the
screen's thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from textual import events

from autoexp_tui.cockpit.context import KEEP
from autoexp_tui.cockpit.dialogs.overlay import Overlay, build_keys
from autoexp_tui.cockpit.keymap import (
    HELP_GROUPS,
    Command,
    Keymap,
    Pane,
    display_key,
)
from autoexp_tui.cockpit.render.job_details import (
    Page,
    build_pages,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, fit, outside, wrap
from autoexp_tui.cockpit.widgets.bars import Prompt
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.planning.job_details import JobDetails

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.state.session import JobView


class ReaderScreen(Overlay[str | None]):
    """Pages, which `n` and `p` turn; any of `passes` closes it and is handed on."""

    edge_role = "accent"

    def __init__(
        self,
        context: CockpitContext,
        title: str,
        pages: Sequence[Page],
        passes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(context)
        self.pages = pages
        """What is to be read, as far as it is known."""
        self.most_cells = 170 if len(pages) > 1 else 100
        self._heading = title
        self._passes = passes or {}
        self._at = 0

    def replace_pages(self, pages: Sequence[Page]) -> None:
        """Show as many other pages: those of before were all that was known."""
        self.pages = pages
        if self.is_attached:
            self.layout_box()

    def build_title(self) -> Line:
        heading = Span(f" {self._heading} ", "strong")
        if len(self.pages) == 1:
            return (heading,)
        place = f"{self._at + 1} of {len(self.pages)}"
        return (heading, Span(f" {self.pages[self._at].title}, {place} ", "accent"))

    def build_body(self, cells: int) -> Sequence[Line]:
        return _wrap_page(self.pages[self._at], cells)

    def build_fixed(self, cells: int) -> Sequence[Line]:
        keys = [(display_key(key), words) for key, words in self._passes.items()]
        if len(self.pages) > 1:
            after = self.pages[(self._at + 1) % len(self.pages)]
            keys += [("n", after.title), ("p", self.pages[self._at - 1].title)]
        return [(), cut((Span("[Close]", "button"), *build_keys(keys)), cells)]

    async def process_key(self, event: events.Key) -> None:
        step = {"n": 1, "p": -1, "right": 1, "left": -1}.get(event.key, 0)
        if event.key in self._passes:
            self.finish(event.key)
        elif step and len(self.pages) > 1:
            self._at = (self._at + step) % len(self.pages)
            self.frame.top = 0
            self.layout_box()
        elif event.key in ("enter", "escape", "q", "question_mark", "ctrl+c", "ctrl+q"):
            self.finish(None)
        else:
            self.handle_scroll(event.key)


@lru_cache(maxsize=4)
def _wrap_page(page: Page, cells: int) -> Sequence[Line]:
    rows = (wrap(one, cells, "  ") if one else ((),) for one in ((), *page.lines))
    return [row for wrapped in rows for row in wrapped]


async def show_job_details(
    context: CockpitContext, app: App[Any], jobs: Sequence[JobView]
) -> None:
    """Show how a job was made, or what differs between two; a fault closes nothing."""
    plan, read = context.model.session.snapshot.plan, context.options.details
    if plan is None:
        return
    specs = [job.record.spec for job in jobs]
    title = "What differs" if len(specs) == 2 else "How it is made"
    screen = ReaderScreen(context, title, build_pages(plan, specs))
    await app.push_screen(screen)

    def work() -> Sequence[Page]:
        none = "Nothing but the plan is at hand here: the config was not read."
        found = [
            read(plan, one) if read else JobDetails(script=one.command, missing=none)
            for one in specs
        ]
        return build_pages(plan, specs, found)

    try:
        pages = await context.background.fetch("details", work)
    except (AutoexpError, OSError) as problem:
        message = outside(problem, 2000)
        app.notify(message, severity="error", timeout=KEEP)
        lacking = [JobDetails(missing=message, script=(message,)) for _ in specs]
        pages = build_pages(plan, specs, lacking)
    screen.replace_pages(pages)


def list_keys(keymap: Keymap, *, replay: bool = False) -> Sequence[Line]:
    """The command table, as a person reads it; in a replay its own keys come first."""
    groups = sorted(HELP_GROUPS, key=lambda group: not (replay and group == "Replay"))
    lines: list[Line] = []
    for group in groups:
        title = (
            "Act (upper case; all but P and U ask first)" if group == "Act" else group
        )
        lines += [(), (Span(title, "title"),)]
        for one in (one for one in keymap if one.group == group):
            keys = " ".join(display_key(key) for key in keymap.keys(one.id))
            key = Span(f"  {fit(keys, 16)} ", "key")
            lines.append((key, Span(one.help), Span(f"   {one.id}", "muted")))
    return lines[1:]


class PaletteScreen(Overlay[str | None]):
    """Finds a command by its words; enter closes with its id."""

    AUTO_FOCUS = "#field"
    edge_role = "accent"
    ROWS_SHOWN = 12

    def __init__(self, context: CockpitContext, pane: Pane) -> None:
        super().__init__(context)
        self._pane = pane
        self._chosen = 0
        self.field: Prompt = Prompt(id="field", placeholder="a command")

    def find_commands(self) -> list[Command]:
        """The commands that have every typed word."""
        words = self.field.value.lower().split()
        here = self.context.keymap.at(self._pane, replay=self.context.is_replay)
        return [
            one
            for one in here
            if one.group != "Move" or words
            if all(word in f"{one.id} {one.label} {one.help}".lower() for word in words)
        ]

    def build_title(self) -> Line:
        return (Span(" Commands ", "strong"),)

    def build_fixed(self, cells: int) -> Sequence[Line]:
        found = self.find_commands()
        most = self.ROWS_SHOWN
        first = max(0, min(self._chosen - most + 1, len(found) - most))
        rows: list[Line] = []
        for place, command in enumerate(found[first : first + most], first):
            is_chosen = place == self._chosen
            mark = Span("> " if is_chosen else "  ", "accent")
            key = Span(fit(self.context.keymap.key(command.id), 10), "key")
            label = Span(command.help, "strong" if is_chosen else "text")
            rows.append((mark, key, label))
        return [(Span(":", "key"),), (), *rows, *([()] * (most - len(rows)))]

    def find_field_row(self) -> int | None:
        return 0

    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        self._chosen = 0
        self.layout_box()

    async def process_key(self, event: events.Key) -> None:
        step = {"down": 1, "up": -1}.get(event.key, 0)
        found = self.find_commands()
        if event.key in ("escape", "ctrl+c", "ctrl+q"):
            self.finish(None)
        elif event.key == "enter":
            self.finish(found[self._chosen].id if found else None)
        elif step:
            self._chosen = max(0, min(self._chosen + step, len(found) - 1))
            self.layout_box()
        else:
            await self.field.take(event)
