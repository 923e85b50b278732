"""Metrics from new log bytes: a `MetricReader` a run, points out.

Lines that can say nothing are never split or decoded. The reader keeps only the last
step, so the same bytes cut otherwise at line ends give the same points. What a line
means is `telemetry.metric_lines`; what is ill about a series is `telemetry.anomalies`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from autoexp_tui.conditions.comparing import as_number
from autoexp_tui.model.rules import MetricPattern
from autoexp_tui.telemetry.metric_layouts import Layout, Layouts, Row
from autoexp_tui.telemetry.metric_lines import (
    EVAL_LOSS,
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    MARKS,
    STEP,
    TOKENS_PER_SECOND,
    Reading,
    fold,
    plain_name,
    read_line,
)
from autoexp_tui.text.patterns import (
    MAX_LINE,
    LineSearch,
    Pattern,
    PatternRefused,
    compile_line_pattern,
    readable,
)

_ALIASES: Final = {
    "iteration": STEP,
    "iter": STEP,
    "global_step": STEP,
    "lr": LEARNING_RATE,
    "tokens_s": TOKENS_PER_SECOND,
    "tok_s": TOKENS_PER_SECOND,
    "tps": TOKENS_PER_SECOND,
    "gradient_norm": GRAD_NORM,
    "lm_loss": LOSS,
    "train_loss": LOSS,
    "val_loss": EVAL_LOSS,
    "validation_loss": EVAL_LOSS,
    "test_loss": EVAL_LOSS,
}


@lru_cache(maxsize=1024)
def canonical(name: str) -> str:
    """The one name of a metric that goes by several: `lr` is `learning_rate`.

    The known ones: `step`, `loss`, `eval_loss`, `learning_rate`, `tokens_per_second`,
    `grad_norm`; others keep their own, as `plain_name` writes it.
    """
    key = plain_name(name)
    return _ALIASES.get(key, key)


class Point(NamedTuple):
    """What one line said at a step. A tuple: thousands are made a second."""

    step: int
    """The line's own; else the last one seen. In a log that tells no steps, the next
    when that one has the metric already: its points are counted from 1."""
    total: int | None
    """The last step of the run as far as the log has said."""
    values: Mapping[str, float]
    """By canonical name; may be nan or inf. Empty when only the step moved."""
    offset: int
    """Bytes from the start of the file to the start of the line."""


@dataclass(slots=True)
class Steps:
    """Where one text stands: its lines as points, those without a step too."""

    _step: int = 0
    _told: int = 0
    """How often the text itself told another step; twice, and it counts its own."""
    _total: int | None = None
    _reported: set[str] | None = None
    """Metrics that the present step has; None: no step was seen, all are taken."""

    def point(self, reading: Reading, offset: int) -> Point:
        """The next line, as a point."""
        step, total, values, evaluation, passed_over = reading
        if step is None or (evaluation and step < self._step):
            step = self._counted(self._has_any(values) + passed_over)
        elif step != self._step:
            self._told += 1
        if step != self._step or self._reported is None:
            self._step, self._reported = step, set(values)
        else:
            self._reported.update(values)
        if total and not evaluation:
            self._total = total
        return Point(step, self._total, values, offset)

    def _counted(self, more: int) -> int:
        """The step of a line that tells none: no other where the text counts its own,
        and never one past the last."""
        if self._told > 1:
            return self._step
        step = self._step + more
        return max(self._step, min(step, self._total)) if self._total else step

    def _has_any(self, values: Mapping[str, float]) -> bool:
        """Whether the present step has one of the metrics already."""
        return self._reported is None or not self._reported.isdisjoint(values)


@dataclass(frozen=True, slots=True)
class CompiledMetric:
    """A metric of the user's, ready to read."""

    name: str
    """Canonical."""
    pattern: Pattern


class OwnMetrics:
    """The metrics of the user's, which win over known ones."""

    def __init__(self, metrics: Sequence[CompiledMetric] = ()) -> None:
        self.metrics = metrics
        self.names = frozenset(metric.name for metric in metrics)
        self.search = LineSearch([metric.pattern for metric in metrics])

    def values(self, data: bytes) -> Iterator[tuple[int, bytes, str, float]]:
        """(start of line, line, metric, value), metric by metric for each line."""
        for line in self.search.find(data):
            for metric in self.metrics:
                value = _value(metric.pattern, line.text)
                if value is not None:
                    yield line.start, line.text, metric.name, value


_NO_METRICS: Final = OwnMetrics()


def compile_metric(metric: MetricPattern) -> CompiledMetric:
    """A metric of the user's, ready to read.

    Raises:
        ValueError: its pattern is refused, or has no group.
    """
    try:
        pattern = compile_line_pattern(metric.pattern)
    except PatternRefused as error:
        where = f"metric {metric.name}: {metric.pattern!r}"
        raise ValueError(f"{where} {error.problem}: {error.hint}") from error
    if not pattern.groups:
        raise ValueError(f"metric {metric.name}: the pattern has no group")
    return CompiledMetric(canonical(metric.name), pattern)


