"""What is wrong with a plan, as lines that lead to the place in its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.ui.view.spans import Line, Span, line, outside, wrap

AROUND: Final = 4
"""Lines of a file above and below the one that is shown."""
_INDENT: Final = "     "
_GUTTER = f"{_INDENT}{'':9}"
"""Below the text of a file's line, beside its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One finding, and where in which file it belongs."""

    message: str
    where: str = ""
    """The key, or whatever the finding names."""
    job: str = ""
    hint: str = ""
    path: str = ""
    """The file as people write it; empty: none is known."""
    line: int = 0
    """From 1 on; 0: not known."""

    @property
    def place(self) -> str:
        """`config/exp.yaml:41`; empty when no file is known."""
        return f"{self.path}:{self.line}" if self.path else ""


Excerpt = Sequence[tuple[int, str]]
"""Numbered lines of a file."""


def excerpt_of(text: str, at: int) -> Excerpt:
    """The lines around line `at`, which is counted from 1."""
    lines = text.splitlines()
    first = max(1, at - AROUND)
    return [
        (number, lines[number - 1])
        for number in range(first, min(len(lines), at + AROUND) + 1)
    ]


def fault_lines(
    faults: Sequence[Fault],
    cursor: int,
    excerpts: Mapping[int, Excerpt],
    cells: int,
) -> tuple[list[Line], list[int]]:
    """All findings, opened excerpts among them; and the line at which each begins."""
    lines: list[Line] = []
    starts: list[int] = []
    for at, fault in enumerate(faults):
        starts.append(len(lines))
        lines += _fault(fault, cells, here=at == cursor)
        if at in excerpts:
            lines += _excerpt(excerpts[at], fault.line, cells)
        lines.append(())
    return lines, starts


def _fault(fault: Fault, cells: int, *, here: bool) -> Sequence[Line]:
    place = outside(fault.place, 1000)
    where = outside(fault.where, 1000)
    head = line(
        Span("> " if here else "  ", "accent"),
        Span(f"{place} " if place else "", "key"),
        Span(where if where != place else "", "strong"),
    )
    parts = [
        head,
        (Span(f"{_INDENT}{outside(fault.message, 4000)}", "failed"),),
        (Span(f"{_INDENT}{outside(fault.hint, 4000)}"),) if fault.hint else (),
        (Span(f"{_INDENT}{outside(fault.job, 1000)}", "muted"),) if fault.job else (),
    ]
    return [row for part in parts if part for row in wrap(part, cells, _INDENT)]


def _excerpt(excerpt: Excerpt, at: int, cells: int) -> Sequence[Line]:
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
