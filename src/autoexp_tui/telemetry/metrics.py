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
    Table,
    fold,
    is_rule,
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
class EpochCounter:
    """Steps of a text that tells epochs: by their bars; without them how many points
    there will be, from those of the epochs so far."""

    _number: int | None = None
    """The present epoch; None: the text told none."""
    _base: int = 1
    """The number of the first epoch: 0 or 1."""
    _seen: int = 0
    """Epochs that began after the first that was seen."""
    _most: int | None = None
    """How many epochs there are."""
    _size: int = 0
    """Steps of an epoch, as its bar tells; 0: there was no bar."""
    _planned: int | None = None
    """Steps of the run, where a line told how many its bar goes up to."""

    @property
    def knows_bar(self) -> bool:
        """Whether epochs have bars of a known size."""
        return self._size > 0

    def locate(self, reading: Reading, at: int) -> tuple[int | None, int | None]:
        """(step, last step) that a reading tells by epochs or bars; `at`: points so
        far. None: it does not tell."""
        if reading.bar and reading.bar[1] == self._planned:
            return reading.bar
        if not (reading.epoch or reading.values):
            self._planned = reading.total or self._planned
        if reading.epoch:
            number, most = reading.epoch
            self._base = min(self._base, number)
            self._seen += self._number is not None and number > self._number
            self._number, self._most = number, most or self._most
        if self._number is None:
            return None, None
        if reading.bar is None:
            is_new = reading.epoch and self._seen and self._most and not self._size
            left = (self._most or 0) - self._number + self._base
            return None, round(at + at / self._seen * left) if is_new else None
        done, size = reading.bar
        if self._size not in (0, size):
            return None, None
        self._size = size
        return (self._number - self._base) * size + done, (self._most or 0) * size


@dataclass(slots=True)
class StepCounter:
    """Where one text stands: its lines as points, those without a step too."""

    _step: int = 0
    _own_steps: int = 0
    """How often the text itself told another step; twice, and it counts its own."""
    _total: int | None = None
    _reported: set[str] | None = None
    """Metrics that the present step has; None: no step was seen, all are taken."""
    _epochs: EpochCounter | None = field(default_factory=EpochCounter)
    """None: the text tells steps, and epochs do not matter."""
    _expected: int | None = None
    """Points that there will be, as far as epochs tell."""

    def make_point(
        self, reading: Reading, offset: int, passed_over: int = 0
    ) -> Point | None:
        """The next line, as a point; `passed_over`: lines like it before it. None: it
        says nothing yet."""
        step, total, values, evaluation, epoch, bar = reading
        if step is not None and not (bar or evaluation):
            self._epochs = self._expected = None
        expected = None
        if self._epochs:
            found, expected = self._epochs.locate(reading, self._step)
            if found is not None:
                step, total, self._own_steps = found, expected, max(self._own_steps, 2)
            elif bar and self._epochs.knows_bar:
                step = total = None  # the bar of something else
            self._expected = expected or self._expected
        if step is None and not (values or (epoch and expected)):
            return None
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
        return Point(step, self._total or self._expected, values, offset)


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
    _table: Table = field(default_factory=Table, init=False)

    def read(self, data: bytes, offset: int = 0, every: int = 0) -> list[Point]:
        """The points of whole lines that begin at byte `offset` of the file. `every`:
        of a backlog, in about so many bytes, lines that differ only in their numbers
        are passed over, but for the first and the last."""
        own = self.own.read(data) if self.own.metrics else {}
        points = []
        for start, line, passed_over in _select_lines(fold(data), every, own):
            mine, reading = own.get(start), None
            if is_rule(line):
                reading = self._table.close()
            elif not self._table.add_row(line):
                reading = read_line(_cut(line), has_values=mine is not None)
            if self.own.metrics:
                reading = self.own.merge(reading, mine or {})
            if reading is not None:
                place = offset + start
                if point := self._steps.make_point(reading, place, passed_over):
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
        for (start, line), whole in zip(
            split_lines(low), low.decode().split("\n"), strict=True
        ):
            if start in always or may_say_something(whole):
                yield start, line, 0
        return
    texts = low.translate(None, _NUMBERS).decode().split("\n")
    worth = (
        (text, start, line)
        for (start, line), text in zip(split_lines(low), texts, strict=True)
        if start in always or may_say_something(text)
    )

    def tell_apart(of: tuple[str, int, bytes]) -> tuple[str, int]:
        text, start, _ = of
        return ("", start) if start in always else (text, start // every)

    for _, group in groupby(worth, key=tell_apart):
        lines = [(start, line) for _, start, line in group]
        yield *lines[0], 0
        if len(lines) > 1:
            yield *lines[-1], len(lines) - 2
