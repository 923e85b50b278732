"""The time-line of a campaign: what each job did when, and how much ran at a time.

A row is a strip of cells, each a stretch of time. A job's cell tells the gravest thing
that it did then; a stage's cell how many of its jobs ran, and whether one failed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.cockpit.spans import BARS, Line, Span, join_cells
from autoexp_tui.cockpit.state.session import ENDED_BADLY, JobView, Look, find_look
from autoexp_tui.model.states import JobState, Outcome
from autoexp_tui.text.spelling import DAY, duration, wall_time

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord

LEAST_SECONDS: Final = 10.0
"""The shortest window."""
MOST_SECONDS: Final = 400.0 * DAY
_FINEST: Final = 60 / 64
"""Seconds, doubled until 24 of them hold all: minutes among the coarser ones."""

_EMPTY: Final = Span(" ", "text")
_NOW: Final = Span("│", "accent")
_WAITS: Final = Span("·", "waiting")
_AGAIN: Final = Span("╌", "queued")
_QUEUED: Final = Span("░", "queued")
_RUNS: Final = Span("█", "running")
_RAN: Final = Span("█", "done")
_RAN_BADLY: Final = Span("▒", "failed")
_RAN_CUT: Final = Span("▒", "skipped")
_WEIGHT: Final = (_WAITS, _AGAIN, _QUEUED, _RAN, _RAN_CUT, _RAN_BADLY, _RUNS)
"""From the least telling to the most: what of several things a cell shows."""
_RUN_CELLS: Final = {None: _RUNS, Outcome.COMPLETED: _RAN, Outcome.CANCELLED: _RAN_CUT}
"""Of a run by its outcome; any other one is bad."""


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

    def find_cell(self, t: float) -> int:
        """The cell of a moment; below 0 or beyond the last where it is not shown."""
        return int((t - self.begin) // (self.seconds / max(1, self.cells)))

    def list_cells(self, begin: float, end: float) -> range:
        """The cells of a stretch, as far as they are shown."""
        return range(
            max(0, self.find_cell(begin)), min(self.cells, self.find_cell(end) + 1)
        )

    def zoom(self, factor: float, around: float) -> Window:
        """`factor` times as long, `around` where it stood."""
        seconds = min(max(self.seconds * factor, LEAST_SECONDS), MOST_SECONDS)
        share = (around - self.begin) / self.seconds
        return replace(self, begin=around - share * seconds, seconds=seconds)

    def move(self, share: float) -> Window:
        """Moved by a share of its length."""
        return replace(self, begin=self.begin + share * self.seconds)


def build_window(begin: float, end: float, cells: int) -> Window:
    """A window over everything, its length rounded up so that it seldom moves."""
    seconds = max(end - begin, LEAST_SECONDS)
    step = _FINEST
    while step * 24 < seconds:
        step *= 2
    return Window(begin, (seconds // step + 1) * step, cells)


class Segment(NamedTuple):
    """What a job did from one moment to another."""

    begin: float
    end: float
    cell: Span


def list_segments(record: JobRecord, joined: float, now: float) -> Iterator[Segment]:
    """All that a job did; `joined` is when the session began."""
    free = joined
    for attempt in record.attempts:
        yield Segment(free, attempt.ordered_at, _WAITS if free == joined else _AGAIN)
        end = attempt.ended_at if attempt.ended_at is not None else now
        began = attempt.began_at
        yield Segment(attempt.ordered_at, end if began is None else began, _QUEUED)
        if began is not None:
            cell = _RUN_CELLS.get(attempt.outcome, _RAN_BADLY)
            yield Segment(began, end, cell)
        free = end
    if not record.attempts:
        yield Segment(joined, record.since if record.ended else now, _WAITS)
    elif not record.ended and record.attempts[-1].outcome is not None:
        yield Segment(free, now, _AGAIN)


def list_marks(record: JobRecord) -> Iterator[tuple[float, Look]]:
    """When each attempt ended and how; of a job without one, when it was put aside."""
    for attempt in record.attempts:
        if attempt.outcome is not None and attempt.ended_at is not None:
            completed = attempt.outcome is Outcome.COMPLETED
            look = Look.DONE if completed else Look[attempt.outcome.name]
            yield attempt.ended_at, look
    if record.ended and not record.attempts and record.since:
        yield record.since, find_look(record, stalled=False)


def build_job_strip(
    record: JobRecord, joined: float, now: float, window: Window
) -> list[Span]:
    """The cells of one job; ends stand over all else, a bad one is not hidden."""
    cells = [_EMPTY] * window.cells
    segments = list_segments(record, joined, now)
    for begin, end, cell in sorted(segments, key=lambda one: _WEIGHT.index(one.cell)):
        for place in window.list_cells(begin, end) if end > begin else ():
            cells[place] = cell
    for t, look in sorted(list_marks(record), key=lambda one: one[1] in ENDED_BADLY):
        for place in window.list_cells(t, t):
            cells[place] = Span(look.glyph, look.role)
    return _add_now(cells, now, window)


def _add_now(cells: list[Span], now: float, window: Window) -> list[Span]:
    """The line of the present, where nothing else stands."""
    place = window.find_cell(now)
    if 0 <= place < window.cells and cells[place] == _EMPTY:
        cells[place] = _NOW
    return cells


_COUNTED: Final = {**dict.fromkeys((_RAN, _RAN_BADLY, _RAN_CUT), _RUNS), _AGAIN: _WAITS}
"""What of a job counts as what in the strip of its stage."""


def build_stage_strip(
    jobs: Sequence[JobView], joined: float, now: float, window: Window
) -> list[Span]:
    """The cells of a stage: how many ran at a time, against the most that did; where a
    job failed for good, a mark. Differences at the ends of stretches, summed up once:
    the cost is that of attempts and cells, not of both together."""
    changes = {cell: [0] * (window.cells + 1) for cell in (_RUNS, _QUEUED, _WAITS)}
    bad: set[int] = set()
    for job in jobs:
        for begin, end, cell in list_segments(job.record, joined, now):
            places = window.list_cells(begin, end)
            if end > begin and places:
                own = changes[_COUNTED.get(cell, cell)]
                own[places.start] += 1
                own[places.stop] -= 1
        if job.record.state in (JobState.FAILED, JobState.LOST):
            bad.update([window.find_cell(t) for t, _ in list_marks(job.record)][-1:])
    counts = zip(*(accumulate(one) for one in changes.values()), strict=True)
    heights = list(counts)[: window.cells]
    most = max((running for running, *_ in heights), default=0)
    cells = []
    for running, queued, waiting in heights:
        cell = _QUEUED if queued else _WAITS if waiting else _EMPTY
        if running:
            cell = Span(BARS[max(0, round(running / most * 8) - 1)], "running")
        cells.append(cell)
    for place in bad & set(range(window.cells)):
        cells[place] = Span(Look.FAILED.glyph, Look.FAILED.role)
    return _add_now(cells, now, window)


_STEPS: Final = (
    1, 2, 5, 10, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200,
    DAY, 2 * DAY, 7 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY,
)  # fmt: skip
_LABEL: Final = 9
"""Cells from one label to the next, at least."""


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


def list_midnights(window: Window) -> Iterator[float]:
    """The beginnings of the days of the machine's zone, of at most 400."""
    year, month, day, *_ = time.localtime(window.begin)
    for later in range(1, 401):
        t = time.mktime((year, month, day + later, *(0,) * 5, -1))
        if t >= window.end:
            return
        yield t


