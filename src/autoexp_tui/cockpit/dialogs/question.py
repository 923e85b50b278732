"""What every overlay shares, and the dialog that asks before anything is done.

Enter presses the stay button; `y` confirms. For the first 300 ms every key is ignored,
as after enter in a field and behind a question with a field: a key held down confirms
nothing, and what is typed on is no command of the screen below."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.reactive import Reactive
from textual.screen import ModalScreen
from textual.widget import Widget

from autoexp_tui.cockpit.keymap import find_move, parse_key
from autoexp_tui.cockpit.render.layout import Box
from autoexp_tui.cockpit.render.questions import AnswerError, Choice, Question
from autoexp_tui.cockpit.spans import Line, Role, Span, line, pad, width, wrap
from autoexp_tui.cockpit.widgets.bars import Prompt, Typed
from autoexp_tui.cockpit.widgets.pane import (
    LinesWidget,
    Painted,
    count_lines_moved,
    set_place,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.model.commands import Command

Result = TypeVar("Result")
_ALL_LINES: Final = 10**9
"""As far as there is anything."""


class Frame(LinesWidget, can_focus=True):
    """The box: a title in its upper edge, a body that scrolls, lines that stay."""

    def __init__(self, overlay: Overlay[object]) -> None:
        super().__init__(overlay.context, id="frame")
        self._overlay = overlay
        self.top = 0

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        overlay, inner = self._overlay, cells - 4
        fixed, body = overlay.build_fixed(inner), overlay.build_body(inner)
        room = max(1 if body else 0, rows - 2 - len(fixed))
        self.top = max(0, min(self.top, len(body) - room))
        shown = [*body[self.top : self.top + room]]
        shown += [()] * (room - len(shown))
        place: Line = ()
        if len(body) > room:
            last = min(self.top + room, len(body))
            place = (Span(f" {self.top + 1}-{last} of {len(body)}, j k ", "muted"),)
        edge = Span("│", overlay.edge_role)
        return [
            Painted(self._build_edge("┌", "┐", overlay.build_title(), cells)),
            *(
                Painted((edge, Span(" "), *pad(one, inner), Span(" "), edge))
                for one in (*shown, *fixed)
            ),
            Painted(self._build_edge("└", "┘", place, cells)),
        ]

    def _build_edge(self, left: str, right: str, words: Line, cells: int) -> Line:
        role = self._overlay.edge_role
        used = sum(len(span.text) for span in words)
        fill = "─" * max(0, cells - 3 - used)
        return (Span(f"{left}─", role), *words, Span(f"{fill}{right}", role))

    def scroll_lines(self, lines: int) -> None:
        self.top = max(0, self.top + lines)
        self.update_lines()

    def show_rows(self, first: int, after: int) -> None:
        """Scroll as little as shows the lines of the body from `first` to `after`."""
        size = self._overlay.box_size
        room = size.height - 2 - len(self._overlay.build_fixed(size.width - 4))
        self.top = min(first, max(self.top, after - room))
        self.update_lines()

    async def on_click(self, event: events.Click) -> None:
        overlay, size = self._overlay, self.size
        fixed = overlay.build_fixed(size.width - 4)
        row = event.y - 1
        if 0 <= (place := row - (size.height - 2 - len(fixed))) < len(fixed):
            await overlay.click_fixed(place, fixed[place], event.x - 2)
        elif row >= 0 and place < 0:
            overlay.click_body(self.top + row)


class Overlay(ModalScreen[Result], Generic[Result], inherit_bindings=False):
    """A box over the screen; subclasses say what stands in it and take its keys."""

    AUTO_FOCUS = "#frame"
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    edge_role: Role = "rule"
    most_cells: int = 100
    """Columns of the box where the screen has more."""
    button_key: str = "enter"
    """What a click on the button stands for."""
    deaf_seconds: float = 0.0
    """For how long the app is to take no key, once this is closed."""

    def __init__(self, context: CockpitContext) -> None:
        super().__init__()
        self.context = context
        self.frame = Frame(cast("Overlay[object]", self))
        self.field: Prompt | None = None
        self.box_size = Size()
        """Of the box as it was placed last, whether it is drawn so yet or not."""
        self._is_finished = False

    def compose(self) -> ComposeResult:
        yield self.frame
        if self.field is not None:
            yield self.field

    def on_mount(self) -> None:
        self.layout_box()

    def on_resize(self) -> None:
        self.layout_box()

    def finish(self, result: Result | None) -> None:
        """Close with a result; keys that come after the first count no more."""
        if not self._is_finished:
            self._is_finished = True
            self.dismiss(cast("Result", result))

    async def take_key(self, event: Typed) -> None:
        if isinstance(event, events.Key):
            await self.process_key(event)
        elif self.field is not None and self.field.display:
            await self.field.take(event)

    async def process_key(self, event: events.Key) -> None:
        """Act on a key."""
        raise NotImplementedError

    async def click_fixed(self, place: int, content: Line, cell: int) -> None:
        """Press the button or the key under a cell of a fixed line, or the one before
        the words there; what is no key does nothing."""
        pressed = ""
        for span in content if cell >= 0 else ():
            if span.role in ("key", "button"):
                pressed, _, _ = span.text.strip().partition(" ")
            cell -= width((span,))
            if cell < 0:
                break
        key = self.button_key if pressed.startswith("[") else parse_key(pressed)
        if key:
            await self.process_key(events.Key(key, None))

    def click_body(self, place: int) -> None:
        """What a click on a line of the body does."""

    def handle_scroll(self, key: str) -> None:
        """Scroll for a key that means it."""
        page = max(1, self.frame.size.height // 2)
        self.frame.scroll_lines(count_lines_moved(find_move(key), page, _ALL_LINES))

    def build_title(self) -> Line:
        """What stands in the upper edge."""
        return ()

    def build_body(self, cells: int) -> Sequence[Line]:
        """Lines that scroll when there are too many."""
        return ()

    def build_fixed(self, cells: int) -> Sequence[Line]:
        """Lines below the body that stay."""
        return ()

    def find_field_row(self) -> int | None:
        """Which of the fixed lines the field lies on; None: no field."""
        return None

    def layout_box(self) -> None:
        """Put the box in the middle, as large as it needs to be."""
        if not self.is_attached:
            return
        size = self.size or self.app.size  # before its own layout it has none
        width = min(size.width - 4, self.most_cells) if size.width > 8 else size.width
        inner = width - 4
        fixed = self.build_fixed(inner)
        needed = len(self.build_body(inner)) + len(fixed) + 2
        height = max(3, min(needed, size.height - 2))
        x, y = (size.width - width) // 2, max(0, (size.height - height) // 3)
        self.box_size = Size(width, height)
        set_place(self.frame, Box(x, y, width, height))
        row = self.find_field_row()
        if self.field is not None:
            self.field.display = row is not None
            if row is not None:
                at = y + height - 1 - len(fixed) + row
                set_place(self.field, Box(x + 4, at, inner - 4, 1))
        self.frame.update_lines()


def build_keys(keys: Iterable[tuple[str, str]]) -> Line:
    """Keys and what they do, in a row behind a button."""
    return tuple(
        part
        for key, words in keys
        for part in (Span(f"   {key}", "key"), Span(f" {words}"))
    )


DEAF_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said: `y` or another of the question's keys."""

    key: str
    command: Command | None = None
    """What that orders, where the question is about a command."""
    choice: str = ""
    """The id of the way that was chosen, where there were several."""
    dropped: tuple[int, ...] = ()
    """Places of the items that are left out of a `y`."""


