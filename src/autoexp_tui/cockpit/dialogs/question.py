"""The dialog that asks before anything is done.

The stay button has the focus, and enter presses that. `y` confirms. For the first
300 ms every key is ignored, so that a key held down, or meant for what was there
before, confirms nothing; so it is after enter in a field, and behind a question in
which something can be typed: what is typed on is no command of the screen below. A way
that asks for a text takes letters into its field, whether tab was pressed or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events

from autoexp_tui.cockpit.dialogs.overlay import Overlay
from autoexp_tui.cockpit.render.questions import Choice, Question
from autoexp_tui.cockpit.spans import Line, Span, line, wrap
from autoexp_tui.cockpit.state.answers import AnswerError
from autoexp_tui.cockpit.widgets.bars import Prompt

if TYPE_CHECKING:
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.cockpit.widgets.bars import Typed

DEAF_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Answered:
    """What a person said: `y` or another of the question's keys."""

    key: str
    choice: Choice | None = None
    text: str = ""


Check = Callable[[Choice | None, str], object]
"""Raises `NotThat` when what was typed cannot be meant."""
Preview = Callable[[Choice, str], Sequence[Line]]
"""Lines that show what a typed text would change."""


def _hung(content: Line) -> str:
    """How far the further lines of an entry stand in: under its name."""
    return "    " if content[0].text.startswith("  ") else ""


