"""Reading a line again that differs from an earlier one only in its numbers.

What `metric_lines.read_line` makes of a line depends on its text, not on the digits in
it. So a line that was read once becomes a regex with a group for every number that was
taken; lines of the same layout are then read by one match, many times faster. Nothing
is guessed: a line that is not exactly of a known layout is read the long way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.monitor.metric_lines import (
    LOSS,
    STEP,
    TOKENS_PER_SECOND,
    TOTAL,
    Places,
    Reading,
    Span,
)
from autoexp_tui.monitor.sieve import escaped

_MOST: Final = 8
"""Layouts that one log may have."""
_PATIENCE: Final = 256
"""Different texts after which learning no longer pays."""
_LONGEST: Final = 2000
"""Bytes of a line that is worth learning."""

_TOKEN: Final = re.compile(rb"( *)((?:(?<=[ :|(])[-+])?\d+\.?\d*(?:e[-+]?\d+)?)")
_FLOAT: Final = r"([0-9]+\.?[0-9]*(?:e[-+]?[0-9]+)?)"
_SIGNED: Final = r"([-+]?[0-9]+\.?[0-9]*(?:e[-+]?[0-9]+)?)"
_WHOLE: Final = r"([0-9]{1,15})"
_WORDS: Final = re.compile(rb"[a-z][a-z :|/_-]{3,}")
_ANY_FILL: Final = "[?# ]*[0-9]?[?# ]*"
_FILL: Final = re.compile(rf"%\|({_ANY_FILL})\|".encode())
"""Of a progress bar; a digit is the part of a step that ASCII has no block for."""


_Values: TypeAlias = dict[str, float]


class Run(NamedTuple):
    """An unbroken run of lines of one layout."""

    end: int
    """Where the next line starts."""
    readings: list[tuple[int, Reading]]
    """(start of line, what it says)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A line's text with holes for its numbers."""

    regex: re.Pattern[bytes]
    """Matches a whole line and its end."""
    names: tuple[str, ...]
    """Of the groups, in order: `step`, `total`, or a metric."""
    extra: Mapping[str, float]
    """Metrics that the text itself gives: nan and inf."""
    scales: Mapping[str, float]
    """What a unit multiplies a metric by."""
    evaluation: bool
    alike: str
    """The pattern for a `monitor.sieve.MakeTest` of text that is nothing but lines of
    this layout."""
    label: bytes = b""
    """What stands before the loss, once in each line; empty: no line is passed over."""
    sample: bytes = b""
    """A line of it."""

    def alike_with(self, loss: str) -> str:
        """`alike`, for losses of a pattern alone; empty when their place is not plain.

        `loss`: stands for the padding before the number, too.
        """
        label = escaped(self.label.decode("latin-1"))
        before, found, after = self.alike.partition(label)
        for hole in (f" +{_SIGNED}", _SIGNED):
            if found and after.startswith(hole):
                return f"{before}{label}{loss}{after[len(hole) :]}"
        return ""

    def place_of_loss(self, line: bytes) -> Span | None:
        """Where the number of the loss stands in a line, its end included; None: the
        line is not of the layout. Which digits it has makes no difference."""
        match = self.regex.match(line) if LOSS in self.names else None
        if match is None or match.end() < len(line) or not line.endswith(b"\n"):
            return None
        return match.span(1 + self.names.index(LOSS))

    def read(self, low: bytes, line: re.Match[bytes], most: int) -> Run:
        """What the unbroken run of lines says that begins with `line`.

        `line`: a match of `regex` in `low`; `most`: at most so many lines.
        """
        match, places, rows = self.regex.match, [line.start()], [line.groups()]
        end = line.end()
        while len(rows) < most and (further := match(low, end)):
            places.append(end)
            rows.append(further.groups())
            end = further.end()
        if len(rows) == 1:
            return Run(end, [(places[0], self._alone(rows[0]))])
        return Run(end, list(zip(places, self._together(rows), strict=True)))

    def _alone(self, texts: tuple[bytes, ...]) -> Reading:
        values = dict(zip(self.names, map(float, texts), strict=True))
        step, total = values.pop(STEP, None), values.pop(TOTAL, None)
        (values,) = self._completed([values])
        return Reading(
            None if step is None else int(step),
            None if total is None else int(total),
            values,
            self.evaluation,
        )

    def _together(self, rows: list[tuple[bytes, ...]]) -> Iterator[Reading]:
        """Column by column: cheaper where lines are many."""
        columns = dict(zip(self.names, zip(*rows, strict=True), strict=True))
        steps = _whole(columns.pop(STEP, None))
        totals = _whole(columns.pop(TOTAL, None))
        names = tuple(columns)
        numbers = zip(*(map(float, column) for column in columns.values()), strict=True)
        values = (dict(zip(names, line, strict=True)) for line in numbers)
        everywhere = values if names else ({} for _ in rows)
        completed = self._completed(everywhere)
        return map(Reading, steps, totals, completed, repeat(self.evaluation))

    def _completed(self, values: Iterable[_Values]) -> Iterable[_Values]:
        """Values with those that the text gives, and in their units."""
        if not (self.extra or self.scales):
            return values
        return (self._complete(line) for line in values)

    def _complete(self, values: _Values) -> _Values:
        scaled = {name: values[name] * scale for name, scale in self.scales.items()}
        return {**values, **scaled, **self.extra}


def _whole(column: tuple[bytes, ...] | None) -> Iterable[int | None]:
    return repeat(None) if column is None else map(int, column)


