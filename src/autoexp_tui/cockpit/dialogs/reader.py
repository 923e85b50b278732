"""Overlays that only tell: help, differences, what happened meanwhile; the palette."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from textual import events

from autoexp_tui.cockpit.commands import COMMANDS, Command, Commands, Pane, spelled
from autoexp_tui.cockpit.dialogs.overlay import Overlay
from autoexp_tui.cockpit.spans import Line, Span, cut, fit, line, wrap
from autoexp_tui.cockpit.widgets.bars import Prompt

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.job_details import Page
    from autoexp_tui.cockpit.themes import Skin


class ReaderScreen(Overlay[str | None]):
    """Lines to read; any of `passes` closes it and is handed on."""

    edge_role = "accent"

    def __init__(
        self,
        skin: Skin,
        title: str,
        lines: Sequence[Line],
        passes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(skin)
        self._title_text = title
        self._all = lines
        self._passes = passes or {}
        self._wrapped: tuple[int, Sequence[Line], Sequence[Line]] = (-1, (), ())
        """The width and the lines that were wrapped last, and what came of it."""

    def heading(self) -> Line:
        return (Span(f" {self._title_text} ", "strong"),)

    def body(self, cells: int) -> Sequence[Line]:
        width, lines, rows = self._wrapped
        if width != cells or lines is not self._all:
            rows = [(), *_wrapped(self._all, cells)]
            self._wrapped = cells, self._all, rows
        return rows

    def fixed(self, cells: int) -> Sequence[Line]:
        extra = tuple(
            part
            for key, words in self._passes.items()
            for part in (Span(f"   {spelled(key)}", "key"), Span(f" {words}"))
        )
        return [(), (Span("[Close]", "button"), *extra)]

    def press(self, event: events.Key) -> None:
        if event.key in self._passes:
            self.finish(event.key)
        elif event.key in ("enter", "escape", "q", "question_mark", "ctrl+c", "ctrl+q"):
            self.finish(None)
        else:
            self.scroll_key(event.key)


def _wrapped(lines: Sequence[Line], cells: int) -> Iterator[Line]:
    for content in lines:
        yield from wrap(content, cells, "  ") if content else ((),)


class PagesScreen(ReaderScreen):
    """Pages to read: `n` and `p` turn them."""

    widest = 170

    def __init__(self, skin: Skin, title: str, pages: Sequence[Page]) -> None:
        super().__init__(skin, title, pages[0].lines)
        self.pages = pages
        """What is to be read, as far as it is known."""
        self._at = 0

    def turn_into(self, pages: Sequence[Page]) -> None:
        """Show as many other pages: those of before were all that was known."""
        self.pages = pages
        self._all = pages[self._at].lines
        if self.is_attached:
            self.place()

    def heading(self) -> Line:
        page = self.pages[self._at]
        place = f"{self._at + 1} of {len(self.pages)}"
        return (
            Span(f" {self._title_text} ", "strong"),
            Span(f" {page.title}, {place} ", "accent"),
        )

    def fixed(self, cells: int) -> Sequence[Line]:
        number = len(self.pages)
        ways = (
            ("n", self.pages[(self._at + 1) % number]),
            ("p", self.pages[self._at - 1]),
        )
        keys = tuple(
            part
            for key, page in ways
            for part in (Span(f"   {key}", "key"), Span(f" {page.title}"))
        )
        return [(), cut((Span("[Close]", "button"), *keys), cells)]

    def press(self, event: events.Key) -> None:
        step = {"n": 1, "p": -1, "right": 1, "left": -1}.get(event.key, 0)
        if not step:
            super().press(event)
            return
        self._at = (self._at + step) % len(self.pages)
        self._all = self.pages[self._at].lines
        self.frame.top = 0
        self.place()


def help_lines(commands: Commands, *, replay: bool = False) -> Sequence[Line]:
    """The command table, as a person reads it; in a replay its own keys come first."""
    lines: list[Line] = []
    group = ""
    groups = sorted(_GROUPS, key=lambda group: not (replay and group == "Replay"))
    for command in sorted(commands, key=lambda one: groups.index(one.group)):
        if command.group != group:
            group = command.group
            heading = _ACT if group == "Act" else group
            lines += [(), (Span(heading, "title"),)]
        lines.append(_help_line(command, commands))
    return lines[1:]


_ACT = "Act (upper case; all but P and U ask first)"
_GROUPS = (
    "Act",
    "Look",
    "Move",
    "Log",
    "Metrics",
    "Events",
    "Time-line",
    "Replay",
    "Cockpit",
)


def _help_line(command: Command, commands: Commands) -> Line:
    keys = " ".join(spelled(key) for key in commands.keys(command.id))
    return line(
        Span(f"  {fit(keys, 16)} ", "key"),
        Span(command.help),
        Span(f"   {command.id}", "muted"),
    )


class PaletteScreen(Overlay[str | None]):
    """Finds a command by its words; enter carries it out."""

    AUTO_FOCUS = "#field"
    edge_role = "accent"
    SHOWN = 12

    def __init__(
        self, skin: Skin, commands: Commands, pane: Pane, *, replay: bool = False
    ) -> None:
        super().__init__(skin)
        self.commands = commands
        self._pane = pane
        self._replay = replay
        self._chosen = 0
        self.field: Prompt = Prompt(id="field", placeholder="a command")

    def found(self) -> list[Command]:
        """The commands that have every typed word."""
        words = self.field.value.lower().split()
        return [
            command
            for command in self.commands.at(self._pane, replay=self._replay)
            if command.group != "Move" or words
            if all(word in _searched(command) for word in words)
        ]

    def heading(self) -> Line:
        return (Span(" Commands ", "strong"),)

    def fixed(self, cells: int) -> Sequence[Line]:
        rows: list[Line] = [(Span(":", "key"),), ()]
        found = self.found()
        first = max(0, min(self._chosen - self.SHOWN + 1, len(found) - self.SHOWN))
        for place in range(first, first + self.SHOWN):
            chosen = place == self._chosen
            rows.append(self._row(found[place], chosen) if place < len(found) else ())
        return rows

    def _row(self, command: Command, chosen: bool) -> Line:  # noqa: FBT001
        mark = Span("> " if chosen else "  ", "accent")
        return line(
            mark,
            Span(fit(self.commands.key(command.id), 10), "key"),
            Span(command.help, "strong" if chosen else "text"),
        )

    def field_row(self) -> int | None:
        return 0

    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        self._chosen = 0
        self.place()

    def press(self, event: events.Key) -> None:
        step = {"down": 1, "up": -1}.get(event.key, 0)
        if event.key in ("escape", "ctrl+c", "ctrl+q"):
            self.finish(None)
        elif event.key == "enter":
            found = self.found()
            self.finish(found[self._chosen].id if found else None)
        elif step:
            self._chosen = max(0, min(self._chosen + step, len(self.found()) - 1))
            self.place()
        else:
            self.field.take(event)


def _searched(command: Command) -> str:
    return f"{command.id} {command.label} {command.help}".lower()


def carry_on(run: Callable[[str], None]) -> Callable[[str | None], None]:
    """Runs what the palette found, and nothing when it was closed."""

    def done(found: str | None) -> None:
        if found is not None and found in COMMANDS:
            run(found)

    return done
