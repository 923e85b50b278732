"""Overlays that only tell: help, differences, what happened meanwhile; the palette."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual import events

from autoexp_tui.cockpit.dialogs.overlay import Overlay, build_keys
from autoexp_tui.cockpit.keymap import (
    HELP_GROUPS,
    Command,
    Keymap,
    Pane,
    display_key,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, fit, wrap
from autoexp_tui.cockpit.widgets.bars import Prompt

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.render.job_details import Page


class ReaderScreen(Overlay[str | None]):
    """Lines to read; any of `passes` closes it and is handed on."""

    edge_role = "accent"

    def __init__(
        self,
        context: CockpitContext,
        title: str,
        lines: Sequence[Line],
        passes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(context)
        self._heading = title
        self._source = lines
        self._passes = passes or {}
        self._wrapped: tuple[int, Sequence[Line], Sequence[Line]] = (-1, (), ())
        """The width and the lines that were wrapped last, and what came of it."""

    def build_title(self) -> Line:
        return (Span(f" {self._heading} ", "strong"),)

    def build_body(self, cells: int) -> Sequence[Line]:
        width, lines, rows = self._wrapped
        if width != cells or lines is not self._source:
            rows = [
                row
                for one in ((), *self._source)
                for row in (wrap(one, cells, "  ") if one else ((),))
            ]
            self._wrapped = cells, self._source, rows
        return rows

    def build_fixed(self, cells: int) -> Sequence[Line]:
        keys = ((display_key(key), words) for key, words in self._passes.items())
        return [(), (Span("[Close]", "button"), *build_keys(keys))]

    async def process_key(self, event: events.Key) -> None:
        if event.key in self._passes:
            self.finish(event.key)
        elif event.key in ("enter", "escape", "q", "question_mark", "ctrl+c", "ctrl+q"):
            self.finish(None)
        else:
            self.handle_scroll(event.key)


class PagesScreen(ReaderScreen):
    """Pages to read: `n` and `p` turn them."""

    most_cells: int = 170

    def __init__(
        self, context: CockpitContext, title: str, pages: Sequence[Page]
    ) -> None:
        super().__init__(context, title, pages[0].lines)
        self.pages = pages
        """What is to be read, as far as it is known."""
        self._at = 0

    def replace_pages(self, pages: Sequence[Page]) -> None:
        """Show as many other pages: those of before were all that was known."""
        self.pages = pages
        self._source = pages[self._at].lines
        if self.is_attached:
            self.layout_box()

    def build_title(self) -> Line:
        page = self.pages[self._at]
        place = f"{self._at + 1} of {len(self.pages)}"
        return (*super().build_title(), Span(f" {page.title}, {place} ", "accent"))

    def build_fixed(self, cells: int) -> Sequence[Line]:
        after = self.pages[(self._at + 1) % len(self.pages)]
        before = self.pages[self._at - 1]
        keys = build_keys((("n", after.title), ("p", before.title)))
        return [(), cut((Span("[Close]", "button"), *keys), cells)]

    async def process_key(self, event: events.Key) -> None:
        step = {"n": 1, "p": -1, "right": 1, "left": -1}.get(event.key, 0)
        if not step:
            await super().process_key(event)
            return
        self._at = (self._at + step) % len(self.pages)
        self._source = self.pages[self._at].lines
        self.frame.top = 0
        self.layout_box()


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
            told = Span(command.help, "strong" if is_chosen else "text")
            rows.append((mark, key, told))
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
