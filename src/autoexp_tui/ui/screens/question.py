"""The dialog that asks before anything is done.

The stay button has the focus, and enter presses that. `y` confirms. For the first
300 ms every key is ignored, so that a key held down, or meant for what was there
before, confirms nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events

from autoexp_tui.ui.screens.overlay import Overlay
from autoexp_tui.ui.view.orders import NotThat
from autoexp_tui.ui.view.questions import Choice, Question
from autoexp_tui.ui.view.spans import Line, Span, line, wrap
from autoexp_tui.ui.widgets.bars import Prompt

if TYPE_CHECKING:
    from autoexp_tui.ui.themes import Skin

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
        self._deaf_until = 0.0
        self._texts = [choice.given for choice in question.choices]

    def on_mount(self) -> None:
        super().on_mount()
        self._deaf_until = self.cockpit.clock.monotonic() + DEAF_SECONDS
        if any(choice.asks for choice in self.question.choices):
            self.field = Prompt(id="field")
            self.mount(self.field)
            self._choose(0)

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
            rows += [(Span(f"{choice.asks}  (tab, then enter)", "muted"),), ()]
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

    def on_key(self, event: events.Key) -> None:
        if self.field is not None and self.field.has_focus:
            self._hear_in_field(event)
            return
        event.stop()
        event.prevent_default()
        if self.deaf:
            return
        self._hear(event.key)

    def _hear_in_field(self, event: events.Key) -> None:
        """Keys that leave the field; all others are the field's own."""
        if event.key in ("tab", "shift+tab", "ctrl+c", "ctrl+q"):
            self.frame.focus(scroll_visible=False)
        elif event.key in ("up", "down"):
            self._choose(self.place_of_choice + (1 if event.key == "down" else -1))
            self.frame.focus(scroll_visible=False)
        else:
            return
        event.stop()
        event.prevent_default()

    def _hear(self, key: str) -> None:
        match key:
            case "enter" | "escape" | "n" | "q" | "ctrl+c" | "ctrl+q":
                self.finish(None)
            case "y":
                self._confirm("y")
            case "tab" | "shift+tab":
                self._to_field()
            case "down" | "j" if self.question.choices:
                self._choose(self.place_of_choice + 1)
            case "up" | "k" if self.question.choices:
                self._choose(self.place_of_choice - 1)
            case "backspace":
                self._type(self.typed[:-1])
            case _ if key.isdecimal() and len(key) == 1:
                self._type(self.typed + key)
            case _ if key in dict(self.question.others):
                self._confirm(key)
            case _:
                self.scroll_key(key)

    def _type(self, typed: str) -> None:
        if self.question.typed is not None:
            self.typed = typed[:6]
            self.problem = ""
            self.place()

    def _choose(self, place: int) -> None:
        self.place_of_choice = place % len(self.question.choices)
        self.problem = ""
        if self.field is not None:
            self.field.value = self.text
        self.place()

    def _to_field(self) -> None:
        if self.field is not None and self.field.display:
            self.field.focus(scroll_visible=False)

    def _confirm(self, key: str) -> None:
        wanted = self.question.typed
        choice = self.choice
        if key == "y" and wanted is not None and self.typed != str(wanted):
            self._refuse(f"type {wanted} first: that many jobs would end")
            return
        if choice and choice.asks and not choice.optional and not self.text.strip():
            self._refuse(f"tab, and type the {choice.asks.split(',')[0]}, first")
            return
        try:
            if self._check is not None:
                self._check(choice, self.text)
        except NotThat as error:
            self._refuse(str(error))
            return
        self.finish(Answered(key, choice, self.text))

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self.place()

    # ------------------------------------------------------------------------ field
    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        if event.input is self.field and self._texts:
            self._texts[self.place_of_choice] = event.value
            self.problem = ""
            self.place()

    def on_prompt_answered(self, message: Prompt.Answered) -> None:
        message.stop()
        self.frame.focus(scroll_visible=False)
        self._deaf_until = self.cockpit.clock.monotonic() + DEAF_SECONDS
