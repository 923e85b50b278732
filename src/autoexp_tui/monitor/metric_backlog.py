"""Which lines of a backlog of metrics are read, and which may be passed over.

A curve keeps a few hundred points of a run, so of many lines that differ in their
numbers alone only some are read: of each stretch the lowest, the highest and the last
loss, and every line that says anything else. That a line differs in its numbers alone
is tested and not guessed; where it does not hold, all lines are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Final, NamedTuple, TypeAlias, TypeVar

from autoexp_tui.monitor.metric_layouts import Layout
from autoexp_tui.monitor.metric_lines import STEP
from autoexp_tui.monitor.metric_runs import LineRun, extremes, line_runs
from autoexp_tui.monitor.sieve import MakeTest, Test, escaped

T = TypeVar("T", bytes, str)

_LONGEST_NUMBER: Final = 40
"""Bytes within which a number must end to be read here, padding included."""
_MOST_GUESSED: Final = 0.25
"""Of a stretch that may be lines of other layouts; more, and the guess is no good."""
_PROBE: Final = 8 << 10
"""Bytes that show whether a stretch may be as it is guessed to be."""
_SMALL: Final = 4 << 10
"""Bytes that are not halved any more to find lines that are alike."""
_FIXED: Final = re.compile(rb" *([0-9]+)\.([0-9]+)(e[-+][0-9]+)?(?![0-9.])")


class Span(NamedTuple):
    """Lines to be read."""

    start: int
    end: int
    passed_over: int = 0
    """Lines like the (single) line of the span, right before it, that are not read."""


class _Line(NamedTuple):
    """A line whose like may be passed over."""

    place: int
    """Among those of its block; 0 where that does not matter."""
    start: int
    end: int
    loss: float


class _Block(NamedTuple):
    """Lines of the layout, and between them nothing that says anything."""

    size: int
    """Lines; 1 where that does not matter."""
    lowest: _Line
    highest: _Line
    last: _Line


class _Gap(NamedTuple):
    """Lines of another kind, of which some may say something."""

    start: int
    end: int


_Parts: TypeAlias = list[_Block | _Gap]


class _Unlike(Exception):
    """All is to be read: what looks like a line of the layout is none, or its loss is
    not finite."""


def span_end(low: bytes, start: int, size: int) -> int:
    """The end of the whole lines in about `size` bytes, with either sort of ends."""
    for mark in (b"\n", b"\r"):
        end = low.rfind(mark, start, start + size) + 1
        if end:
            return end
    ends = (low.find(mark, start + size) for mark in (b"\n", b"\r"))
    return min((at for at in ends if at >= 0), default=len(low) - 1) + 1


def thin(
    low: bytes,
    start: int,
    end: int,
    layout: Layout | None,
    is_marked: Test,
    make_test: MakeTest,
    others: Sequence[bytes] = (),
) -> Sequence[Span]:
    """The lines of a stretch of folded bytes that are to be read, in order.

    Args:
        low: holds the stretch, whole lines from `start` to `end`.
        layout: whose lines may be passed over; None: none are.
        is_marked: whether a text may say anything of metrics.
        make_test: makes the test whether lines are of the layout.
        others: what lines of other layouts hold. A guess: where it is wrong, the
            stretch is looked through line by line.
    """
    stretch = low[start:end]
    if layout is None or not stretch.isascii():
        return [Span(start, end)]
    try:
        reader = _Stretch(stretch, start, layout, is_marked, make_test, others)
        return list(_kept(reader.parts()))
    except _Unlike:
        middle = span_end(low, start, (end - start) // 2)
        if end - start <= _SMALL or middle >= end:
            return [Span(start, end)]
    halves = ((start, middle), (middle, end))
    return [
        span
        for begin, stop in halves
        for span in thin(low, begin, stop, layout, is_marked, make_test, others)
    ]


def _kept(parts: _Parts) -> Iterator[Span]:
    """What is read of a stretch, in order."""
    blocks = [part for part in parts if isinstance(part, _Block)]
    lowest = min(blocks, key=lambda block: block.lowest.loss, default=None)
    highest = max(blocks, key=lambda block: block.highest.loss, default=None)
    passed = 0
    for part, following in zip(parts, [*parts[1:], None], strict=False):
        if isinstance(part, _Gap):
            yield Span(part.start, part.end)
            continue
        lines = [part.lowest] if part is lowest else []
        lines += [part.highest] if part is highest else []
        lines += [] if isinstance(following, _Block) else [part.last]
        before = -1
        for line in sorted(set(lines), key=lambda line: line.start):
            over = max(0, passed + line.place - before - 1)
            yield Span(line.start, line.end, over)
            passed, before = 0, line.place
        passed += part.size - before - 1


class _Stretch:
    """Some lines of folded ASCII."""

    def __init__(
        self,
        low: bytes,
        base: int,
        layout: Layout,
        is_marked: Test,
        make_test: MakeTest,
        others: Sequence[bytes] = (),
    ) -> None:
        """`base`: where `low` stands; `others`: see `thin`."""
        self.low = low
        self.base = base
        self.layout = layout
        self.label = layout.label
        self.is_marked = is_marked
        self.make_test = make_test
        self.others = others
        self.is_counted = STEP not in layout.names
        """Lines that are passed over count, for they have no step of their own."""
        self.pieces: list[bytes] = []
        """Piece n+1 begins with the loss of line n."""
        self._ends: list[int] = []
        """How long the pieces are together up to each, once it was asked."""

    def parts(self) -> _Parts:
        """The stretch as blocks and gaps that say something, in order.

        Raises:
            _Unlike: it is to be read whole.
        """
        text = self.low.decode("ascii")
        parts = self._in_runs(text)
        parts = self._guessed(text) if parts is None else parts
        if parts is not None:
            return parts
        self.pieces = self.low.split(self.label)
        gaps = dict(self._gaps())
        lines = self._without(text, gaps.values())
        fixed = self._is_fixed(lines)
        if lines and not fixed and not self._is_alike(lines):
            raise _Unlike
        return list(self._parts(self._marked(text, gaps), fixed=fixed))

    # ------------------------------------------------------------------ spelled alike
    def _in_runs(self, text: str) -> _Parts | None:
        """The stretch, where many lines on end differ in their digits alone; else
        None."""
        runs = line_runs(self.low, self.layout)
        if runs is None:
            return None
        found = extremes(self.low, [run for run in runs if run.of_layout])
        if found is None:
            return None
        parts: _Parts = []
        for of_layout, group in groupby(runs, lambda run: run.of_layout):
            some = list(group)
            parts += (
                [self._run_block(run, found) for run in some]
                if of_layout
                else self._run_gap(text, some)
            )
        return parts

    def _run_gap(self, text: str, runs: Sequence[LineRun]) -> Sequence[_Gap]:
        """Lines of another kind, if they may say something."""
        start, end = runs[0].start, runs[-1].end
        if not self.is_marked(text[start:end]):
            return ()
        return (_Gap(self.base + start, self.base + end),)

    def _run_block(self, run: LineRun, extremes: Iterable[int]) -> _Block:
        """The lines of a run, extremes of the stretch included."""
        last = run.end - run.length
        inside = {at for at in extremes if run.start <= at < last}
        lines = [self._run_line(run, at) for at in (*sorted(inside), last)]
        return _block(run.size if self.is_counted else 1, lines)

    def _run_line(self, run: LineRun, start: int) -> _Line:
        begin, end = run.spelling.loss
        loss = _number(self.low[start + begin : start + end])
        place = (start - run.start) // run.length if self.is_counted else 0
        return _Line(place, self.base + start, self.base + start + run.length, loss)

    # ------------------------------------------------------------------- the fast way
    def _guessed(self, text: str) -> _Parts | None:
        """The stretch, where it is as it is guessed to be: known lines of other
        layouts, and for the rest lines whose losses are spelled alike."""
        gaps = self._guessed_gaps()
        if gaps is None or not self._is_fixed(self._without(text, gaps)):
            return None
        pieces = b"".join(_between(self.low, gaps)).split(self.label)
        return list(self._guessed_parts(text, gaps, self._ranks(pieces, gaps)))

    def _ranks(
        self, pieces: Sequence[bytes], gaps: Sequence[tuple[int, int]]
    ) -> Mapping[int, int]:
        """(where a line starts -> how many are before it) of the first line, the last,
        and those of the lowest and the highest loss.

        `pieces`: of all lines together, without the gaps.
        """
        losses = pieces[1:]
        extremes = losses.index(min(losses)), losses.index(max(losses))
        first, end = gaps[0][1], gaps[-1][0]
        last = self.low.rfind(b"\n", 0, end - 1) + 1
        ranks = {self._start_of(rank, pieces, gaps): rank for rank in extremes}
        return {first: 0, last: len(losses) - 1, **ranks}

    def _start_of(
        self, rank: int, pieces: Sequence[bytes], gaps: Sequence[tuple[int, int]]
    ) -> int:
        """Where the line starts that so many others are before."""
        at = len(self.label.join(pieces[: rank + 1]))
        for start, stop in gaps:
            at += stop - start if start <= at else 0
        return self.low.rfind(b"\n", 0, at) + 1

    def _guessed_gaps(self) -> list[tuple[int, int]] | None:
        """What lies before, after and, by `others`, between the lines; None: none of
        the lines is here."""
        low = self.low
        first, last = low.find(self.label), low.rfind(self.label)
        if first < 0:
            return None
        head = low.rfind(b"\n", 0, first) + 1
        probe = low[head : head + _PROBE]
        known = sum(map(probe.count, (self.label, *self.others)))
        if probe.count(b"\n") > known + 1:
            return None  # there is talk between the lines
        tail = low.find(b"\n", last) + 1 or low.rfind(b"\n", 0, last) + 1
        found = {
            span
            for other in self.others
            for span in _lines_with(low, other, head, tail)
        }
        if sum(stop - start for start, stop in found) > len(low) * _MOST_GUESSED:
            return None
        return [(0, head), *sorted(found), (tail, len(low))]

    def _guessed_parts(
        self, text: str, gaps: Sequence[tuple[int, int]], ranks: Mapping[int, int]
    ) -> Iterator[_Block | _Gap]:
        before = 0
        for start, stop in gaps:
            if before < start:
                yield self._plain_block(before, start, ranks)
            ends = start == 0 or stop == len(text)
            if start < stop and (not ends or self.is_marked(text[start:stop])):
                yield _Gap(self.base + start, self.base + stop)
            before = stop

    def _plain_block(self, start: int, end: int, ranks: Mapping[int, int]) -> _Block:
        """Of the lines from one place to another; what its lowest and highest are
        matters only where they are those of the stretch."""
        last = self.low.rfind(b"\n", start, end - 1) + 1 or start
        lines, place, before = [], 0, start
        for at in sorted({last, *(at for at in ranks if start <= at < end)}):
            place += self._count(before, at, ranks)
            lines.append(self._plain_line(place, at))
            before = at
        return _block(place + 1, lines)

    def _count(self, start: int, end: int, ranks: Mapping[int, int]) -> int:
        """Lines of a block, where that matters."""
        if not self.is_counted:
            return 0
        if start in ranks and end in ranks:
            return ranks[end] - ranks[start]
        return self.low.count(b"\n", start, end)

    def _plain_line(self, place: int, start: int) -> _Line:
        at = self.low.find(self.label, start) + len(self.label)
        end = self.low.find(b"\n", at) + 1
        loss = _number(self.low[at : at + _LONGEST_NUMBER])
        return _Line(place, self.base + start, self.base + end, loss)

    # -------------------------------------------------------------- line by line
    def _is_fixed(self, text: str) -> bool:
        pattern = _fixed(self.low, self.layout)
        return bool(pattern) and _test_of(pattern, self.make_test)(text)

    def _is_alike(self, text: str) -> bool:
        return _test_of(self.layout.alike, self.make_test)(text)

    def _gaps(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """(line that it lies before, where) of what lies between the lines."""
        pieces, last = self.pieces, len(self.pieces) - 1
        suspects = [at for at, one in enumerate(pieces) if one.count(b"\n") != 1]
        ends = self._ends = list(accumulate(map(len, pieces)))
        for at in sorted({0, *suspects, last}):
            end = ends[at] + at * len(self.label)
            begin = end - len(pieces[at])
            start = self.low.find(b"\n", begin, end) + 1 if at else 0
            stop = end if at == last else self.low.rfind(b"\n", begin, end) + 1
            if (start or not at) and start < stop:
                yield at, (start, stop)

    def _without(self, text: str, gaps: Iterable[tuple[int, int]]) -> str:
        return "".join(_between(text, gaps))

    def _marked(
        self, text: str, gaps: Mapping[int, tuple[int, int]]
    ) -> Mapping[int, tuple[int, int]]:
        """The gaps that may say something."""
        together = "".join([text[start:stop] for start, stop in gaps.values()])
        if not self.is_marked(together):
            return {}
        is_marked = self.is_marked
        return {at: gap for at, gap in gaps.items() if is_marked(text[gap[0] : gap[1]])}

    def _parts(
        self, marked: Mapping[int, tuple[int, int]], *, fixed: bool
    ) -> Iterator[_Block | _Gap]:
        lines, begun = len(self.pieces) - 1, 0
        for at in sorted({*marked, lines}):
            if begun < at:
                yield self._block(begun, at, fixed=fixed)
            begun = at
            if at in marked:
                start, stop = marked[at]
                yield _Gap(self.base + start, self.base + stop)

    def _block(self, begin: int, end: int, *, fixed: bool) -> _Block:
        """Of the lines from one to before another."""
        texts = self.pieces[begin + 1 : end + 1]
        if fixed:
            low, high = texts.index(min(texts)), texts.index(max(texts))
        else:
            losses = [_number(text) for text in texts]
            low, high = losses.index(min(losses)), losses.index(max(losses))
        places = (low, high, len(texts) - 1)
        return _Block(len(texts), *(self._line(begin, place) for place in places))

    def _line(self, begin: int, place: int) -> _Line:
        index = begin + place
        end = (
            self._ends[index] if self._ends else sum(map(len, self.pieces[: index + 1]))
        )
        at = end + index * len(self.label)
        start, end = self.low.rfind(b"\n", 0, at) + 1, self.low.find(b"\n", at) + 1
        loss = _number(self.pieces[index + 1])
        return _Line(place, self.base + start, self.base + end, loss)


def _block(size: int, lines: Sequence[_Line]) -> _Block:
    """A block of which some lines are known, the last among them."""
    lowest = min(lines, key=lambda line: line.loss)
    highest = max(lines, key=lambda line: line.loss)
    return _Block(size, lowest, highest, lines[-1])


def _between(text: T, gaps: Iterable[tuple[int, int]]) -> Iterator[T]:
    """What is left of a text without some of it."""
    at = 0
    for start, stop in gaps:
        if at < start:
            yield text[at:start]
        at = stop
    if at < len(text):
        yield text[at:]


def _lines_with(
    low: bytes, mark: bytes, start: int, end: int
) -> Iterator[tuple[int, int]]:
    """(start, end) of each line that holds a mark."""
    found = low.find(mark, start, end)
    while found >= 0:
        stop = low.find(b"\n", found, end) + 1 or end
        yield low.rfind(b"\n", start, found) + 1 or start, stop
        found = low.find(mark, stop, end)


def _fixed(low: bytes, layout: Layout) -> str:
    """The pattern of lines whose losses are spelled with as many digits as the first:
    then their order is that of their text. Empty when there is none."""
    at = low.find(layout.label)
    match = _FIXED.match(low, at + len(layout.label)) if at >= 0 else None
    if match is None:
        return ""
    whole, fraction, exponent = match.groups(b"")
    padding = match.start(1) - match.start()
    digits = f"[0-9]{{{len(whole)}}}\\.[0-9]{{{len(fraction)}}}"
    return layout.alike_with(f"{' ' * padding}{digits}{escaped(exponent.decode())}")


@lru_cache(maxsize=512)
def _test_of(pattern: str, make_test: MakeTest) -> Test:
    return make_test(pattern)


def _number(text: bytes) -> float:
    """The number that a text begins with.

    Raises:
        _Unlike: it begins with none, or with one that is not finite.
    """
    words = text[:_LONGEST_NUMBER].replace(b"|", b" ").split(None, 1)
    try:
        number = float(words[0])
    except (IndexError, ValueError):
        raise _Unlike from None
    if not math.isfinite(number):
        raise _Unlike
    return number
