"""What a verb would touch: the marks, else the row under the cursor, else its header.

Marks count even where a filter hides them; whoever asks says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.spans import outside
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Jobs that a verb acts on, in plan order, and how they were chosen."""

    jobs: tuple[JobView, ...]
    by_marks: bool = False
    hidden: int = 0
    """Marked ones that the table does not show just now."""
    title: str = ""
    """The row, stage, family or cause they stand under."""

    @property
    def words(self) -> str:
        """`3 marked jobs, 1 of them hidden by the filter`, or the row's title."""
        if not self.by_marks:
            return self.title
        count = plural(len(self.jobs), "marked job")
        hidden = f", {self.hidden} of them hidden by the filter" if self.hidden else ""
        return f"{count}{hidden}"


def scope(
    session: SessionView,
    marks: Collection[str],
    shown: Callable[[], Collection[str]],
    under_cursor: Sequence[JobView],
    title: str = "",
) -> Scope:
    """The scope of a verb.

    Args:
        session: as shown.
        marks: names of marked jobs.
        shown: tells the names of the jobs that have a row now.
        under_cursor: the jobs of the row, or header, under the cursor.
        title: what that row is called.
    """
    marked = _in_plan_order(session.named(tuple(marks)))
    if marked:
        visible = shown()
        hidden = sum(1 for job in marked if job.name not in visible)
        return Scope(jobs=marked, by_marks=True, hidden=hidden)
    jobs = _in_plan_order(under_cursor)
    name = title or (outside(jobs[0].name) if len(jobs) == 1 else "")
    return Scope(jobs=jobs, title=name)


def _in_plan_order(jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    return tuple(sorted(jobs, key=lambda job: job.index))