@dataclass(slots=True)
class MetricReader:
    """Reads one run's log. A new run, or a log that began anew, takes a new reader."""

    own: OwnMetrics = _NO_METRICS
    _layouts: Layouts = field(default_factory=Layouts, init=False)
    _steps: Steps = field(default_factory=Steps, init=False)

    def feed(self, data: bytes, offset: int = 0, every: int = 0) -> list[Point]:
        """The points of whole lines that begin at byte `offset` of the file.

        Args:
            data: whole lines.
            offset: where they stand in the file, bytes.
            every: for a backlog. Of the lines of one layout, some may be passed over,
                so that in about so many bytes, or a part of them, the lowest, the
                highest and the last loss remain; never one that says anything else,
                or nan. 0: none is.
        """
        readings: Iterable[tuple[int, Reading]] = _read(
            fold(data), self._layouts, every
        )
        if self.own.metrics:
            readings = self._with_own(readable(data), readings)
        point = self._steps.point
        return [point(reading, offset + start) for start, reading in readings]

    # -------------------------------------------------------------------------- own
    def _with_own(
        self, data: bytes, readings: Iterable[tuple[int, Reading]]
    ) -> Iterable[tuple[int, Reading]]:
        """The readings with the user's own metrics, which win over known ones."""
        lines = {start: self._without_owned(reading) for start, reading in readings}
        for start, line, name, value in self.own.values(data):
            lines[start] = _added(lines.get(start) or self._beside(line), name, value)
        kept = ((start, reading) for start, reading in lines.items() if reading)
        return sorted(kept, key=lambda entry: entry[0])

    def _beside(self, line: bytes) -> Reading:
        """What else a line says that holds a metric of the user's."""
        low = fold(line)
        found = read_line(low, 0, _near_end(low, 0, len(low)), has_values=True)
        own = self._without_owned(found[0]) if found else None
        return own or Reading(None, None, {})

    def _without_owned(self, reading: Reading) -> Reading | None:
        owned = self.own.names
        values = {k: v for k, v in reading.values.items() if k not in owned}
        step = None if STEP in owned else reading.step
        if not values and step is None:
            return None
        return reading._replace(step=step, values=values)


def _added(reading: Reading, name: str, value: float) -> Reading:
    if name == STEP:
        whole = int(value) if value == value and abs(value) < 1e18 else None
        return reading._replace(step=whole)
    return reading._replace(values={**reading.values, name: value})


def _value(pattern: Pattern, line: bytes) -> float | None:
    match = pattern.search(line)
    text = match[pattern.value_group] if match else None
    number = as_number(text.decode().replace(",", "")) if text else None
    return None if number is None else float(number)


# ---------------------------------------------------------------------- known ones
_RUN: Final = 512
"""Lines of one layout that are read together."""


def _read(low: bytes, layouts: Layouts, every: int) -> Iterator[tuple[int, Reading]]:
    """(start of line, what it says) of whole lines of folded bytes; see `feed`."""
    rows = _Rows(every)
    places = [-1] * len(MARKS)
    start, stop = 0, -1
    while start < len(low):
        known = layouts.find(low, start)
        if known is not None:
            layout, line = known
            yield from rows.take(layout, start)
            start, stop = rows.add(low, line), -1
        elif start <= stop:
            told = list(_read_long(low, start, stop, layouts))
            yield from rows.flush() if told else ()
            yield from told
            start, stop = stop + 1, -1
        elif (place := _candidate(low, places, start)) is not None:
            start, stop = place
        else:
            break
    yield from rows.flush()


class _Rows:
    """Lines of one layout that were not read yet."""

    def __init__(self, every: int) -> None:
        """`every`: bytes of a stretch of which few lines are read; 0: all are."""
        self._every = every
        self._layout: Layout | None = None
        self._rows: list[Row] = []

    def take(self, layout: Layout, start: int) -> Iterator[tuple[int, Reading]]:
        """Go on with a line at byte `start`: what the lines so far say, if they end."""
        if self._rows and (
            layout is not self._layout
            or len(self._rows) >= _RUN
            or start - self._rows[0][0] >= self._every
        ):
            yield from self.flush()
        self._layout = layout

    def add(self, low: bytes, line: re.Match[bytes]) -> int:
        """A line, and what follows it in the same layout; where the next one starts."""
        begin = self._rows[0][0] if self._rows else line.start()
        stop = begin + self._every
        found: re.Match[bytes] | None = line
        end = line.start()
        while found and len(self._rows) < _RUN:
            self._rows.append((end, found.groups()))
            end = found.end()
            if end >= stop:
                break
            found = line.re.match(low, end)
        return end

    def flush(self) -> Iterator[tuple[int, Reading]]:
        """What the lines say."""
        rows, layout = self._rows, self._layout
        self._rows = []
        if not rows or layout is None:
            return iter(())
        return layout.thin(rows) if self._every else layout.read(rows)


def _read_long(
    low: bytes, start: int, end: int, layouts: Layouts
) -> Iterator[tuple[int, Reading]]:
    found = read_line(low, start, _near_end(low, start, end))
    if found is not None:
        reading, places = found
        layouts.learn(low[start:end], start, reading, places)
        yield start, reading


def _near_end(low: bytes, start: int, end: int) -> int:
    """The end of what is looked at of a line; it cuts no number in two."""
    if end <= start + MAX_LINE:
        return end
    return low.rfind(b" ", start, start + MAX_LINE) + 1 or start + MAX_LINE


def _candidate(low: bytes, places: list[int], begin: int) -> tuple[int, int] | None:
    """The first line from `begin` on that holds one of `MARKS`.

    `places`: where each of them stands next; kept between calls.
    """
    for index, mark in enumerate(MARKS):
        if places[index] < begin:
            places[index] = _next(low, mark, begin)
    first = min(places)
    if first == len(low):
        return None
    end = low.find(b"\n", first)
    return low.rfind(b"\n", begin, first) + 1 or begin, end if end >= 0 else len(low)


def _next(low: bytes, mark: bytes, start: int) -> int:
    found = low.find(mark, start)
    return len(low) if found < 0 else found
