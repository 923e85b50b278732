"""Metrics from new log bytes: a `MetricReader` a run, points out. The same bytes cut
otherwise at line ends give the same points."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.model.rules import MetricPattern
from autoexp_tui.telemetry.log_rules import compile_pattern, find_number
from autoexp_tui.telemetry.metric_lines import (
    Reading,
    fold,
    may_say_something,
    read_line,
    split_lines,
)
from autoexp_tui.text.log_lines import STEP, find_canonical_name
from autoexp_tui.text.patterns import MAX_LINE, LineSearch, Pattern, make_readable


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
class StepCounter:
    """Where one text stands: its lines as points, those without a step too."""

    _step: int = 0
    _own_steps: int = 0
    """How often the text itself told another step; twice, and it counts its own."""
    _total: int | None = None
    _reported: set[str] | None = None
    """Metrics that the present step has; None: no step was seen, all are taken."""

    def make_point(self, reading: Reading, offset: int, passed_over: int = 0) -> Point:
        """The next line, as a point; `passed_over`: lines like it before it."""
        step, total, values, evaluation = reading
        if step is None or (evaluation and step < self._step):
            # It tells none: no other where the text counts its own, nor past the last.
            known = self._reported is None or not self._reported.isdisjoint(values)
            step = self._step
            if self._own_steps <= 1:
                step += known + passed_over
                step = max(self._step, min(step, self._total)) if self._total else step
        elif step != self._step:
            self._own_steps += 1
        if step != self._step or self._reported is None:
            self._step, self._reported = step, set(values)
        else:
            self._reported.update(values)
        if total and not evaluation:
            self._total = total
        return Point(step, self._total, values, offset)


_Compiled: TypeAlias = tuple[str, Pattern]
"""A metric of the user's, ready to read: its canonical name, its pattern."""


def compile_metric(metric: MetricPattern) -> _Compiled:
    """A metric of the user's, ready to read; raises ValueError."""
    pattern = compile_pattern(f"metric {metric.name}", metric.pattern)
    if not pattern.groups:
        raise ValueError(f"metric {metric.name}: the pattern has no group")
    return find_canonical_name(metric.name), pattern


class OwnMetrics:
    """The metrics of the user's, which win over known ones."""

    def __init__(self, metrics: Sequence[_Compiled] = ()) -> None:
        self.metrics = metrics
        self.search = LineSearch([pattern for _, pattern in metrics])
        self._names = frozenset(name for name, _ in metrics)

    def read(self, data: bytes) -> dict[int, dict[str, float]]:
        """Start of a line -> its values by metric, for lines that have any."""
        found: dict[int, dict[str, float]] = {}
        for line in self.search.find(make_readable(data)):
            for name, pattern in self.metrics:
                value = find_number(pattern, line.text)
                if value is not None:
                    found.setdefault(line.start, {})[name] = value
        return found

    def merge(self, known: Reading | None, own: Mapping[str, float]) -> Reading | None:
        """A reading of the known metrics, with a line's own ones in their place."""
        reading = Reading(None, None, {})
        if known:
            kept = {k: v for k, v in known.values.items() if k not in self._names}
            step = None if STEP in self._names else known.step
            if kept or step is not None:
                reading = known._replace(step=step, values=kept)
        if not own:
            return reading if reading.values or reading.step is not None else None
        values = {**reading.values, **own}
        count = values.pop(STEP, None)
        if count is None:
            return reading._replace(values=values)
        is_whole = math.isfinite(count) and abs(count) < 1e18
        return reading._replace(values=values, step=int(count) if is_whole else None)


_NO_METRICS: Final = OwnMetrics()


_Line: TypeAlias = tuple[int, bytes, int]
"""(start, folded text, lines like it right before it that are not read)."""


@dataclass(slots=True)
class MetricReader:
    """Reads one run's log. A new run, or a log that began anew, takes a new reader."""

    own: OwnMetrics = _NO_METRICS
    _steps: StepCounter = field(default_factory=StepCounter, init=False)

    def read(self, data: bytes, offset: int = 0, every: int = 0) -> list[Point]:
        """The points of whole lines that begin at byte `offset` of the file. `every`:
        of a backlog, in about so many bytes, lines that differ only in their numbers
        are passed over, but for the first and the last."""
        own = self.own.read(data) if self.own.metrics else {}
        points = []
        for start, line, passed_over in _select_lines(fold(data), every, own):
            mine, reading = own.get(start), None
            if mine is not None or may_say_something(line):
                reading = read_line(_cut(line), has_values=mine is not None)
                if self.own.metrics:
                    reading = self.own.merge(reading, mine or {})
            if reading is not None:
                point = self._steps.make_point(reading, offset + start, passed_over)
                points.append(point)
        return points


def _cut(line: bytes) -> bytes:
    """What is looked at of a line; it cuts no number in two."""
    if len(line) <= MAX_LINE:
        return line
    return line[: line.rfind(b" ", 0, MAX_LINE) + 1 or MAX_LINE]


_NUMBERS: Final = b"0123456789 #?"
"""What differs in lines that say the same: digits, blanks, what fills a bar."""


def _select_lines(low: bytes, every: int, always: Container[int]) -> Iterator[_Line]:
    """Of lines that follow each other and differ only in numbers the first and the last
    of `every` bytes; without `every`, and at the starts in `always`, all."""
    if not every:
        yield from ((start, line, 0) for start, line in split_lines(low))
        return
    texts = low.translate(None, _NUMBERS).split(b"\n")
    worth = (
        (text, start, line)
        for (start, line), text in zip(split_lines(low), texts, strict=True)
        if start in always or may_say_something(text)
    )

    def tell_apart(of: tuple[bytes, int, bytes]) -> tuple[bytes, int]:
        text, start, _ = of
        return (b"", start) if start in always else (text, start // every)

    for _, group in groupby(worth, key=tell_apart):
        lines = [(start, line) for _, start, line in group]
        yield *lines[0], 0
        if len(lines) > 1:
            yield *lines[-1], len(lines) - 2
