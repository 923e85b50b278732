"""Reading a line again that differs from an earlier one only in its numbers.

What `metric_lines.read_line` makes of a line depends on its text, not on the digits in
it. So a line that was read once becomes a regex with a group for every number that was
taken; lines of the same layout are then read by one match, many times faster. Nothing
is guessed: a line that is not exactly of a known layout is read the long way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from autoexp_tui.telemetry.metric_lines import (
    LOSS,
    STEP,
    TOKENS_PER_SECOND,
    TOTAL,
    Places,
    Reading,
)

_MOST: Final = 8
"""Layouts that one log may have."""
_PATIENCE: Final = 256
"""Different texts after which learning no longer pays."""
_LONGEST: Final = 2000
"""Bytes of a line that is worth learning."""

_TOKEN: Final = re.compile(rb"( *)((?:(?<=[ :|(])[-+])?\d+\.?\d*(?:e[-+]?\d+)?)")
_FLOAT: Final = r"([0-9]++(?:\.[0-9]*+)?+(?:e[-+]?[0-9]++)?+)"
_SIGNED: Final = r"([-+]?[0-9]++(?:\.[0-9]*+)?+(?:e[-+]?[0-9]++)?+)"
_WHOLE: Final = r"([0-9]{1,15})"
_ANY_FILL: Final = "[?# ]*[0-9]?[?# ]*"
_FILL: Final = re.compile(rf"%\|({_ANY_FILL})\|".encode())
"""Of a progress bar; a digit is the part of a step that ASCII has no block for."""

Row: TypeAlias = tuple[int, tuple[bytes, ...]]
"""(start of a line, its numbers)."""


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

    def read(self, rows: Sequence[Row]) -> Iterator[tuple[int, Reading]]:
        """(start of line, what it says) of each of some lines."""
        return ((start, self._reading(texts, 0)) for start, texts in rows)

    def thin(self, rows: Sequence[Row]) -> Iterator[tuple[int, Reading]]:
        """The same of the lines with the lowest, the highest and the last loss."""
        if LOSS not in self.names:
            yield from self.read(rows)
            return
        column = self.names.index(LOSS)
        losses = [float(texts[column]) for _, texts in rows]
        extremes = losses.index(min(losses)), losses.index(max(losses))
        kept = sorted({*extremes, len(rows) - 1})
        for before, at in pairwise([-1, *kept]):
            start, texts = rows[at]
            yield start, self._reading(texts, at - before - 1)

    def _reading(self, texts: tuple[bytes, ...], passed_over: int) -> Reading:
        values = dict(zip(self.names, map(float, texts), strict=True))
        step, total = values.pop(STEP, None), values.pop(TOTAL, None)
        for name, scale in self.scales.items():
            values[name] *= scale
        values.update(self.extra)
        return Reading(
            None if step is None else int(step),
            None if total is None else int(total),
            values,
            self.evaluation,
            passed_over,
        )


class Layouts:
    """The layouts of one log; learns one when its text came twice."""

    def __init__(self) -> None:
        self._known: list[Layout] = []
        self._seen: set[int] = set()
        """Hashes of patterns: two texts that share one cost no more than a layout."""

    def find(self, low: bytes, start: int) -> tuple[Layout, re.Match[bytes]] | None:
        """The known layout of the line at `start`, and its match."""
        for layout in self._known:
            match = layout.regex.match(low, start)
            if match:
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
            scales, evaluation = places.scales, reading.evaluation
            made = Layout(_compiled(pattern), names, extra, scales, evaluation)
            self._known.append(made)
        self._seen.add(mark)


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
    return re.escape(some.decode("latin-1"))


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
