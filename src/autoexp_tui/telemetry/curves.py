"""Series of bounded length: what a chart shows of a metric, however long the run.

Buckets of equally many points, doubled whenever there are too many; each keeps its
lowest and highest point, so peaks survive. The same points give the same curve. A
bucket is 32 bytes: a session has ten thousand jobs.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias, overload

from autoexp_tui.model.snapshot import Curve

_Dot: TypeAlias = tuple[int, float]
"""(step, value)."""
_Bucket: TypeAlias = tuple[_Dot, _Dot]
"""Its lowest and its highest point; the same one twice while it holds one point."""

MIN_POINTS: Final = 8
_MOST_GAPS: Final = 16
"""Steps without a finite value that are kept: the first ones, and the newest."""
_MOST_STEP: Final = (1 << 63) - 1


class Thinned:
    """A metric over its steps in at most `max_points` points.

    The first and the newest point are always among them. A step that comes again, or
    an earlier one (a run that resumed from a checkpoint), cuts off what it overlaps.
    Values that are not finite have no place on a chart: they cut, and only their steps
    are kept.
    """

    __slots__ = (
        "_first",
        "_frozen",
        "_gaps",
        "_last",
        "_most",
        "_open",
        "_room",
        "_shared",
        "_size",
        "_steps",
        "_values",
    )

    def __init__(self, max_points: int = 512) -> None:
        """`max_points`: at least 8."""
        self._most = max(max_points, MIN_POINTS) // 2 - 2
        """Full buckets that fit, two points each, beside first, newest and open one."""
        self._size = 1
        """Points of a full bucket."""
        self._steps = array("q")
        """Of the full buckets, two each: of the lowest and of the highest point."""
        self._values = array("d")
        self._open: _Bucket | None = None
        self._room = 1
        """Points that the open bucket still takes."""
        self._first: _Dot | None = None
        self._last: _Dot | None = None
        self._gaps: tuple[int, ...] = ()
        self._frozen: Frozen | None = None
        self._shared = False
        """With a `Frozen`: the full buckets are copied before they change."""

    def add(self, step: int, value: float) -> None:
        """Take the next point of the log."""
        step = min(step, _MOST_STEP)
        last = self._last
        if last is not None and step <= last[0]:
            self._cut(step)
        if self._gaps and step <= self._gaps[-1]:
            self._gaps = tuple(gap for gap in self._gaps if gap < step)
        self._frozen = None
        if not math.isfinite(value):
            half = _MOST_GAPS // 2
            gaps = self._gaps
            kept = (*gaps[:half], *gaps[half:][-half + 1 :])
            self._gaps = (*kept, step)
            return
        self._last = dot = (step, value)
        if self._first is None:
            self._first = dot
        self._put(dot)

    def _put(self, dot: _Dot) -> None:
        bucket = self._open
        self._open = _joined(bucket, (dot, dot)) if bucket else (dot, dot)
        self._room -= 1
        if self._room == 0:
            self._keep(self._open)
            self._open, self._room = None, self._size
            if len(self._steps) > 2 * self._most:
                self._halve()

    def _keep(self, bucket: _Bucket) -> None:
        if self._shared:  # with whoever took the curve as it was
            self._steps, self._values = self._steps[:], self._values[:]
            self._shared = False
        for step, value in bucket:
            self._steps.append(step)
            self._values.append(value)

    def _buckets(self) -> list[_Bucket]:
        """The full ones, oldest first."""
        dots = list(zip(self._steps, self._values, strict=True))
        return list(zip(dots[::2], dots[1::2], strict=True))

    def _fill(self, buckets: Sequence[_Bucket]) -> None:
        self._steps, self._values, self._shared = array("q"), array("d"), False
        for bucket in buckets:
            self._keep(bucket)

    def _halve(self) -> None:
        """Join buckets in pairs; an odd one stays open, half full."""
        full, size = self._buckets(), self._size
        pairs = zip(full[::2], full[1::2], strict=False)
        self._fill([_joined(one, two) for one, two in pairs])
        odd = len(full) % 2 == 1
        self._size = 2 * size
        self._open, self._room = (full[-1], size) if odd else (None, 2 * size)

    def _cut(self, step: int) -> None:
        """Forget everything from `step` on."""
        self._frozen = None
        full = self._buckets()
        kept = [*full, self._open] if self._open else full
        self._open, self._room = None, self._size
        while kept and kept[-1][0][0] >= step and kept[-1][1][0] >= step:
            kept.pop()
        if kept:
            kept[-1] = _before(kept[-1], step)
        self._fill(kept)
        self._last = _newest(kept[-1]) if kept else None
        if self._first is not None and self._first[0] >= step:
            self._first = None

    def curve(self) -> Curve:
        """The points in order of steps; the same object until a point is added."""
        return self.frozen().curve()

    def frozen(self) -> Frozen:
        """The curve as it is now, to be made when somebody looks at it."""
        if self._frozen is None:
            ends = (self._first, *(self._open or ()), self._last)
            self._frozen = Frozen(self._steps, self._values, ends, self._gaps)
            self._shared = True
        return self._frozen

    def __len__(self) -> int:
        return len(self.curve().steps)


class Frozen:
    """A curve that nobody has looked at yet; may be looked at from any thread."""

    __slots__ = ("_curve", "_ends", "_gaps", "_steps", "_values")

    def __init__(
        self,
        steps: array[int],
        values: array[float],
        ends: tuple[_Dot | None, ...],
        gaps: tuple[int, ...],
    ) -> None:
        self._steps = steps
        self._values = values
        self._ends = ends
        self._gaps = gaps
        self._curve: Curve | None = None

    def curve(self) -> Curve:
        """The points in order of steps; always the same object."""
        if self._curve is None:
            dots = dict(zip(self._steps, self._values, strict=True))
            dots |= {dot[0]: dot[1] for dot in self._ends if dot is not None}
            steps, values = (
                zip(*sorted(dots.items()), strict=True) if dots else ((), ())
            )
            self._curve = Curve(steps, values, self._gaps)
        return self._curve


class Curves(Mapping[str, Curve]):
    """The curves of a run by metric, each made when it is looked at."""

    __slots__ = ("_frozen",)

    def __init__(self, curves: Mapping[str, Thinned]) -> None:
        self._frozen = {name: curve.frozen() for name, curve in curves.items()}

    def __getitem__(self, name: str) -> Curve:
        return self._frozen[name].curve()

    def __iter__(self) -> Iterator[str]:
        return iter(self._frozen)

    def __len__(self) -> int:
        return len(self._frozen)


class Trend(Sequence[float]):
    """A curve in a few numbers, see `trend`, made when they are looked at."""

    __slots__ = ("_curve", "_most", "_numbers")

    def __init__(self, curve: Thinned, most: int = 32) -> None:
        self._curve = curve.frozen()
        self._most = most
        self._numbers: tuple[float, ...] | None = None

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[float]: ...
    def __getitem__(self, place: int | slice) -> float | Sequence[float]:
        return self._made()[place]

    def __len__(self) -> int:
        return len(self._made())

    def _made(self) -> tuple[float, ...]:
        if self._numbers is None:
            self._numbers = trend(self._curve.curve().values, self._most)
        return self._numbers


def _joined(one: _Bucket, two: _Bucket) -> _Bucket:
    low = two[0] if two[0][1] < one[0][1] else one[0]
    high = two[1] if two[1][1] > one[1][1] else one[1]
    return low, high


def _before(bucket: _Bucket, step: int) -> _Bucket:
    """What of a bucket lies before `step`; one of its points does."""
    low, high = bucket
    return (low if low[0] < step else high), (high if high[0] < step else low)


def _newest(bucket: _Bucket) -> _Dot:
    return max(bucket)


def trend(values: Sequence[float], n: int = 32) -> tuple[float, ...]:
    """`values` in at most `n` numbers for a sparkline: means of equal stretches.

    The last stretch ends with the newest value; what is not finite is left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) <= n:
        return tuple(finite)
    borders = [index * len(finite) // n for index in range(n + 1)]
    return tuple(
        math.fsum(finite[begin:end]) / (end - begin) for begin, end in pairwise(borders)
    )
