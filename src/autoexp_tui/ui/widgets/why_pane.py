"""Pane 3: why is it so?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.core.wording import plural
from autoexp_tui.ui.view.first_run import nothing_started, why_plan
from autoexp_tui.ui.view.spans import Line, Span, shorten_middle
from autoexp_tui.ui.view.why import WhyText, why_job, why_many, why_nothing
from autoexp_tui.ui.widgets.pane import Painted
from autoexp_tui.ui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from autoexp_tui.ui.desk import Desk
    from autoexp_tui.ui.themes import Skin


class WhyPane(TextPane):
    """All about the job, stage or cause under the cursor."""

    name_in_table = "why"
    number = "3"
    heading = "Why"

    def __init__(
        self, skin: Skin, desk: Desk, come_back: str = "", **options: Any
    ) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.come_back = come_back
        self.acts = True
        """Whether keys that command do something here."""
        self._names: tuple[str, ...] = ()
        self._subject = ""
        self._told = why_nothing()

    def show(self, names: Sequence[str], title: str) -> None:
        """Tell about these jobs."""
        fresh = tuple(names) != self._names
        self._names, self._subject = tuple(names), title
        self.renew(to_top=fresh)

    def make(self, cells: int) -> Sequence[Line]:
        self._told = self._text()
        return self._told.wrapped(cells)

    def _text(self) -> WhyText:
        session = self.desk.session
        jobs = session.named(self._names)
        if session.snapshot.engine.doing and not session.jobs:
            text = " The jobs appear when it is done."
            if self.desk.failed:
                text = " There are no jobs: the plan has errors."
            return WhyText("", ((Span(text, "muted"),),))
        if session.snapshot.engine.role == "plan" and nothing_started(session):
            first = why_plan(session, self.come_back)
            about = self._about() if jobs else why_nothing()
            return WhyText(first.title, (*first.lines, (), *about.lines), about.next)
        return self._about() if jobs else why_nothing()

    def _about(self) -> WhyText:
        session, words = self.desk.session, self.desk.words
        usual = self.desk.rates
        jobs = session.named(self._names)
        if len(jobs) == 1:
            return why_job(jobs[0], session, words, acts=self.acts, usual=usual)
        return why_many(
            self._subject, jobs, session, words, acts=self.acts, usual=usual
        )

    @property
    def body_rows(self) -> int:
        """The last line is kept for what to do next."""
        return max(0, super().body_rows - (1 if self._told.next else 0))

    def body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        painted = list(super().body(start, count, cells))
        if self._told.next:
            room = count - len(painted) if self._told.lines[1:] else 0
            painted += [Painted(())] * room
            painted.append(Painted(self._told.next))
        return painted

    def title(self) -> Line:
        more = len(self.lines()) - self.top - self.body_rows
        if more <= 0:
            return (Span(self._told.title, "muted"),)
        hint = f"   +{plural(more, 'line')}, enter"
        room = self.size.width - len(self.heading) - len(hint) - 10
        return (
            Span(shorten_middle(self._told.title, max(8, room)), "muted"),
            Span(hint, "accent"),
        )
