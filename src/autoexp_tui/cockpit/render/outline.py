"""What modes 6 and 7 have in common: an outline of a policy's part of the session, that
is rows with keys, all that is known of one row, and lines about what comes of them.

What all rows need is worked out once, when the outline is made; a row then costs the
same whether ten others are there or ten thousand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    line,
    outside,
    render_pairs,
    wrap,
)
from autoexp_tui.model.masking import mask_text

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView

State: TypeAlias = tuple[str, str, Role]
"""Glyph, word and role."""
Pairs: TypeAlias = Iterable[tuple[str, str]]
"""Labels and texts, as they are; what is empty is not shown."""
WAITING: Final[State] = ("◌", "waiting", "waiting")
_LONG: Final = 4000
"""Characters of one text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outline(ABC):
    """Pure functions of a snapshot."""

    session: SessionView
    keys: tuple[str, ...]
    """Of the rows, in their order."""

    @abstractmethod
    def build_title(self) -> Line:
        """What there is, and what goes on."""

    @abstractmethod
    def build_head(self, cells: int) -> Sequence[Line]:
        """The best so far, and the names of the columns."""

    @abstractmethod
    def build_row(self, place: int, cells: int) -> Line:
        """One row, gutter left out."""

    @abstractmethod
    def build_below(self, cells: int, rows: int) -> Sequence[Line]:
        """What comes of it; where there is room for more than a line, budgets too."""

    @abstractmethod
    def build_detail(self, key: str, records: object, cells: int) -> Sequence[Line]:
        """All that is known of a row; `records`: what its files say, None before they
        were read."""

    @abstractmethod
    def find_jobs(self, key: str) -> tuple[JobView, ...]:
        """The job of a row to look at."""

    @abstractmethod
    def find_files(self, key: str) -> str:
        """Where the files of a row are; absolute."""

    def name_row(self, key: str) -> str:
        """What a row is called in the title of its detail: its key without a kind."""
        return key.partition(":")[2] if ":" in key else key

    def render_state(self, state: State, told: str = "") -> Line:
        """What a row is, and why."""
        glyph, word, role = state
        return line(
            Span(self.show(f"{glyph} {word}"), role),
            Span(f"  {self.show(told)}" * bool(told)),
        )

    def render_facts(
        self, pairs: Pairs, widest: int, cells: int, *heads: Line
    ) -> Iterator[Line]:
        """Lines above, and one for each label, of `widest` cells, and its text."""
        known = ((label, self.show(text)) for label, text in pairs if text)
        for one in (*heads, *render_pairs(known, "", widest, widest)):
            yield from wrap(one, cells, " " * (widest + 2))

    def show(self, text: str) -> str:
        """A text of others as one harmless line without secrets."""
        return outside(mask_text(text, self.session.mask), _LONG)


def label_first(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A line for each text, the first with the label."""
    for text in texts:
        yield label, text
        label = ""


def find_current_job(jobs: Sequence[JobView]) -> JobView | None:
    """Of jobs that follow each other the one to look at: the first that has begun and
    not ended, else the first that waits, else the last that began."""
    begun = [job for job in jobs if job.attempt is not None]
    going = [job for job in begun if not job.record.ended]
    left = [job for job in jobs if not job.record.ended]
    return next(iter((*going, *left, *reversed(begun), *reversed(jobs))), None)


def describe_job(job: JobView | None) -> State:
    """What a job is doing; None: it has not joined yet."""
    return (job.look.glyph, str(job.look), job.look.role) if job else WAITING
