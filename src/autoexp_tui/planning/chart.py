"""A plan as text: what is swept, each stage with what it waits for, what was checked.

For people who are about to start it: exact, in columns, never wider than asked, and
folded where it would be long. Pure; how it comes onto a terminal is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.wording import columns, plural
from autoexp_tui.planning.chart_checks import verdict_lines
from autoexp_tui.planning.chart_conditions import StageTalk, condition_rows
from autoexp_tui.planning.chart_folds import FOLDED, WHOLE, Folds
from autoexp_tui.planning.chart_stages import UNSTAGED, Stage, links_of, stages_of
from autoexp_tui.planning.chart_sweep import SweptKey, counted, described, swept_keys
from autoexp_tui.planning.chart_text import (
    NARROWEST,
    UNBROKEN,
    arrow,
    ascii_twin,
    box,
    cut,
    cut_end,
    hanging,
    inner,
    pad,
    said,
    wrapped,
)
from autoexp_tui.planning.chart_words import Words
from autoexp_tui.planning.mermaid import mermaid

__all__ = ["chart", "mermaid"]

_MOST_VALUES: Final = 100
"""Values of a key that are tried to fill its lines."""
_VALUE_COLUMNS: Final = 40
_GAP: Final = "  "

_Row: TypeAlias = tuple[str, str, str]
"""A job's name, what tells it apart, what it follows."""


def chart(
    plan: Plan, *, width: int, ascii_only: bool = False, whole: bool = False
) -> str:
    """The plan as text, no line wider than `width` columns.

    Args:
        plan: resolved; nothing in it is read as markup.
        width: columns; less than 24 is drawn as 24.
        ascii_only: box-drawing and all other characters have ASCII twins.
        whole: every stage, job, value and warning, however many.
    """
    lines = _Chart(plan, max(width, NARROWEST), WHOLE if whole else FOLDED).lines()
    text = "\n".join(line.rstrip() for line in lines).replace(UNBROKEN, " ")
    return ascii_twin(text) if ascii_only else text


