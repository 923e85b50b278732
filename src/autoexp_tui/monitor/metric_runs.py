"""Runs of log lines that are spelled alike, found and compared many at a time.

Lines of one layout mostly differ in the digits of their numbers and not in how many
there are. With every digit made a `0` such lines are the same bytes again and again,
so one comparison of memory tells a whole run of them, and the digits of one place are
a slice with a stride. Nothing is guessed: a line spelled otherwise ends the run.

Where the spelling changes every few lines this does not pay, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.monitor.metric_layouts import Layout
from autoexp_tui.monitor.metric_lines import Span

_DIGITS: Final = b"0123456789"
_AS_ZERO: Final = bytes.maketrans(_DIGITS, b"0" * 10)
_REVERSED: Final = bytes.maketrans(_DIGITS, _DIGITS[::-1])
_OUT: Final = {
    digit: bytes(0 if char == digit else 0xFF for char in range(256))
    for digit in _DIGITS
}
"""For each digit: no bit for it, and all bits for any other byte."""
_PROBE: Final = 8 << 10
"""Bytes that show whether runs are long enough."""
_BYTES_A_RUN: Final = 2 << 10
"""So long must runs be in the mean, for each is worth some microseconds."""
_FEW: Final = 6
"""Runs, or lines of a run, that are not many."""
_BLOCK: Final = 16 << 10
"""Bytes that are compared at once, about."""

_Copies: TypeAlias = tuple[int, int, bytes]
"""(start, end, the line that stands there again and again, `0` for each digit)."""


class Spelling(NamedTuple):
    """What lines have in common that differ in their digits alone."""

    loss: Span
    """Where the loss stands in each; empty: the lines are not of the layout."""
    number: bytes
    """The loss; `0` for each digit."""
    digits: Sequence[int]
    """Where its digits stand, without those of its exponent."""
    powers: Sequence[int]
    """Where the digits of its exponent stand."""


class LineRun(NamedTuple):
    """Lines, one right after the other, that are spelled alike."""

    start: int
    end: int
    length: int
    """Bytes of each line, its end included."""
    spelling: Spelling

    @property
    def of_layout(self) -> bool:
        """Whether the lines are of the layout that was looked for."""
        return bool(self.spelling.number)

    @property
    def size(self) -> int:
        """How many lines."""
        return (self.end - self.start) // self.length


def line_runs(low: bytes, layout: Layout) -> Sequence[LineRun] | None:
    """The runs that whole lines of folded bytes consist of; None: they are short."""
    end = low.rfind(b"\n", 0, _PROBE) + 1
    if end < len(low) and _runs(low[:end]) is None:
        return None
    found = _runs(low)
    if found is None:
        return None
    spellings = {
        line: _spelling(line, layout) for line in {line for _, _, line in found}
    }
    return [LineRun(a, b, len(line), spellings[line]) for a, b, line in found]


def _spelling(line: bytes, layout: Layout) -> Spelling:
    """How lines are spelled that, with `0` for each digit, are all `line`."""
    begin, end = layout.place_of_loss(line) or (0, 0)
    power = line.find(b"e", begin, end)
    power = end if power < 0 else power
    digits, powers = _zeros(line, begin, power), _zeros(line, power, end)
    return Spelling((begin, end), line[begin:end], digits, powers)


def _zeros(line: bytes, start: int, end: int) -> Sequence[int]:
    return [at for at in range(start, end) if line[at] in b"0"]


# ------------------------------------------------------------------------------ runs
def _runs(low: bytes) -> Sequence[_Copies] | None:
    """None: they are short."""
    found: list[_Copies] = []
    for copies in _each_run(low.translate(_AS_ZERO)):
        if len(found) > _FEW + copies[0] // _BYTES_A_RUN:
            return None
        found.append(copies)
    return found


def _each_run(text: bytes) -> Iterator[_Copies]:
    blocks: dict[bytes, Sequence[bytes]] = {}
    start = 0
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        line = text[start:end]
        few = end + _FEW * len(line)
        while end < few and text.startswith(line, end):
            end += len(line)
        if end == few:
            if line not in blocks:
                blocks[line] = _doubled(line)
            end = _copies_end(text, end, blocks[line])
        yield start, end, line
        start = end


def _copies_end(text: bytes, start: int, blocks: Sequence[bytes]) -> int:
    """Where the unbroken copies of a line end that `text` has from `start` on."""
    end, largest = start, blocks[0]
    while text.startswith(largest, end):
        end += len(largest)
    for block in blocks[1:]:
        end += len(block) if text.startswith(block, end) else 0
    return end


def _doubled(line: bytes) -> Sequence[bytes]:
    """A line 1, 2, 4 ... times, most often first."""
    blocks = [line]
    while len(blocks[-1]) < _BLOCK:
        blocks.append(blocks[-1] * 2)
    return blocks[::-1]


# ------------------------------------------------------------------------- extremes
def extremes(low: bytes, runs: Iterable[LineRun]) -> set[int] | None:
    """Where the lines start that may have the lowest or the highest loss of some runs:
    two for each way that losses are spelled, of equal ones the first. None: the
    spelling does not tell.

    `runs`: in order, all of the layout.
    """
    alike: dict[bytes, list[LineRun]] = {}
    for run in runs:
        powers = _columns(low, run, run.spelling.powers)
        if any(column != column[:1] * run.size for column in powers):
            return None
        power = b"".join(column[:1] for column in powers)
        alike.setdefault(run.spelling.number + power, []).append(run)
    return {start for some in alike.values() for start in _extremes(low, some)}


def _extremes(low: bytes, runs: Sequence[LineRun]) -> tuple[int, int]:
    """Of runs whose losses are spelled alike; which is which depends on their sign."""
    of_runs = (_columns(low, run, run.spelling.digits) for run in runs)
    columns = [b"".join(parts) for parts in zip(*of_runs, strict=True)]
    upside_down = [column.translate(_REVERSED) for column in columns]
    places = _first_lowest(columns), _first_lowest(upside_down)
    return _start_of(runs, places[0]), _start_of(runs, places[1])


def _columns(low: bytes, run: LineRun, places: Iterable[int]) -> list[bytes]:
    """For each place in a line, what stands there in all lines of a run."""
    start, end, length = run.start, run.end, run.length
    return [low[start + place : end : length] for place in places]


def _first_lowest(columns: Sequence[bytes]) -> int:
    """The place of the lowest of many numbers: the first one's digits come first in
    each of the columns, of which the first holds the digits that weigh most.

    All are compared at once, in one integer that has a byte for each number: those
    that are not the lowest so far have all bits of theirs set.
    """
    size, out, lowest = len(columns[0]), 0, b""
    for column in columns:
        digits = (int.from_bytes(column, "little") | out).to_bytes(size, "little")
        digit = next(digit for digit in _DIGITS if digit in digits)
        lowest = digits.translate(_OUT[digit])
        out = int.from_bytes(lowest, "little")
    return lowest.index(0)


def _start_of(runs: Iterable[LineRun], place: int) -> int:
    """Where a line starts that is so many lines after the first of the runs."""
    for run in runs:
        if place < run.size:
            return run.start + place * run.length
        place -= run.size
    raise IndexError(place)
