"""Metrics from new log bytes: a `MetricReader` a run, points out.

Lines that can say nothing are never split or decoded. The reader keeps only the last
step, so the same bytes cut otherwise at line ends give the same points. What a line
means is `monitor.metric_lines`; what is ill about a series is `monitor.anomalies`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final, NamedTuple

from autoexp_tui.core.rule_kinds import MetricPattern
from autoexp_tui.monitor.careful import CarefulRegex, Linear, careful, no_linear
from autoexp_tui.monitor.comparing import as_number
from autoexp_tui.monitor.metric_backlog import span_end, thin
from autoexp_tui.monitor.metric_layouts import Layouts
from autoexp_tui.monitor.metric_lines import (
    EVAL_LOSS,
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    MARKS,
    STEP,
    TOKENS_PER_SECOND,
    Reading,
    fold,
    read_line,
)
from autoexp_tui.monitor.prefilter import (
    MAX_LINE,
    LineFinder,
    line_text,
    with_newlines,
)
from autoexp_tui.monitor.sieve import MakeTest, Sieve, by_re

_ALIASES: Final = {
    "iteration": STEP,
    "iter": STEP,
    "global_step": STEP,
    "lr": LEARNING_RATE,
    "tokens/s": TOKENS_PER_SECOND,
    "tok/s": TOKENS_PER_SECOND,
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
    `grad_norm`; others are as they are written.
    """
    key = name.strip().lower().replace(" ", "_")
    return _ALIASES.get(key, key if key in _KNOWN else name)


_KNOWN: Final = frozenset(
    {STEP, LOSS, EVAL_LOSS, LEARNING_RATE, TOKENS_PER_SECOND, GRAD_NORM}
)


class Point(NamedTuple):
    """What one line said at a step. A tuple: thousands are made a second."""

    step: int
    """The line's own; else the last one seen, or the next when that one has the
    metric already (so a log without steps counts its own points from 1)."""
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
    _total: int | None = None
    _reported: set[str] | None = None
    """Metrics that the present step has; None: no step was seen, all are taken."""

    def point(self, reading: Reading, offset: int) -> Point:
        """The next line, as a point."""
        step, total, values, evaluation, passed_over = reading
        if step is None or (evaluation and step < self._step):
            step = self._step + self._has_any(values) + passed_over
        if step != self._step or self._reported is None:
            self._step, self._reported = step, set(values)
        else:
            self._reported.update(values)
        if total and not evaluation:
            self._total = total
        return Point(step, self._total, values, offset)

    def _has_any(self, values: Mapping[str, float]) -> bool:
        """Whether the present step has one of the metrics already."""
        return self._reported is None or not self._reported.isdisjoint(values)


@dataclass(frozen=True, slots=True)
class _Custom:
    """A pattern of the user's."""

    name: str
    finder: LineFinder
    regex: CarefulRegex