class Layouts:
    """The layouts of one log; learns one when its text came twice."""

    def __init__(self) -> None:
        self._known: list[Layout] = []
        self._seen: set[int] = set()
        """Hashes of patterns: two texts that share one cost no more than a layout."""
        self._newest: Layout | None = None
        self._others: dict[bytes, list[bytes]] = {}
        """A line of the main layout -> what tells the others from it."""

    @property
    def main(self) -> Layout | None:
        """The layout that was found last of those with lines to be passed over."""
        return self._newest

    def others(self) -> list[bytes]:
        """What tells lines of the other layouts from those of the main one, if words
        do."""
        main = self.main.sample if self.main else b""
        if main not in self._others:
            self._others[main] = self._apart_from(main)
        return self._others[main]

    def _apart_from(self, main: bytes) -> list[bytes]:
        words = (_WORDS.findall(one.sample) for one in self._known)
        apart = ([word for word in some if word not in main] for some in words)
        return [max(some, key=len) for some in apart if some]

    def find(self, low: bytes, start: int) -> tuple[Layout, re.Match[bytes]] | None:
        """The known layout of the line at `start`, and its match."""
        for layout in self._known:
            match = layout.regex.match(low, start)
            if match:
                if layout.label:
                    self._newest = layout
                return layout, match
        return None

    def learn(
        self, line: bytes, start: int, reading: Reading, places: Places | None
    ) -> None:
        """Remember the layout of a line that was read the long way.

        `start`: where the line stood when its places were noted.
        """
        if len(self._known) >= _MOST or len(self._seen) >= _PATIENCE:
            return
        if places is None or len(line) > _LONGEST:
            return
        found = _sketch(line, start, reading, places)
        if found is None:
            return
        pattern, names, extra = found
        mark = hash(pattern)
        if mark in self._seen:
            regex, alike = _compiled(pattern), rf"^(?:{pattern}\n)+$"
            label = b"" if extra or reading.evaluation else _label(line, start, places)
            scales, evaluation = places.scales, reading.evaluation
            made = Layout(regex, names, extra, scales, evaluation, alike, label, line)
            self._known.append(made)
            self._others.clear()
        self._seen.add(mark)


def _label(line: bytes, start: int, places: Places) -> bytes:
    """What stands before the loss, when it stands nowhere else in the line."""
    if LOSS not in places.spans:
        return b""
    number = places.spans[LOSS][0] - start
    tokens = (t.end() for t in _TOKEN.finditer(line) if t.end() < number)
    label = line[max(tokens, default=0) : number].rstrip(b" ")
    return label if line.count(label) == 1 else b""


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[bytes]:
    """A whole line; compiling is slow, and the logs of a campaign share layouts."""
    return re.compile(rf"{pattern}(?:\n|\Z)".encode("latin-1"))


# ------------------------------------------------------------------------ sketching
_Sketch: TypeAlias = tuple[str, tuple[str, ...], Mapping[str, float]]
"""(pattern, names of its groups in order, metrics that the text itself gives)."""


def _sketch(
    line: bytes, start: int, reading: Reading, places: Places
) -> _Sketch | None:
    """A line's layout; None when a number does not stand alone in its place."""
    spans = {name: (a - start, b - start) for name, (a, b) in places.spans.items()}
    extra = {
        name: reading.values[name]
        for name, (begin, end) in spans.items()
        if line[begin:end].lstrip(b"+-").isalpha()
    }
    holes = {span: name for name, span in spans.items() if name not in extra}
    names: list[str] = []
    pattern = "".join(_pieces(line, holes, names))
    return (pattern, tuple(names), extra) if len(names) == len(holes) else None


def _pieces(
    line: bytes, holes: Mapping[tuple[int, int], str], names: list[str]
) -> Iterator[str]:
    """Pieces of the regex; appends the names of the holes that it has.

    What fills a progress bar says nothing that is read, however full it is.
    """
    bar = _FILL.search(line)
    if bar is None:
        yield from _plain_pieces(line, 0, len(line), holes, names)
        return
    yield from _plain_pieces(line, 0, bar.start(1), holes, names)
    yield _ANY_FILL
    yield from _plain_pieces(line, bar.end(1), len(line), holes, names)


def _plain_pieces(
    line: bytes,
    start: int,
    end: int,
    holes: Mapping[tuple[int, int], str],
    names: list[str],
) -> Iterator[str]:
    done = start
    for token in _TOKEN.finditer(line, start, end):
        yield _text(line[done : token.start()])
        yield " +" if token[1] else ""
        name = holes.get(token.span(2))
        yield _hole(name) if name else _number_alike(token[2].decode())
        names.extend([name] if name else [])
        done = token.end()
    yield _text(line[done:end])


def _text(some: bytes) -> str:
    return escaped(some.decode("latin-1"))


def _hole(name: str) -> str:
    if name in (STEP, TOTAL):
        return _WHOLE
    return _FLOAT if name == TOKENS_PER_SECOND else _SIGNED


def _number_alike(text: str) -> str:
    """A number spelled alike: signed, with a fraction, with an exponent, or not."""
    kinds = "".join(_kind(part) for part in re.findall(r"[0-9]+|.", text))
    return kinds.replace("e[-+]", "e[-+]?").replace("e[0-9]", "e[-+]?[0-9]")


def _kind(part: str) -> str:
    return (
        "[0-9]+"
        if part.isdigit()
        else {"+": "[-+]", "-": "[-+]", ".": r"\."}.get(part, part)
    )
