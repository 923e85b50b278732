"""A screen that has a log pane, and what the log's keys do there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.ui.screens.base import BoxScreen

if TYPE_CHECKING:
    from autoexp_tui.ui.screens.question import Answered
    from autoexp_tui.ui.widgets.log_pane import LogPane


class LogScreen(BoxScreen):
    """Shows a log, among other things."""

    logs: LogPane

    def on_log_pane_said(self, message: LogPane.Said) -> None:
        message.stop()
        self.say(message.text, "warning" if message.bad else "accent")


def ask_search(screen: LogScreen) -> None:
    """Ask what to look for in the log; its own keys go on from there."""
    logs = screen.logs

    def back() -> None:
        logs.focus(scroll_visible=False)

    def search(text: str) -> None:
        back()
        logs.search(text)

    screen.prompt("search", "a regular expression", "", search, given_up=back)


def save_log(screen: LogScreen) -> None:
    """Save a copy of the log; ask first where it is large."""
    from autoexp_tui.ui.screens.question import QuestionScreen
    from autoexp_tui.ui.view.questions import save_question

    logs, directory = screen.logs, screen.cockpit.options.save_directory
    if not logs.path:
        screen.say("no log to save: this job has not begun", "warning")
        return
    question = save_question(logs.path, logs.copy_in(directory), logs.file_size)
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
        "log.stream": lambda screen: screen.logs.next_source(),
        "log.save": save_log,
    }
)
"""By command id."""