@dataclass(slots=True)
class MetricReader:
    """Reads one run's log. A new run, or a log that began anew, takes a new reader.

    Raises:
        ValueError: a pattern does not compile, or has no group.
    """

    patterns: Iterable[MetricPattern] = ()
    make_test: MakeTest = by_re
    """How pieces of a log that say nothing are told."""
    linear: Linear = no_linear
    """Asked before a pattern of the user's is searched."""
    _custom: tuple[_Custom, ...] = field(init=False)
    _owned: frozenset[str] = field(init=False)
    _layouts: Layouts = field(default_factory=Layouts, init=False)
    _sieve: Sieve = field(init=False)
    _steps: Steps = field(default_factory=Steps, init=False)

    def __post_init__(self) -> None:
        self._custom = tuple(
            _compiled(pattern, self.linear) for pattern in self.patterns
        )
        self._owned = frozenset(custom.name for custom in self._custom)
        self._sieve = _marks(self.make_test)

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
        readings = self._readings(data, every)
        if self._custom:
            readings = self._with_custom(with_newlines(data), readings)
        point = self._steps.point
        return [point(reading, offset + start) for start, reading in readings]

    def _readings(self, data: bytes, every: int) -> Iterable[tuple[int, Reading]]:
        """(start of line, what it says) for each line that says something."""
        if not every:
            yield from self._of_part(data, 0)
            return
        start = 0
        while start < len(data):
            stop = span_end(data, start, _PART)
            for place, reading in self._of_part(data[start:stop], every):
                yield start + place, reading
            start = stop

    def _of_part(self, part: bytes, every: int) -> Iterator[tuple[int, Reading]]:
        data = with_newlines(part)
        low = b"" if data.isascii() else fold(data)  # a text of ASCII is needed anyway
        text = (low or data).decode("ascii")
        for begin, end in self._sieve.spans(low or data, text):
            piece = low[begin:end] if low else fold(data[begin:end])
            if every:
                found = self._thinned(piece, every)
            else:
                found = _read(piece, self._layouts)
            for start, reading in found:
                yield begin + start, reading

    def _thinned(self, low: bytes, every: int) -> Iterator[tuple[int, Reading]]:
        start = 0
        while start < len(low):
            stop = span_end(low, start, every)
            kept = thin(
                low,
                start,
                stop,
                self._layouts.main,
                self._sieve.test,
                self.make_test,
                self._layouts.others(),
            )
            for begin, end, passed_over in kept:
                for place, reading in _read(low[begin:end], self._layouts):
                    if passed_over:
                        reading = reading._replace(passed_over=passed_over)
                    yield begin + place, reading
            start = stop

    # ----------------------------------------------------------------------- custom
    def _with_custom(
        self, data: bytes, readings: Iterable[tuple[int, Reading]]
    ) -> list[tuple[int, Reading]]:
        """The readings with the user's own metrics, which win over known ones."""
        lines = {start: self._without_owned(reading) for start, reading in readings}
        for custom in self._custom:
            for start, end in custom.finder.lines(data):
                value = _value(custom.regex, line_text(data, start, end))
                if value is not None:
                    old = lines.get(start) or self._beside(data[start:end])
                    lines[start] = _added(old, custom.name, value)
        kept = ((start, reading) for start, reading in lines.items() if reading)
        return sorted(kept, key=lambda entry: entry[0])

    def _beside(self, line: bytes) -> Reading:
        """What else a line says that holds a metric of the user's."""
        low = fold(line)
        found = read_line(low, 0, _near_end(low, 0, len(low)), has_values=True)
        own = self._without_owned(found[0]) if found else None
        return own or Reading(None, None, {})

    def _without_owned(self, reading: Reading) -> Reading | None:
        values = {k: v for k, v in reading.values.items() if k not in self._owned}
        step = None if STEP in self._owned else reading.step
        if not values and step is None:
            return None
        return reading._replace(step=step, values=values)


def _added(reading: Reading, name: str, value: float) -> Reading:
    if name == STEP:
        whole = int(value) if value == value and abs(value) < 1e18 else None
        return reading._replace(step=whole)
    return reading._replace(values={**reading.values, name: value})


def _value(regex: CarefulRegex, line: str) -> float | None:
    match = regex.search(line)
    text = match[1] if match else None
    number = as_number(text.replace(",", "")) if text else None
    return None if number is None else float(number)


def _compiled(pattern: MetricPattern, linear: Linear) -> _Custom:
    try:
        regex = re.compile(pattern.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"metric {pattern.name}: {error}") from error
    if not regex.groups:
        raise ValueError(f"metric {pattern.name}: the pattern has no group")
    made = careful(regex, linear)
    return _Custom(canonical(pattern.name), LineFinder(pattern.pattern), made)


# ---------------------------------------------------------------------- known ones
_PART: Final = 384 << 10
"""Bytes of a backlog that are gone through at a time. They stay in the cache, and what
is made of them fits in memory that is held already: fresh pages cost as much as the
work that is done on them."""
_RUN: Final = 512
"""Lines of one layout that are read together."""


@cache
def _marks(make_test: MakeTest) -> Sieve:
    return Sieve(MARKS, make_test, caseless=True)


def _read(low: bytes, layouts: Layouts) -> Iterator[tuple[int, Reading]]:
    """(start of line, what it says) of whole lines of folded bytes."""
    places = [-1] * len(MARKS)
    start, stop = 0, -1
    while start < len(low):
        known = layouts.find(low, start)
        if known is not None:
            layout, line = known
            run = layout.read(low, line, _RUN)
            yield from run.readings
            start, stop = run.end, -1
        elif start <= stop:
            yield from _read_long(low, start, stop, layouts)
            start, stop = stop + 1, -1
        elif (place := _candidate(low, places, start)) is not None:
            start, stop = place
        else:
            return


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
