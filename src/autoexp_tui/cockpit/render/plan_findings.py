"""What planning found: faults in their files, warnings, changes since the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.cockpit.spans import Line, Role, Span, line, outside, wrap
from autoexp_tui.model.errors import Problem, find_written_place
from autoexp_tui.text.spelling import clock_time

_AROUND: Final = 4
"""Lines of a file above and below the one that is shown."""
_INDENT: Final = "     "
_GUTTER: Final = f"{_INDENT}{'':9}"
"""Below the text of a file's line, beside its number."""
MARK_ROLES: Final[Mapping[str, Role]] = {
    "+": "done",
    "-": "failed",
    "~": "warning",
    ">": "accent",
    "!": "warning",
}
"""Of a change, by its mark."""


def format_warning(finding: Problem) -> str:
    """What planning warns of, after the job and key that it is about."""
    about = " ".join(part for part in (finding.job, finding.where) if part)
    return outside(f"{about}: {finding.message}" if about else finding.message)


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """How a plan differs from the one before."""

    created_at: float
    """When that one was made; UTC."""
    head: str
    """In a few words, counted."""
    lines: Sequence[tuple[str, str]]
    """Mark and sentence of each change."""
    differs: bool = True

    def describe(self, now: float) -> str:
        """`since the plan of 14:02: 12 jobs added, 100 the same`."""
        when = clock_time(self.created_at, now)
        return f"since the plan of {when}: {outside(self.head)}"

    def render(self, now: float) -> tuple[Line, ...]:
        """All of it."""
        rows = (
            line(Span(f"{mark} ", MARK_ROLES.get(mark, "accent")), outside(text, 4000))
            for mark, text in self.lines
        )
        return ((Span(self.describe(now), "strong"),), (), *rows)


Excerpt = Sequence[tuple[int, str]]
"""Numbered lines of a file."""


def find_excerpt(text: str, at: int) -> Excerpt:
    lines = list(enumerate(text.splitlines(), 1))
    return lines[max(0, at - _AROUND - 1) : at + _AROUND]


def find_place(fault: Problem) -> tuple[str, int]:
    """The file and line of a finding; empty and 0 where none is known."""
    return find_written_place(fault.place or fault.where) or ("", 0)


def render_fault(fault: Problem, excerpt: Excerpt, cells: int) -> Sequence[Line]:
    """A finding, what is opened of its file, a gap; its first span is a gutter."""
    path, number = find_place(fault)
    place = outside(f"{path}:{number}", 1000) if path else ""
    where = outside(fault.where, 1000)
    head = line(
        Span("  ", "accent"),
        Span(f"{place} " if place else "", "key"),
        Span(where if where != place else "", "strong"),
    )
    rest: tuple[tuple[str, Role], ...] = (
        (outside(fault.message, 4000), "failed"),
        (outside(fault.hint, 4000), "text"),
        (outside(fault.job, 1000), "muted"),
    )
    parts = [(Span(f"{_INDENT}{text}", role),) for text, role in rest if text]
    lines = [row for part in (head, *parts) for row in wrap(part, cells, _INDENT)]
    return [*lines, *_render_excerpt(excerpt, number, cells), ()]


def _render_excerpt(excerpt: Excerpt, at: int, cells: int) -> Sequence[Line]:
    """The lines of a file; the one in question is pointed at, and there in full."""
    found: list[Line] = []
    for number, text in excerpt:
        content = line(
            Span(f"{_INDENT}{'>' if number == at else ' '}{number:>5} ", "muted"),
            Span("│ ", "rule"),
            Span(outside(text, 1000), "strong" if number == at else "text"),
        )
        found += wrap(content, cells, _GUTTER) if number == at else (content,)
    return found