class QuestionScreen(Overlay[Answer | None]):
    """Asks one question; None when the person stays."""

    button_key = "escape"

    def __init__(self, context: CockpitContext, question: Question) -> None:
        super().__init__(context)
        self.question = question
        self.edge_role = "failed" if question.danger else "accent"
        self._digits = ""
        """The count, as far as it is typed."""
        self._problem = ""
        self._deaf_until = math.inf
        self._chosen = 0
        self._has_picked = False
        self._item = 0
        self._dropped: set[int] = set()
        self._texts = [choice.given for choice in question.choices]
        if any(choice.asks for choice in question.choices):
            self.field = Prompt(value=self._texts[0], id="field")

    def on_mount(self) -> None:
        super().on_mount()
        self._ignore_keys()

    @property
    def choice(self) -> Choice | None:
        choices = self.question.choices
        return choices[self._chosen] if choices else None

    @property
    def text(self) -> str:
        """What is typed for the chosen way."""
        return self.field.value if self.field is not None and self._has_field() else ""

    def _list_texts(self) -> dict[str, str]:
        """What is typed for each way, by its id."""
        typed = {self._chosen: self.field.value} if self.field is not None else {}
        ways = enumerate(self.question.choices)
        return {one.id: typed.get(at, self._texts[at]) for at, one in ways}

    def _has_field(self) -> bool:
        return self.choice is not None and bool(self.choice.asks)

    def build_title(self) -> Line:
        return (Span(f" {self.question.title} ", "strong"),)

    def build_body(self, cells: int) -> Sequence[Line]:
        lines: list[Line] = [()]
        for content in self.question.lines:
            # the further lines of an entry stand in, under its name
            indent = "    " if content and content[0].text.startswith("  ") else ""
            lines += wrap(content, cells, indent)
        for at in range(len(self.question.items)):
            lines += self._build_item(at, cells)
        return [*lines, ()]

    def _build_item(self, at: int, cells: int) -> Sequence[Line]:
        is_void, is_out = at in self.question.void, at in self._dropped
        role: Role = "muted" if is_void or is_out else "text"
        box = "[-]" if is_void else "[ ]" if is_out else "[x]"
        head = f"{'>' if at == self._item else ' '} {box}"
        text = Span(f" {at + 1:>2}  {self.question.items[at]}", role)
        return wrap((Span(head, "accent"), text), cells, " " * 10)

    def _find_item_rows(self) -> list[int]:
        """The lines of the body on which the items begin, and the one behind them."""
        cells, items = self.box_size.width - 4, range(len(self.question.items))
        heights = [len(self._build_item(at, cells)) for at in items]
        first = len(self.build_body(cells)) - 1 - sum(heights)
        return list(accumulate(heights, initial=first))

    def _move_item(self, step: int) -> None:
        """The cursor to another item, in sight; above the first the text scrolls."""
        last = len(self.question.items) - 1
        if not 0 <= self._item + step <= last:
            self.frame.scroll_lines(step)
            return
        self._item += step
        rows = self._find_item_rows()
        self.frame.show_rows(rows[self._item], rows[self._item + 1])

    def _toggle_item(self) -> None:
        """Leave the item under the cursor out, or take it back; what is void is out."""
        is_void = self._item in self.question.void
        self._dropped ^= set() if is_void else {self._item}
        self._refuse("it can no longer be done" if is_void else "")

    def click_body(self, place: int) -> None:
        rows = self._find_item_rows()
        if rows[0] <= place < rows[-1]:
            self._item = bisect_right(rows, place) - 1
            self._toggle_item()

    def build_fixed(self, cells: int) -> Sequence[Line]:
        question, choice, rows = self.question, self.choice, self._build_choices(cells)
        if choice is not None and choice.asks:
            words = Span(f"{choice.asks}  (type it, then enter)", "muted")
            rows += [(words,), (), *question.preview(choice, self.text), ()]
        if question.typed is not None:
            words = Span(f"Type {question.typed} to confirm: ")
            rows += [line(words, Span(f"{self._digits}_", "strong")), ()]
        if self._problem:
            rows += [*wrap((Span(self._problem, "failed"),), cells), ()]
        role: Role = "button" if self.frame.has_focus else "key"
        confirm, items = question.confirm, len(question.items)
        if out := len(self._dropped | question.void):
            confirm = f"{confirm} {items - out} of {items}"
        drop = (("space", "drop a line"),) if items else ()
        keys = build_keys((("y", confirm), *question.others, *drop))
        return [*rows, (Span(f"[{question.stay}]", role), *keys)]

    def _build_choices(self, cells: int) -> list[Line]:
        rows: list[Line] = []
        for place, choice in enumerate(self.question.choices, 1):
            is_chosen = choice is self.choice
            mark = Span("(o) ", "accent") if is_chosen else Span("( ) ", "muted")
            label = Span(choice.label, "text" if is_chosen else "muted")
            if self.question.fill is not None:
                mark = Span("> " if is_chosen else "  ", "accent")
                label = Span(f"{choice.label:<12}{self._list_texts()[choice.id]}")
            number = Span(f"{place} " if place < 10 else "  ", "key")
            rows += wrap((number, mark, label), cells, "      ")
        return [*rows, ()] if rows else []

    def find_field_row(self) -> int | None:
        if not self._has_field():
            return None
        inner = self.box_size.width - 4 if self.box_size.width else 60
        return len(self._build_choices(inner)) + 1

    def _ignore_keys(self) -> None:
        self._deaf_until = self.context.clock.monotonic() + DEAF_SECONDS

    async def process_key(self, event: events.Key) -> None:
        if self.context.clock.monotonic() < self._deaf_until:
            return
        if self.focused is not None and self.focused is self.field:
            await self._handle_key_in_field(event, self.field)
        else:
            await self._process_command(event)

    async def _handle_key_in_field(self, event: events.Key, field: Prompt) -> None:
        """Keys that leave the field, or the dialog; all others are the field's own."""
        if event.key in ("escape", "ctrl+c", "ctrl+q"):
            self._stay()
        elif event.key in ("tab", "shift+tab"):
            self._leave_field()
        elif event.key in ("up", "down"):
            self._choose(self._chosen + (1 if event.key == "down" else -1))
            self._leave_field()
        elif event.key == "enter":
            self._leave_field()
            self._ignore_keys()
        else:
            await field.take(event)

    async def _process_command(self, event: events.Key) -> None:
        has_choices = bool(self.question.choices)
        is_counted = self.question.typed is not None
        match event.key:
            case "escape" | "ctrl+c" | "ctrl+q":
                self._stay()
            case "y":
                self._confirm("y")
            case "tab" | "shift+tab":
                self._enter_field()
            case "down" | "j" if has_choices:
                self._choose(self._chosen + 1)
            case "up" | "k" if has_choices:
                self._choose(self._chosen - 1)
            case "down" | "j" | "up" | "k" if self.question.items:
                self._move_item(1 if event.key in ("down", "j") else -1)
            case "space" if self.question.items:
                self._toggle_item()
            case "backspace" if is_counted:
                self._digits = self._digits[:-1]
                self._refuse("")
            case key if key.isdecimal() and is_counted:
                self._digits = (self._digits + key)[:6]
                self._refuse("")
            case key if has_choices and self._is_digit(key):
                self._choose(int(key) - 1)
            case key if key in dict(self.question.others):
                self._confirm(key)
            case "enter":
                self._press_stay()
            case _ if event.is_printable and self.field and self._has_field():
                self._enter_field()
                await self._handle_key_in_field(event, self.field)
            case "n" | "q":
                self._stay()
            case key:
                self.handle_scroll(key)

    def _is_digit(self, key: str) -> bool:
        """Whether a key picks a way: a digit, unless it begins the text of one that
        was picked."""
        known = key in "123456789"[: len(self.question.choices)]
        return known and not (self._has_field() and (self._has_picked or self.text))

    def _press_stay(self) -> None:
        """Press the stay button; where a text is wanted, see to that first."""
        if self._has_field() and self.text.strip():
            self._refuse(f"Enter does nothing here: y {self.question.confirm}")
        elif self._has_field() and self.choice and not self.choice.optional:
            self._enter_field()
        else:
            self._stay()

    def _stay(self) -> None:
        if self.field is not None:
            self.deaf_seconds = DEAF_SECONDS
        self.finish(None)

    def _choose(self, place: int) -> None:
        """Choose a way; what was typed for the one of before is kept."""
        if self.field is not None:
            self._texts[self._chosen] = self.field.value
        self._has_picked = True
        self._chosen = place % len(self.question.choices)
        if self.field is not None:
            self.field.value = self._texts[self._chosen]
        self._refuse("")

    def _enter_field(self) -> None:
        if self.field is not None and self._has_field():
            self.set_focus(self.field, scroll_visible=False)

    def _leave_field(self) -> None:
        self.set_focus(self.frame, scroll_visible=False)

    def _confirm(self, key: str) -> None:
        wanted, choice, build = self.question.typed, self.choice, self.question.build
        items = set(range(len(self.question.items))) - self.question.void
        if key == "y" and wanted is not None and self._digits != str(wanted):
            self._refuse(f"type {wanted} first: that many jobs would end")
        elif key == "y" and items and items <= self._dropped:
            self._refuse("every line is dropped: x refuses all of it")
        elif choice and choice.asks and not (choice.optional or self.text.strip()):
            self._refuse(f"type the {choice.asks.split(',')[0]} first")
        else:
            try:
                command = build(choice, self.text) if build and choice else None
                if self.question.fill is not None:
                    command = self.question.fill(self._list_texts())
            except AnswerError as error:
                self._refuse(str(error))
            else:
                dropped = tuple(sorted(self._dropped)) if key == "y" else ()
                self.finish(Answer(key, command, choice.id if choice else "", dropped))

    def _refuse(self, problem: str) -> None:
        """Say why not; empty: nothing is wrong."""
        self._problem = problem
        self.layout_box()

    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        self._refuse("")
