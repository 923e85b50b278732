"""The time-line of a campaign: what each job did when, and how much ran at a time.

A row is a strip of cells, each a stretch of time. A job's cell tells the gravest thing
that it did then; a stage's cell how many of its jobs ran, and whether one failed.
Everything comes from the attempts that a snapshot has. Pure: the window is an argument.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.cockpit.spans import BARS, Line, Role, Span
from autoexp_tui.cockpit.state.status import FACES, Look
from autoexp_tui.model.states import JobState, Outcome
from autoexp_tui.model.wording import duration
from autoexp_tui.text.spelling import wall_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.state import Attempt, JobRecord


LEAST_SECONDS: Final = 10.0
"""The shortest window."""


MOST_SECONDS: Final = 400 * 86400.0


_FINEST: Final = 60 / 64
"""Seconds, doubled until 24 of them hold all: minutes among the coarser ones."""


class Cell(NamedTuple):
    """A glyph in its role."""

    glyph: str
    role: Role


_EMPTY: Final = Cell(" ", "text")


_NOW: Final = Cell("│", "accent")


_WAITS: Final = Cell("·", "waiting")


_AGAIN: Final = Cell("╌", "queued")


_QUEUED: Final = Cell("░", "queued")


_RUNS: Final = Cell("█", "running")


_RAN: Final = Cell("█", "done")


_RAN_BADLY: Final = Cell("▒", "failed")


_RAN_CUT: Final = Cell("▒", "skipped")


_WEIGHT: Final = (_WAITS, _AGAIN, _QUEUED, _RAN, _RAN_CUT, _RAN_BADLY, _RUNS)
"""From the least telling to the most: what of several things a cell shows."""


_RANK: Final = {cell: place for place, cell in enumerate(_WEIGHT)}


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time that is shown. Seconds are UTC."""

    begin: float
    seconds: float
    cells: int

    @property
    def end(self) -> float:
        """The first moment that is not shown any more."""
        return self.begin + self.seconds

    def cell(self, t: float) -> int:
        """The cell of a moment; below 0 or beyond the last where it is not shown."""
        return int((t - self.begin) // (self.seconds / max(1, self.cells)))

    def zoomed(self, factor: float, around: float) -> Window:
        """`factor` times as long, `around` where it stood."""
        wanted = self.seconds * factor
        seconds = min(max(wanted, LEAST_SECONDS), MOST_SECONDS)
        share = (around - self.begin) / self.seconds
        return replace(self, begin=around - share * seconds, seconds=seconds)

    def panned(self, share: float) -> Window:
        """Moved by a share of its length."""
        return replace(self, begin=self.begin + share * self.seconds)


def build_window(begin: float, end: float, cells: int) -> Window:
    """A window over everything, its length rounded up so that it seldom moves."""
    seconds = max(end - begin, LEAST_SECONDS)
    step = _FINEST
    while step * 24 < seconds:
        step *= 2
    return Window(begin, (seconds // step + 1) * step, cells)


# --------------------------------------------------------------------------- a job
class Segment(NamedTuple):
    """What a job did from one moment to another."""

    begin: float
    end: float
    cell: Cell


def list_segments(record: JobRecord, joined: float, now: float) -> Iterator[Segment]:
    """All that a job did; `joined` is when the session began."""
    free = joined
    for attempt in record.attempts:
        yield Segment(free, attempt.ordered_at, _WAITS if free == joined else _AGAIN)
        end = attempt.ended_at if attempt.ended_at is not None else now
        began = attempt.began_at
        yield Segment(attempt.ordered_at, end if began is None else began, _QUEUED)
        if began is not None:
            yield Segment(began, end, _of_run(attempt))
        free = end
    if record.ended:
        if not record.attempts:
            yield Segment(joined, record.since, _WAITS)
    elif not record.attempts or record.attempts[-1].outcome is not None:
        yield Segment(free, now, _AGAIN if record.attempts else _WAITS)


def _of_run(attempt: Attempt) -> Cell:
    match attempt.outcome:
        case None:
            return _RUNS
        case Outcome.COMPLETED:
            return _RAN
        case Outcome.CANCELLED:
            return _RAN_CUT
    return _RAN_BADLY


def list_marks(record: JobRecord) -> Iterator[tuple[float, Cell]]:
    """When each attempt ended and how; of a job without one, when it was put aside."""
    for attempt in record.attempts:
        if attempt.outcome is not None and attempt.ended_at is not None:
            yield attempt.ended_at, _ENDS[attempt.outcome]
    if record.ended and not record.attempts and record.since:
        yield record.since, _face(_PUT_ASIDE.get(record.state, Look.CANCELLED))


def _face(look: Look) -> Cell:
    return Cell(FACES[look].glyph, FACES[look].role)


_ENDS: Final = {
    Outcome.COMPLETED: _face(Look.DONE),
    Outcome.FAILED: _face(Look.FAILED),
    Outcome.CANCELLED: _face(Look.CANCELLED),
    Outcome.LOST: _face(Look.LOST),
}


_PUT_ASIDE: Final = {
    JobState.SKIPPED: Look.SKIPPED,
    JobState.FAILED: Look.FAILED,
    JobState.LOST: Look.LOST,
    JobState.COMPLETED: Look.DONE,
}


_BAD: Final = frozenset({_ENDS[Outcome.FAILED], _ENDS[Outcome.LOST]})


def build_job_strip(
    record: JobRecord, joined: float, now: float, window: Window
) -> list[Cell]:
    """The cells of one job."""
    cells = [_EMPTY] * window.cells
    for segment in list_segments(record, joined, now):
        _lay(cells, segment, window)
    _lay_marks(cells, list_marks(record), window)
    return _with_now(cells, now, window)


def _lay(cells: list[Cell], segment: Segment, window: Window) -> None:
    """Put a segment where nothing more telling stands."""
    if segment.end <= segment.begin or segment.end < window.begin:
        return
    first = max(0, window.cell(segment.begin))
    last = min(window.cells - 1, window.cell(segment.end))
    rank = _RANK[segment.cell]
    for place in range(first, last + 1):
        if _RANK.get(cells[place], -1) < rank:
            cells[place] = segment.cell


def _lay_marks(
    cells: list[Cell], found: Iterable[tuple[float, Cell]], window: Window
) -> None:
    """Ends stand over all else; a bad one is not hidden by a good one."""
    for t, cell in found:
        place = window.cell(t)
        if 0 <= place < window.cells and cells[place] not in _BAD:
            cells[place] = cell


def _with_now(cells: list[Cell], now: float, window: Window) -> list[Cell]:
    """The line of the present, where nothing else stands."""
    place = window.cell(now)
    if 0 <= place < window.cells and cells[place] == _EMPTY:
        cells[place] = _NOW
    return cells


# -------------------------------------------------------------------------- a stage
def build_stage_strip(
    jobs: Sequence[JobView], joined: float, now: float, window: Window
) -> list[Cell]:
    """The cells of a stage: how many ran at a time, against the most that did.

    Where a job failed for good, a mark says so.
    """
    running, queued, waiting, bad = _tallies(jobs, joined, now, window)
    most = max(running, default=0)
    cells = [
        _of_stage(running[place], queued[place], waiting[place], most)
        for place in range(window.cells)
    ]
    for place in bad:
        cells[place] = _face(Look.FAILED)
    return _with_now(cells, now, window)


def _of_stage(running: int, queued: int, waiting: int, most: int) -> Cell:
    if running:
        return Cell(BARS[max(0, round(running / most * 8) - 1)], "running")
    if queued:
        return _QUEUED
    return _WAITS if waiting else _EMPTY


def _tallies(
    jobs: Sequence[JobView], joined: float, now: float, window: Window
) -> tuple[list[int], list[int], list[int], set[int]]:
    """Of each cell how many ran, queued and waited; and the cells of bad ends.

    Differences at both ends of each stretch, summed up once: the cost is that of the
    attempts and of the cells, not of both together.
    """
    last = window.cells - 1
    changes = {cell: [0] * (window.cells + 1) for cell in (_RUNS, _QUEUED, _WAITS)}
    bad: set[int] = set()
    for job in jobs:
        for begin, end, cell in list_segments(job.record, joined, now):
            first = max(0, window.cell(begin))
            stop = min(last, window.cell(end))
            if end <= begin or first > stop:
                continue
            own = changes.get(_STAGES.get(cell, cell))
            if own is not None:
                own[first] += 1
                own[stop + 1] -= 1
        if job.record.state in _FAILED:
            ends = [window.cell(t) for t, _ in list_marks(job.record)]
            bad.update(place for place in ends[-1:] if 0 <= place <= last)
    sums = [_summed(changes[cell]) for cell in (_RUNS, _QUEUED, _WAITS)]
    return sums[0], sums[1], sums[2], bad


_FAILED: Final = frozenset({JobState.FAILED, JobState.LOST})


_STAGES: Final = {_RAN: _RUNS, _RAN_BADLY: _RUNS, _RAN_CUT: _RUNS, _AGAIN: _WAITS}


def _summed(changes: Sequence[int]) -> list[int]:
    found, level = [], 0
    for change in changes[:-1]:
        level += change
        found.append(level)
    return found


def render_strip(cells: Sequence[Cell]) -> Line:
    """Cells as a line, neighbours of one role together."""
    spans: list[Span] = []
    for glyph, role in cells:
        if spans and spans[-1].role == role:
            spans[-1] = Span(spans[-1].text + glyph, role)
        else:
            spans.append(Span(glyph, role))
    return tuple(spans)


_STEPS: Final = (
    1, 2, 5, 10, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200,
    86_400, 2 * 86_400, 7 * 86_400, 28 * 86_400,
    91 * 86_400, 182 * 86_400, 364 * 86_400,
)  # fmt: skip


_LABEL: Final = 9
"""Cells from one label to the next, at least."""


_DAY: Final = 86_400


def list_ticks(window: Window, now: float = 0.0) -> list[float]:
    """Round times of day of the machine's zone, as many as have room for names."""
    ahead = wall_time(0.0, now)
    per_cell = window.seconds / max(1, window.cells)
    step = next((one for one in _STEPS if one >= per_cell * _LABEL), _STEPS[-1])
    first = time.localtime(window.begin + ahead)
    midnight = time.mktime((first.tm_year, first.tm_mon, first.tm_mday, *(0,) * 5, -1))
    count = int((window.begin + ahead - midnight) // step) + 1
    found = []
    while (t := midnight + count * step - ahead) < window.end:
        found.append(t)
        count += 1
    return found


def format_tick(t: float, step_of_days: bool) -> str:  # noqa: FBT001
    """`14:00`; at midnights, and where days are the step, `Mon 09`."""
    local = time.localtime(t)
    midnight = (local.tm_hour, local.tm_min, local.tm_sec) == (0, 0, 0)
    if step_of_days or midnight:
        return time.strftime("%a %d", local)
    return time.strftime("%H:%M:%S" if local.tm_sec else "%H:%M", local)


def render_axis(
    window: Window,
    now: float,
    gaps: Sequence[tuple[float, float]],
    indent: int,
) -> tuple[Line, Line]:
    """The labels, and below them the ticks with gaps (`░`) and the present (`▾`)."""
    found = list_ticks(window, now)
    by_days = len(found) > 1 and found[1] - found[0] >= _DAY
    names = ""
    cells = [Cell("─", "rule")] * window.cells
    for t in found:
        place = window.cell(t)
        name = format_tick(wall_time(t, now), by_days)
        if place + len(name) <= window.cells:
            names = names.ljust(place) + name
        cells[place] = Cell("┬", "rule")
    for begin, end in gaps:
        first, last = max(0, window.cell(begin)), window.cell(end)
        for place in range(first, min(last, window.cells - 1) + 1):
            cells[place] = Cell("░", "warning")
    if 0 <= window.cell(now) < window.cells:
        cells[window.cell(now)] = Cell("▾", "accent")
    span = f" {duration(window.seconds)}"
    head = Span(f"{span:<{indent}}", "muted")
    return (head, Span(names, "muted")), (Span(" " * indent), *render_strip(cells))