def format_tick(t: float, *, by_days: bool) -> str:
    """`14:00`; at midnights, and where days are the step, `Mon 09`."""
    local = time.localtime(t)
    midnight = (local.tm_hour, local.tm_min, local.tm_sec) == (0, 0, 0)
    if by_days or midnight:
        return time.strftime("%a %d", local)
    return time.strftime("%H:%M:%S" if local.tm_sec else "%H:%M", local)


def render_axis(
    window: Window, now: float, gaps: Sequence[tuple[float, float]], indent: int
) -> tuple[Line, Line]:
    """The labels, and below them the ticks with gaps (`░`) and the present (`▾`)."""
    found = list_ticks(window, now)
    by_days = len(found) > 1 and found[1] - found[0] >= DAY
    names = ""
    cells = [Span("─", "rule")] * window.cells
    for t in found:
        place = window.find_cell(t)
        name = format_tick(wall_time(t, now), by_days=by_days)
        if place + len(name) <= window.cells:
            names = names.ljust(place) + name
        cells[place] = Span("┬", "rule")
    for begin, end in gaps:
        for place in window.list_cells(begin, end):
            cells[place] = Span("░", "warning")
    if 0 <= window.find_cell(now) < window.cells:
        cells[window.find_cell(now)] = Span("▾", "accent")
    head = Span(f"{f' {duration(window.seconds)}':<{indent}}", "muted")
    return (head, Span(names, "muted")), (Span(" " * indent), *join_cells(cells))
