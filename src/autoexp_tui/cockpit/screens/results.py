"""Results: the table of run groups, or a heat map of it, and below each run of the row.

What is saved is written behind the screen, to where the cockpit was opened, and never
over a file that is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.screens.base import Request
from autoexp_tui.cockpit.screens.jobs import FIRST_ROWS
from autoexp_tui.cockpit.screens.lists import ListScreen
from autoexp_tui.cockpit.spans import outside, shorten
from autoexp_tui.cockpit.widgets.results_pane import NO_TABLE, ResultsPane
from autoexp_tui.telemetry.result_export import FORMS
from autoexp_tui.telemetry.results import EXAMPLES, list_metrics, parse_measures
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Command


class ResultsScreen(ListScreen):
    """The results of the session."""

    active_list: ResultsPane
    _is_saved: bool = False
    """Whether the newest key saved the table at once."""
    _asks_where: bool = False

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context, ResultsPane)
        if context.options.beside is not None:  # to the list where this began
            self.way_back = "app.back_to_list"

    def on_screen_resume(self) -> None:
        """Sort as things stand now: nobody reads the rows yet."""
        pane = self.active_list
        pane.sort(pane.sorted_by, back=pane.is_reversed)

    def action_results_metrics(self) -> None:
        """Ask which metrics to show."""
        pane = self.active_list
        known = list_metrics(pane.table.sources, pane.table.groups)

        def answer(text: str) -> str:
            try:
                pane.choose(parse_measures(text, known))
            except ValueError as problem:
                return outside(problem)
            return ""

        shown = " ".join(map(str, pane.table.measures))
        request = Request(label="metrics", hint=EXAMPLES, answer=answer, text=shown)
        self.ask_line(request)

    async def action_results_curves(self) -> None:
        """Curves of the marked runs, else of the first rows that have one."""
        pane = self.active_list
        rows = (
            [one for one in pane.list_jobs(row) if one.has_run] for row in pane.rows
        )
        first = islice(filter(None, rows), FIRST_ROWS)
        jobs = tuple(chain(*first)) or pane.find_jobs()
        await self.app.run_action(("app", "show_curves", (jobs, pane.find_metric())))

    async def action_look_open(self) -> None:
        """To the row's jobs; those of other sessions are not in this table."""
        if session := self.active_list.find_other():
            command = f"`autoexp-tui --session {outside(session)}`"
            self.notify(f"a row of session {outside(session)}: {command} opens it")
        else:
            await super().action_look_open()

    async def run_command(self, command: Command) -> None:
        """Remember whether the key before this one saved at once."""
        was_saved, self._is_saved = self._is_saved, False
        self._asks_where = was_saved and command.id == "results.save"
        await super().run_command(command)

    def action_results_save(self) -> None:
        """Save as CSV at once; again, ask for a name, whose end says the form."""
        table = self.active_list.table
        if table is NO_TABLE:
            self.notify(self.active_list.nothing.strip(), severity="warning")
            return
        plan = self.model.session.snapshot.plan
        name = f"{plan.name if plan else ''}_{table.groups.stage}_results"
        name = re.sub(r"[^\w.-]+", "_", name).strip("_.") + ".csv"

        def save(text: str) -> str:
            form = FORMS.get(os.path.splitext(text)[1].lstrip(".").lower())
            if form is None:
                return "a name ends in .csv, .md or .json"
            write = partial(form, table, self.active_list.rows)
            target = os.path.join(self.context.options.save_directory, text.strip())
            self.run_worker(self._save(write, os.path.abspath(target)))
            return ""

        if self._asks_where:
            hint = "NAME.csv, .md or .json"
            self.ask_line(Request(label="save as", hint=hint, answer=save, text=name))
        else:
            self._is_saved = True
            save(name)

    async def _save(self, write: Callable[[], str], target: str) -> None:
        save = partial(_write_anew, target, write)
        path = await self.context.fetch_or_tell(self, "save", save, "not saved")
        if path is not None:
            number = plural(len(self.active_list.rows), "row")
            key = self.context.keymap.key("results.save")
            more = f"; {key} again: save as" if self._is_saved else ""
            room = max(20, self.size.width - 20 - len(more))
            where = shorten(outside(path, 4000), room, middle=True)
            self.notify(f"saved {number} as {where}{more}")


def _write_anew(target: str, write: Callable[[], str]) -> str:
    """Write to a file that is not there yet, else beside it with a number; its path."""
    text = write()
    stem, end = os.path.splitext(target)
    for number in count(1):
        path = target if number == 1 else f"{stem}-{number}{end}"
        try:
            with open(path, "x", encoding="utf-8", newline="") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise AssertionError("a count has no end")
