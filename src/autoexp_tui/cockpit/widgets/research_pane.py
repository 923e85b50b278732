"""The panes of a research loop: all that it has, what is under the cursor, and what it
does now. All of them draw from one `ResearchView`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.research import (
    Outline,
    build_detail,
    build_head,
    build_now,
    build_outline,
    build_row,
    describe_progress,
    find_call,
    find_files,
    find_main_job,
    find_run,
)
from autoexp_tui.cockpit.spans import Line, line, outside
from autoexp_tui.cockpit.widgets.pane import DetailPane, ListPane, TextPane
from autoexp_tui.research.consultations import DECISION
from autoexp_tui.research.state import PART, Research

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView


class ResearchView:
    """A research loop with what all its rows need."""

    def __init__(self, model: SessionModel) -> None:
        self._model = model
        self.outline: Outline | None = None

    @property
    def research(self) -> Research | None:
        return self.outline.research if self.outline else None

    def renew(self) -> None:
        """Take the newest snapshot."""
        session = self._model.session
        if self.outline is not None and self.outline.session is session:
            return
        found = session.snapshot.parts.get(PART)
        self.outline = None
        if isinstance(found, Research):
            self.outline = build_outline(found, session)


class ResearchPane(ListPane):
    """What asks, consultations, runs, the list, hypotheses, warnings."""

    name_in_table = "research"
    number = "7"
    heading = "Research"
    nothing = "There is no research."
    always_points = True
    view: ResearchView

    def renew(self) -> None:
        self.set_keys(self.view.outline.keys if self.view.outline else ())

    def build_title(self) -> Line:
        return describe_progress(self.view.outline) if self.view.outline else ()

    def build_head(self, cells: int) -> Sequence[Line]:
        return build_head(self.view.outline, cells) if self.view.outline else ()

    def row(self, place: int, cells: int) -> Line:
        assert self.view.outline is not None, "rows are of an outline"
        return build_row(self.view.outline, self.keys[place], cells)

    def find_jobs(self) -> tuple[JobView, ...]:
        """The job of the row's run or call to look at."""
        outline, session = self.view.outline, self.model.session
        if outline is None:
            return ()
        if (run := find_run(outline, self.key)) is not None:
            job = find_main_job(outline, run)
            return (job,) if job is not None else ()
        call = find_call(outline, self.key)
        return session.list_jobs([call.job]) if call is not None else ()

    @property
    def ask(self) -> str:
        """The question that the row is, or is of; it may be answered already."""
        kind, _, name = self.key.partition(":")
        return {"call": f"{DECISION}/{name}", "line": name.partition(":")[2]}.get(
            kind, name
        )

    def copy_text(self) -> str:
        """Where the row's files are."""
        return find_files(self.view.outline, self.key) if self.view.outline else ""


class ResearchDetailPane(DetailPane):
    """All that is known of the row under the cursor."""

    name_in_table = "research"
    view: ResearchView

    def build_title(self) -> Line:
        return line(outside(self.key.partition(":")[2]))

    def build_lines(self, cells: int) -> Sequence[Line]:
        outline, size = self.view.outline, self.records
        if outline is None or self.key not in outline.keys:
            return ()
        known = size if isinstance(size, int) else None
        return build_detail(outline, self.key, known, cells)


class NowPane(TextPane):
    """What the agent does or waits for, and the budgets; one line where it is low."""

    name_in_table = "research"
    heading = "Agent and budgets"
    can_focus = False
    view: ResearchView

    def build_lines(self, cells: int) -> Sequence[Line]:
        rows = self.size.height - (not self.bare)
        return build_now(self.view.outline, cells, rows) if self.view.outline else ()
