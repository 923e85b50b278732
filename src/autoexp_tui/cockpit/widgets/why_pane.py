"""Why is it so? Pane 3, and the answer below the lists of other screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.why import (
    NO_JOB_SHOWN,
    WhyText,
    explain_ask,
    explain_crowd,
    explain_jobs,
    explain_plan,
)
from autoexp_tui.cockpit.spans import Line, Span, join, outside, shorten
from autoexp_tui.cockpit.state.forecast import format_end
from autoexp_tui.cockpit.state.session import JobView, Look, render_tallies
from autoexp_tui.cockpit.widgets.pane import Painted, TextPane
from autoexp_tui.text.log_lines import RUN_URL
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane
    from autoexp_tui.cockpit.state.stages import StageView

CROWD: Final = 1000
"""Jobs up to which looking at each of them is not felt in the fingers."""


class WhyPane(TextPane):
    """All about the job, stage or cause under the cursor."""

    name_in_table: Pane = "why"
    number = "3"
    heading = "Why"

    _text: WhyText = NO_JOB_SHOWN
    _jobs: tuple[JobView, ...] = ()
    _subject: str = ""
    _asks: Sequence[str] = ()

    def show(
        self, jobs: Sequence[JobView], title: str, asks: Sequence[str] = ()
    ) -> None:
        """Tell about these jobs, as the newest session has them; of a crowd what is
        seen at a glance; without jobs, about the first question of `asks`."""
        self._jobs, self._subject, self._asks = tuple(jobs), title, asks
        self.renew([*(job.name for job in jobs), *asks])

    def build_lines(self, cells: int) -> Sequence[Line]:
        self._text = self.build_text()
        return self._text.wrap(cells)

    def build_text(self) -> WhyText:
        session = self.model.session
        if session.snapshot.engine.doing and not session.jobs:
            text = " The jobs appear when it is done."
            if self.model.failed:
                text = " There are no jobs: the plan has errors."
            return WhyText("", ((Span(text, "muted"),),))
        about = NO_JOB_SHOWN
        if len(self._jobs) > CROWD:
            about = explain_crowd(self._subject, self._jobs)
        elif self._jobs:
            about = explain_now(self.context, self._jobs, self._subject)
        elif asked := [name for name in self._asks if name in session.asks]:
            acts, ask = not self.context.is_read_only, session.asks[asked[0]]
            about = explain_ask(asked[0], ask, session.now, acts=acts)
        started = session.count(Look.PLANNED) != len(session.jobs)
        if session.snapshot.engine.role == "plan" and not started:
            first = explain_plan(session, self.context.describe_return())
            return WhyText(first.title, (*first.lines, (), *about.lines), about.next)
        return about

    def copy_text(self) -> str:
        """The addresses where its runs are to be seen, else all of the text."""
        told = (job.record.metadata.get(RUN_URL, "") for job in self._jobs)
        urls = [outside(url, 2000) for url in told if url.startswith("http")]
        return "\n".join(urls) or super().copy_text()

    @property
    def rows_in_body(self) -> int:
        """The last line is kept for what to do next."""
        return max(0, super().rows_in_body - (1 if self._text.next else 0))

    def build_body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        painted = list(super().build_body(start, count, cells))
        if self._text.next:
            room = count - len(painted) if self._text.lines[1:] else 0
            painted += [Painted(())] * room
            painted.append(Painted(self._text.next))
        return painted

    def build_title(self) -> Line:
        more = len(self.find_lines()) - self.top - self.rows_in_body
        if more <= 0:
            return (Span(self._text.title, "muted"),)
        hint = f"   +{plural(more, 'line')}, enter"
        room = self.size.width - len(self.heading) - len(hint) - 10
        return (
            Span(shorten(self._text.title, max(8, room), middle=True), "muted"),
            Span(hint, "accent"),
        )


def explain_now(
    context: CockpitContext, jobs: tuple[JobView, ...], title: str = ""
) -> WhyText:
    """All about jobs, as the newest session has them."""
    model, acts = context.model, not context.is_read_only
    session, words, usual = model.session, model.words, model.rates
    return explain_jobs(title, jobs, session, words, acts=acts, usual=usual)


def explain_row(
    context: CockpitContext, job: JobView | None, lead: Line = ()
) -> WhyText:
    """All about a job as one text; `lead` says which job it is."""
    if job is None:
        return NO_JOB_SHOWN
    found = explain_now(context, (job,))
    lines = (*((lead,) if lead else ()), *found.lines)
    return WhyText(found.title, (*lines, (), found.next) if found.next else lines)


class AnswerPane(TextPane):
    """Why the row under the cursor of a list is as it is."""

    name_in_table = "conditions"
    heading = "Why"
    _text: WhyText = NO_JOB_SHOWN

    def show(self, text: WhyText) -> None:
        self._text = text
        self.renew(text.title)

    def build_lines(self, cells: int) -> Sequence[Line]:
        return self._text.wrap(cells)

    def build_title(self) -> Line:
        room = max(8, self.size.width - len(self.heading) - 8)
        return (Span(shorten(self._text.title, room, middle=True), "muted"),)


def describe_stage(stage: StageView, now: float) -> WhyText:
    """A stage in a few lines: its counts, when it should end, what it waits for."""
    number = (Span(f" {plural(stage.total, 'job')}   ", "strong"),)
    lines: list[Line] = [(*number, *join(render_tallies(stage.counts), " "))]
    if stage.end is not None:
        lines.append((Span(f"   ends {format_end(stage.end, now)}"),))
    if stage.is_waiting:
        lines.append((Span(f"   waits: {stage.waits}", "muted"),))
    return WhyText(f"stage {stage.name}", tuple(lines))
