"""A screen that has a log pane, and what the log's keys do there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.logfile import search_pattern
from autoexp_tui.cockpit.render.layout import Box, Boxes
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.widgets.bars import ProblemLine
from autoexp_tui.text.patterns import PatternRefused

if TYPE_CHECKING:
    from textual.geometry import Size

    from autoexp_tui.cockpit.dialogs.question import Answered
    from autoexp_tui.cockpit.widgets.log_pane import LogPane


class LogScreen(BoxScreen):
    """Shows a log, among other things."""

    logs: LogPane
    checked: Callable[[str], str] | None = None
    """What is wrong with a text that is being typed, where that is asked."""

    def with_problem(self, boxes: Boxes, size: Size) -> Boxes:
        """`boxes`, with one above the prompt while a problem is told there."""
        if self.prompting is None or not self.query_one(ProblemLine).problem:
            return boxes
        return {**boxes, "problem": Box(0, size.height - 2, size.width, 1)}

    def tell_problem(self, problem: str) -> None:
        """Show what is wrong with what is being typed, above it; empty: nothing."""
        self.query_one(ProblemLine).tell(problem)
        self.place()

    def answer_prompt(self, text: str) -> None:
        """What cannot be meant is told, and stays to be mended."""
        problem = self.checked(text) if self.checked else ""
        self.tell_problem(problem)
        if not problem:
            super().answer_prompt(text)

    def close_prompt(self) -> None:
        self.checked = None
        self.tell_problem("")
        super().close_prompt()

    def on_log_pane_said(self, message: LogPane.Said) -> None:
        message.stop()
        self.say(message.text, "warning" if message.bad else "accent")


def search_problem(text: str) -> str:
    """Why a text cannot be searched for, in words; empty when it can."""
    try:
        search_pattern(text)
    except PatternRefused as refused:
        problem = refused.problem
        return outside(f"the pattern {problem}; \\ before a sign takes it as it is")
    return ""


def ask_search(screen: LogScreen) -> None:
    """Ask what to look for in the log; its own keys go on from there."""
    logs = screen.logs

    def back() -> None:
        screen.set_focus(logs, scroll_visible=False)

    def search(text: str) -> None:
        back()
        logs.search(text)

    screen.checked = search_problem
    screen.prompt(
        "search",
        "a regular expression",
        "",
        search,
        preview=lambda _: screen.tell_problem(""),
        given_up=back,
    )


def tell_streams(screen: LogScreen) -> None:
    """Where stderr is: the wrapper lets both streams write into one file."""
    if screen.logs.path:
        screen.say("stdout and stderr are both in this file, in the order written")
    else:
        screen.say("no log yet; stdout and stderr will be in one file")


def save_log(screen: LogScreen) -> None:
    """Save a copy of the log; ask first where it is large."""
    from autoexp_tui.cockpit.dialogs.question import QuestionScreen
    from autoexp_tui.cockpit.render.questions import ask_save

    logs, directory = screen.logs, screen.cockpit.options.save_directory
    if not logs.path:
        screen.say("no log to save: this job has not begun", "warning")
        return
    question = ask_save(logs.path, logs.copy_in(directory), logs.file_size)
    if question is None:
        logs.save(directory)
        return

    def answered(answer: Answered | None) -> None:
        if answer is not None:
            logs.save(directory)

    screen.cockpit.push_screen(QuestionScreen(screen.cockpit.skin, question), answered)


LOG_COMMANDS: Final[Mapping[str, Callable[[LogScreen], object]]] = MappingProxyType(
    {
        "log.follow": lambda screen: screen.logs.set_follow(on=not screen.logs.follow),
        "log.search": ask_search,
        "log.next": lambda screen: screen.logs.seek(forward=True),
        "log.previous": lambda screen: screen.logs.seek(forward=False),
        "log.error": lambda screen: screen.logs.seek(forward=True, errors=True),
        "log.error_before": lambda screen: screen.logs.seek(forward=False, errors=True),
        "log.wrap": lambda screen: screen.logs.set_wrap(),
        "log.time": lambda screen: screen.logs.toggle_time(),
        "log.stream": tell_streams,
        "log.attempt_before": lambda screen: screen.logs.read_attempt(-1),
        "log.attempt_after": lambda screen: screen.logs.read_attempt(1),
        "log.save": save_log,
    }
)
"""By command id."""
