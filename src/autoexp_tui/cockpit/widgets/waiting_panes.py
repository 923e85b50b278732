"""The panes of the Waiting screen, and the answer below a list of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.render.lists import (
    describe_wait_group,
    join_spans,
    render_wait_group,
    render_waiting_job,
)
from autoexp_tui.cockpit.render.why import WhyText, explain_job, explain_nothing
from autoexp_tui.cockpit.spans import Line, Span, shorten_middle
from autoexp_tui.cockpit.state.waiting import WaitGroup, Waits
from autoexp_tui.cockpit.widgets.list_pane import ListPane
from autoexp_tui.cockpit.widgets.text_pane import TextPane
from autoexp_tui.model.wording import plural
from autoexp_tui.text.spelling import format_estimate

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.state.stages import StageView
    from autoexp_tui.cockpit.themes import Skin

Row = tuple[WaitGroup, "JobView | None"]


class WaitingPane(ListPane):
    """A line a reason; unfolded, a line a job."""

    name_in_table = "waiting"
    number = "w"
    heading = "Waiting"

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.waits = Waits()
        self.open: set[str] = set()
        self._rows: list[Row] = []

    def renew(self) -> None:
        """Take the desk's newest session."""
        if self.waits.take(self.desk.session):
            self._list()
        else:
            self.repaint()

    def _list(self) -> None:
        rows: list[Row] = []
        for group in self.waits.groups:
            rows.append((group, None))
            if group.key in self.open:
                rows += [(group, job) for job in group.jobs]
        self._rows = rows
        self.set_keys(
            tuple(
                group.key if job is None else f"job:{job.name}" for group, job in rows
            )
        )

    def unfold(self, *, on: bool) -> None:
        """Show, or hide, the jobs of the group under the cursor."""
        group = self.group()
        if group is None or (group.key in self.open) == on:
            return
        (self.open.add if on else self.open.discard)(group.key)
        self._list()
        if not on:
            self.move_to_key(group.key)

    def group(self) -> WaitGroup | None:
        """The group under the cursor, or that of the job there."""
        return self._rows[self.cursor][0] if self._rows else None

    def job(self) -> JobView | None:
        """The job under the cursor; None on a group."""
        return self._rows[self.cursor][1] if self._rows else None

    def jobs(self) -> tuple[JobView, ...]:
        """The job under the cursor, or all of the group there."""
        job, group = self.job(), self.group()
        if job is not None:
            return (job,)
        return group.jobs if group is not None else ()

    def title(self) -> Line:
        return (Span(self.waits.describe(), "muted"),)

    def placeholder(self) -> Line:
        return (Span(" Nothing waits.", "muted"),)

    def row(self, place: int, cells: int) -> Line:
        group, job = self._rows[place]
        if job is not None:
            parameters = self.desk.words.parameters
            return render_waiting_job(job, self.desk.session, parameters, cells)
        return render_wait_group(
            group,
            self.desk.session,
            cells,
            unfolded=group.key in self.open,
            apart=self.skin.ascii,
        )


class AnswerPane(TextPane):
    """Why the job under the cursor is where it is, every condition with it."""

    name_in_table = "conditions"
    number = ""
    heading = "Why"

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.acts = True
        """Whether keys that command do something here."""
        self._name = ""
        self._lead: Line = ()
        self._stage: StageView | None = None
        self._told = explain_nothing()

    def show(
        self,
        job: JobView | None,
        lead: Line = (),
        *,
        stage: StageView | None = None,
    ) -> None:
        """Tell about a job, after a line that says which one; or about a stage."""
        name = job.name if job is not None else ""
        fresh = name != self._name
        self._name, self._lead, self._stage = name, lead, stage
        self.renew(to_top=fresh)

    def make(self, cells: int) -> Sequence[Line]:
        if not self._name and self._stage is not None:
            self._told = stage_told(self._stage, self.desk.session.now)
            return self._told.wrap(cells)
        job = self.desk.session.job(self._name) if self._name else None
        if job is None:
            self._told = explain_nothing()
            return self._told.wrap(cells)
        told = explain_job(
            job,
            self.desk.session,
            self.desk.words,
            acts=self.acts,
            usual=self.desk.rates,
        )
        lead = (self._lead,) if self._lead else ()
        last = ((), told.next) if told.next else ()
        self._told = WhyText(told.title, (*lead, *told.lines, *last))
        return self._told.wrap(cells)

    def title(self) -> Line:
        room = max(8, self.size.width - len(self.heading) - 8)
        return (Span(shorten_middle(self._told.title, room), "muted"),)


def stage_told(stage: StageView, now: float) -> WhyText:
    """A stage in a few lines: its counts, when it should end, what it waits for."""
    number = (Span(f" {plural(stage.total, 'job')}   ", "strong"),)
    lines: list[Line] = [(*number, *join_spans(stage.render_tallies()))]
    if stage.ends_at is not None:
        lines.append((Span(f"   ends {format_estimate(stage.ends_at, now)}"),))
    if stage.is_waiting:
        lines.append((Span(f"   waits: {stage.waits}", "muted"),))
    return WhyText(f"stage {stage.name}", tuple(lines))


def lead_of(group: WaitGroup, pane: WaitingPane) -> Line:
    """Says that the job told about stands for its group."""
    if len(group.jobs) == 1:
        return ()
    words = describe_wait_group(group, pane.desk.session)
    return (Span(f" of {len(group.jobs)} that wait alike ({words}), the oldest:"),)