class QuestionScreen(Overlay[Answered | None]):
    """Asks one question; None when the person stays."""

    def __init__(
        self,
        skin: Skin,
        question: Question,
        check: Check | None = None,
        preview: Preview | None = None,
    ) -> None:
        super().__init__(skin)
        self.question = question
        self.edge_role = "failed" if question.danger else "accent"
        self.place_of_choice = 0
        self.typed = ""
        self.problem = ""
        self._check = check
        self._preview = preview
        self._deaf_until = math.inf
        self._in_field = False
        self._texts = [choice.given for choice in question.choices]
        if any(choice.asks for choice in question.choices):
            self.field = Prompt(id="field")

    def on_mount(self) -> None:
        super().on_mount()
        self._be_deaf()
        if self.field is not None:
            self._choose(0)

    def turn_into(self, question: Question) -> None:
        """Show the same question with more that is known; what is typed stays."""
        self.question = question
        if self.is_attached:
            self.place()

    @property
    def choice(self) -> Choice | None:
        """The way that is chosen."""
        choices = self.question.choices
        return choices[self.place_of_choice] if choices else None

    # ---------------------------------------------------------------------- drawing
    def heading(self) -> Line:
        return (Span(f" {self.question.title} ", "strong"),)

    def body(self, cells: int) -> Sequence[Line]:
        lines = [
            row
            for content in self.question.lines
            for row in (wrap(content, cells, _hung(content)) if content else ((),))
        ]
        return [(), *lines, ()]

    def fixed(self, cells: int) -> Sequence[Line]:
        return [*self._choices(cells), *self._extras(cells), self._buttons()]

    def _choices(self, cells: int) -> Sequence[Line]:
        rows: list[Line] = []
        for place, choice in enumerate(self.question.choices):
            chosen = place == self.place_of_choice
            mark = Span("(o) " if chosen else "( ) ", "accent" if chosen else "muted")
            role = Span(choice.label, "text" if chosen else "muted")
            rows += wrap((mark, role), cells, "    ")
        if rows:
            rows.append(())
        return rows

    def _extras(self, cells: int) -> Sequence[Line]:
        rows: list[Line] = []
        choice = self.choice
        if choice is not None and choice.asks:
            rows += [(Span(f"{choice.asks}  (type it, then enter)", "muted"),), ()]
            if self._preview is not None:
                rows += self._preview(choice, self.text)
            rows.append(())
        if self.question.typed is not None:
            rows += [self._count_line(self.question.typed), ()]
        if self.problem:
            rows += [*wrap((Span(self.problem, "failed"),), cells), ()]
        return rows

    def _count_line(self, wanted: int) -> Line:
        return line(
            Span(f"Type {wanted} to confirm: "),
            Span(f"{self.typed}_", "strong"),
        )

    def _buttons(self) -> Line:
        focused = self.frame.has_focus
        stay = Span(f"[{self.question.stay}]", "button" if focused else "key")
        others = tuple(
            part
            for key, words in self.question.others
            for part in (Span(f"   {key}", "key"), Span(f" {words}"))
        )
        return (stay, Span("   y", "key"), Span(f" {self.question.confirm}"), *others)

    def field_row(self) -> int | None:
        choice = self.choice
        if choice is None or not choice.asks:
            return None
        return len(self._choices(self._inner())) + 1

    def _inner(self) -> int:
        return self._boxes["frame"].width - 4 if self._boxes else 60

    # ------------------------------------------------------------------------- keys
    @property
    def deaf(self) -> bool:
        """Whether keys are still ignored."""
        return self.cockpit.clock.monotonic() < self._deaf_until

    @property
    def text(self) -> str:
        """What is typed for the chosen way."""
        return self._texts[self.place_of_choice] if self._texts else ""

    def _be_deaf(self) -> None:
        self._deaf_until = self.cockpit.clock.monotonic() + DEAF_SECONDS

    def hear(self, event: Typed) -> None:
        super().hear(event)
        if self.field is not None and self._asks:
            self._texts[self.place_of_choice] = self.field.value

    def press(self, event: events.Key) -> None:
        if self.deaf:
            return
        if self._in_field:
            self._press_in_field(event)
        else:
            self._press(event)

    def _press_in_field(self, event: events.Key) -> None:
        """Keys that leave the field; all others are the field's own."""
        if event.key in ("tab", "shift+tab", "ctrl+c", "ctrl+q"):
            self._leave_field()
        elif event.key in ("up", "down"):
            self._choose(self.place_of_choice + (1 if event.key == "down" else -1))
            self._leave_field()
        elif event.key in ("enter", "escape"):
            self._leave_field()
            self._be_deaf()
        elif self.field is not None:
            self.field.take(event)

    def _press(self, event: events.Key) -> None:
        match event.key:
            case "escape" | "ctrl+c" | "ctrl+q":
                self._stay()
            case "y":
                self._confirm("y")
            case "tab" | "shift+tab":
                self._to_field()
            case "down" | "j" if self.question.choices:
                self._choose(self.place_of_choice + 1)
            case "up" | "k" if self.question.choices:
                self._choose(self.place_of_choice - 1)
            case "backspace" if self.question.typed is not None:
                self._type(self.typed[:-1])
            case key if key.isdecimal() and self.question.typed is not None:
                self._type(self.typed + key)
            case key if key in dict(self.question.others):
                self._confirm(key)
            case "enter":
                self._enter()
            case _ if event.is_printable and self._asks:
                self._to_field()
                self._press_in_field(event)
            case "n" | "q":
                self._stay()
            case key:
                self.scroll_key(key)

    def _enter(self) -> None:
        """Press the stay button; where a text is wanted, see to that first."""
        if self._asks and self.text.strip():
            self._refuse(f"Enter does nothing here: y {self.question.confirm}")
        elif self._asks and self.choice and not self.choice.optional:
            self._to_field()
        else:
            self._stay()

    def _stay(self) -> None:
        """Close, and change nothing."""
        if self.field is not None:
            self.cockpit.be_deaf(DEAF_SECONDS)
        self.finish(None)

    def _type(self, typed: str) -> None:
        self.typed = typed[:6]
        self.problem = ""
        self.place()

    def _choose(self, place: int) -> None:
        self.place_of_choice = place % len(self.question.choices)
        self.problem = ""
        if self.field is not None:
            self.field.value = self.text
        self.place()

    @property
    def _asks(self) -> bool:
        """Whether the chosen way has a field."""
        return self.choice is not None and bool(self.choice.asks)

    def _to_field(self) -> None:
        if self.field is not None and self._asks:
            self._in_field = True
            self.set_focus(self.field, scroll_visible=False)

    def _leave_field(self) -> None:
        self._in_field = False
        self.set_focus(self.frame, scroll_visible=False)

    def _confirm(self, key: str) -> None:
        wanted = self.question.typed
        choice = self.choice
        if key == "y" and wanted is not None and self.typed != str(wanted):
            self._refuse(f"type {wanted} first: that many jobs would end")
            return
        if choice and choice.asks and not choice.optional and not self.text.strip():
            self._refuse(f"type the {choice.asks.split(',')[0]} first")
            return
        try:
            if self._check is not None:
                self._check(choice, self.text)
        except AnswerError as error:
            self._refuse(str(error))
            return
        self.finish(Answered(key, choice, self.text))

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self.place()

    # ------------------------------------------------------------------------ field
    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        self.problem = ""
        self.place()
