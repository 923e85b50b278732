"""Pane 3: why is it so?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cockpit.render.why import (
    WhyText,
    explain_crowd,
    explain_jobs,
    explain_nothing,
    explain_plan,
    has_nothing_started,
)
from autoexp_tui.cockpit.spans import Line, Span, shorten_middle
from autoexp_tui.cockpit.widgets.pane import Painted
from autoexp_tui.cockpit.widgets.text_pane import TextPane
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.background import Background
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin

CROWD: Final = 300
"""Jobs up to which looking at each of them is not felt in the fingers."""


class WhyPane(TextPane):
    """All about the job, stage or cause under the cursor."""

    name_in_table = "why"
    number = "3"
    heading = "Why"

    def __init__(
        self,
        skin: Skin,
        desk: Desk,
        thinking: Background,
        come_back: str = "",
        **options: Any,
    ) -> None:
        """Args:
        skin: how roles look.
        desk: what to tell about.
        thinking: where many jobs are looked at.
        come_back: how to return after leaving, as a sentence.
        """
        super().__init__(skin, **options)
        self.desk = desk
        self.come_back = come_back
        self._thinking = thinking
        self.acts = True
        """Whether keys that command do something here."""
        self._names: tuple[str, ...] = ()
        self._jobs: tuple[JobView, ...] = ()
        self._subject = ""
        self._told = explain_nothing()
        self._thought: WhyText | None = None
        """Of a crowd: what looking at each of these jobs gave; None: not yet known."""

    def show(self, jobs: Sequence[JobView], title: str) -> None:
        """Tell about these jobs, as the newest session has them.

        Of a crowd at once what is seen at a glance; the rest follows when each was
        looked at, and stands until it was done anew for a newer session.
        """
        names = tuple(job.name for job in jobs)
        fresh = names != self._names
        self._names, self._jobs, self._subject = names, tuple(jobs), title
        if fresh:
            self._thought = None
        self.renew(to_top=fresh)
        if len(jobs) > CROWD:
            self.call_after_refresh(self._think, names, title)

    def _think(self, names: tuple[str, ...], title: str) -> None:
        """Look at every one, off the screen's thread; of no use for others by then.

        What was found of a session that is older by then is shown all the same: where
        news come faster than they are looked at, nothing would ever be.
        """
        if names != self._names:
            return

        def done(result: Any, problem: BaseException | None) -> None:
            if problem is not None:
                raise problem
            if names == self._names:
                self._thought = result
                self.renew()

        self._thinking.call("why", self._many(self._jobs, title), done)

    def _many(self, jobs: tuple[JobView, ...], title: str) -> Callable[[], WhyText]:
        """What tells of jobs, of the session as it is now."""
        desk = self.desk
        session, words, usual = desk.session, desk.words, desk.rates
        acts = self.acts
        return lambda: explain_jobs(title, jobs, session, words, acts=acts, usual=usual)

    def make(self, cells: int) -> Sequence[Line]:
        self._told = self._text()
        return self._told.wrap(cells)

    def _text(self) -> WhyText:
        session, jobs = self.desk.session, self._jobs
        if session.snapshot.engine.doing and not session.jobs:
            text = " The jobs appear when it is done."
            if self.desk.failed:
                text = " There are no jobs: the plan has errors."
            return WhyText("", ((Span(text, "muted"),),))
        if session.snapshot.engine.role == "plan" and has_nothing_started(session):
            first = explain_plan(session, self.come_back)
            about = self._about() if jobs else explain_nothing()
            return WhyText(first.title, (*first.lines, (), *about.lines), about.next)
        return self._about() if jobs else explain_nothing()

    def _about(self) -> WhyText:
        if len(self._jobs) > CROWD:
            return self._thought or explain_crowd(self._subject, self._jobs)
        return self._many(self._jobs, self._subject)()

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