class _Chart:
    """One plan at one width."""

    def __init__(self, plan: Plan, width: int, folds: Folds) -> None:
        self.plan = plan
        self.folds = folds
        self.width = width
        self.room = inner(width)
        self.keys = swept_keys(plan)
        self.links = links_of(plan)
        self.stages = stages_of(plan, self.links)
        self.words = Words(plan)

    def lines(self) -> Iterable[str]:
        """All of it."""
        yield from wrapped(self._title(), self.width)
        yield ""
        yield from self._boxes()
        yield from self._folded()
        yield ""
        yield from verdict_lines(
            self.plan, self.links, self.width, most=self.folds.warnings
        )

    def _title(self) -> str:
        stages = plural(len(self.stages), "stage")
        staged = f" in {stages}" if any(one.name for one in self.stages) else ""
        title = f"{said(self.plan.name)}: {plural(len(self.plan.jobs), 'job')}{staged}"
        ref = said(self.plan.config_ref)
        return f"{title}, config {ref}" if ref else title

    def _boxes(self) -> Iterable[str]:
        shown = self.stages[: self.folds.stages]
        yield from self._sweep(leads_on=bool(shown))
        for at, stage in enumerate(shown):
            yield arrow("", self.width) if at == 0 else self._way(stage, shown[at - 1])
            following = shown[at + 1 : at + 2]
            leads_on = any(stage.name in one.follows for one in following)
            yield from self._stage(stage, leads_on=leads_on)

    def _folded(self) -> Iterable[str]:
        rest = self.stages[self.folds.stages :]
        if rest:
            jobs = plural(sum(len(one.jobs) for one in rest), "job")
            text = f"... and {plural(len(rest), 'stage')} more with {jobs}"
            yield from wrapped(text, self.width)

    # ---------------------------------------------------------------------- sweep
    def _sweep(self, *, leads_on: bool) -> Sequence[str]:
        rows = list(self._keys()) or ["Nothing is swept."]
        rows += ["", *wrapped(counted(self.plan, self.keys), self.room)]
        return box("Sweep", "", rows, self.width, leads_on=leads_on)

    def _keys(self) -> Iterable[str]:
        shown = self.keys[: self.folds.keys]
        names = [cut(said(one.key), self.room * 2 // 5) for one in shown]
        column = max(map(columns, names), default=0)
        for name, one in zip(names, shown, strict=True):
            head = pad(name, column) + _GAP
            values = _values(one, self.room - columns(head), self.folds.value_lines)
            yield from hanging(head, values, self.room)
        rest = len(self.keys) - len(shown)
        if rest:
            yield f"... and {plural(rest, 'key')} more"

    # --------------------------------------------------------------------- stages
    def _way(self, stage: Stage, previous: Stage) -> str:
        """What stands between a stage's box and the one above it."""
        if not stage.follows:
            return ""
        alone = stage.waits == (previous.name,) and not stage.reads
        told = "" if alone else _origins(stage, self.folds.origins)
        return arrow(told, self.width)

    def _stage(self, stage: Stage, *, leads_on: bool) -> Sequence[str]:
        talk = StageTalk(stage, self.words, self.keys, self.folds.sentences)
        rows = [*self._jobs(stage), "", *condition_rows(talk, self.room)]
        note = plural(len(stage.jobs), "job")
        return box(said(stage.title), note, rows, self.width, leads_on=leads_on)

    def _jobs(self, stage: Stage) -> Sequence[str]:
        most = self.folds.jobs
        whole = len(stage.jobs) <= most
        shown = stage.jobs if whole else stage.jobs[: most - 1]
        rows = [self._row(job) for job in shown]
        if not _fits(rows, self.room):
            rows = [self._row(job, job) for job in shown]
        rest = len(stage.jobs) - len(shown)
        folded = [f"... and {rest} more"] if rest else []
        return [*_table(rows, self.room), *folded]

    def _row(self, job: JobSpec, me: JobSpec | None = None) -> _Row:
        """With `me`, siblings are called by their stages, which is shorter."""
        waits, reads = self.links.waits[job.name], self.links.reads[job.name]
        after = [f"after {self.words.jobs(waits, me)}"] if waits else []
        after += [f"reads {self.words.jobs(reads, me)}"] if reads else []
        return said(job.name), described(job, self.keys), ", ".join(after)


# --------------------------------------------------------------------------- parts
def _values(one: SweptKey, room: int, lines: int) -> str:
    """As many values as fit into `lines`, and how many more there are."""
    if lines >= len(one.values):
        return ", ".join(cut(value, _VALUE_COLUMNS) for value in one.values)
    told = [cut(value, _VALUE_COLUMNS) for value in one.values[:_MOST_VALUES]]
    for shown in range(len(told), 1, -1):
        rest = len(one.values) - shown
        tail = f" ... and {rest} more" if rest else ""
        text = ", ".join(told[:shown]) + tail
        if len(wrapped(text, room)) <= lines:
            return text
    rest = len(one.values) - 1
    return f"{told[0]} ... and {rest} more"


def _origins(stage: Stage, most: int) -> str:
    """`after stable and cooldown`: the stages that it follows from."""
    parts = [f"after {_some(stage.waits, most)}"] if stage.waits else []
    parts += [f"reads {_some(stage.reads, most)}"] if stage.reads else []
    return ", ".join(parts)


def _some(stages: Sequence[str], most: int) -> str:
    names = [said(name or UNSTAGED) for name in stages]
    rest = len(names) - most
    if rest > 0:
        return f"{', '.join(names[:most])} and {rest} more"
    return " and ".join(names) if len(names) < 3 else ", ".join(names)


def _fits(rows: Sequence[_Row], room: int) -> bool:
    """Whether names and what they follow stand beside each other whole."""
    name, _, after = _widths(rows)
    return name + (len(_GAP) + after if after else 0) <= room


def _widths(rows: Sequence[_Row]) -> tuple[int, ...]:
    return tuple(max(map(columns, cells)) for cells in zip(*rows, strict=True))


def _table(rows: Sequence[_Row], room: int) -> list[str]:
    """Names, what tells them apart where there is room, and what they follow."""
    name, own, after = _widths(rows)
    if name + own + after + 2 * len(_GAP) > room:
        own = 0
    name = min(name, max(room - len(_GAP) - after, room * 3 // 5)) if after else name
    return [_line(row, (min(name, room), own), room) for row in rows]


def _line(row: _Row, widths: tuple[int, int], room: int) -> str:
    name, own = widths
    cells = [pad(row[0], name), *([pad(row[1], own)] if own else []), row[2]]
    return cut_end(_GAP.join(cells).rstrip(), room)
