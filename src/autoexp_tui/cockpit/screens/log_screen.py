"""A screen that has a log pane, and what the log's keys do there."""

from __future__ import annotations

from autoexp_tui.cockpit.logfile import compile_search
from autoexp_tui.cockpit.screens.base import BoxScreen, Request
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.text.patterns import PatternRefused


class LogScreen(BoxScreen):
    """Shows a log, among other things."""

    logs: LogPane

    def update_every_second(self) -> None:
        super().update_every_second()
        self.logs.update_file()

    def action_log(self, how: str) -> None:
        """Move in the log, or show it otherwise."""
        logs = self.logs
        match how:
            case "follow":
                logs.set_follow(on=not logs.follow)
            case "next" | "previous":
                logs.find_next(forward=how == "next")
            case "error" | "error_before":
                logs.find_next(forward=how == "error", errors=True)
            case "wrap":
                logs.wraps = not logs.wraps
                logs.update_lines()
            case "time":
                logs.hides_time = not logs.hides_time
                logs.update_lines()
            case "attempt_before" | "attempt_after":
                logs.read_attempt(1 if how == "attempt_after" else -1)

    def action_log_search(self) -> None:
        """Ask what to look for in the log; its own keys go on from there."""

        def search(text: str) -> None:
            self.focus_pane(self.logs)
            self.logs.search(text)

        def find_problem(text: str) -> str:
            try:
                compile_search(text)
            except PatternRefused as refused:
                hint = "\\ before a sign takes it as it is"
                return outside(f"the pattern {refused.problem}; {hint}")
            return ""

        request = Request(
            label="search",
            hint="a regular expression",
            answer=search,
            preview=lambda _: self.show_problem(""),
            give_up=lambda: self.focus_pane(self.logs),
            find_problem=find_problem,
        )
        self.ask_line(request)

    def action_log_stream(self) -> None:
        """Where stderr is: the wrapper lets both streams write into one file."""
        if self.logs.path:
            self.show_notice(
                "stdout and stderr are both in this file, in the order written"
            )
        else:
            self.show_notice("no log yet; stdout and stderr will be in one file")

    async def action_log_save(self) -> None:
        """Save a copy of the log; a large one is asked about first."""
        if self.logs.path:
            await self.run_app_action("save_log", self.logs)
        else:
            self.show_notice("no log to save: this job has not begun", "warning")

    def on_log_pane_notice(self, message: LogPane.Notice) -> None:
        message.stop()
        self.show_notice(message.text, "warning" if message.bad else "accent")
