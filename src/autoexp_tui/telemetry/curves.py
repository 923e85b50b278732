"""Series of bounded length: buckets of equally many points, doubled whenever there are
too many; each keeps its lowest and highest point, so peaks survive. A bucket is 32
bytes.

Samples of a run's GPUs, as the wrapper notes them, one JSON object a line.

`{"t": seconds, "gpus": [{"util_percent": .., "used_mib": .., "total_mib": ..,
"watts": ..}]}`, times by the clock of the machine that runs the job. A `GpuTrack`
keeps the newest sample and bounded curves of the means.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

from autoexp_tui.model.snapshot import Curve, GpuLoad
from autoexp_tui.telemetry.metric_files import parse_json_object

_Dot: TypeAlias = tuple[int, float]
"""(step, value)."""
_Bucket: TypeAlias = tuple[_Dot, _Dot]
"""Its lowest and its highest point; the same one twice while it holds one point."""

MIN_POINTS: Final = 8
_MOST_GAPS: Final = 16
"""Newest steps without a finite value that are kept."""
_MOST_STEP: Final = (1 << 63) - 1


class ThinnedCurve:
    """A metric over its steps in at most `max_points` points, the first and the newest
    among them. A step that comes again, or an earlier one, cuts off what it overlaps.
    Of values that are not finite only the steps are kept."""

    __slots__ = (
        *("_first", "_gaps", "_last", "_most", "_open", "_room", "_size"),
        *("_snapshot", "_steps", "_values"),
    )

    def __init__(self, max_points: int = 512) -> None:
        """`max_points`: at least 8."""
        self._most = max(max_points, MIN_POINTS) // 2 - 2
        """Full buckets that fit, two points each, beside first, newest and open one."""
        self._size = 1
        self._steps = array("q")
        """Of the full buckets, two each: of the lowest and of the highest point.
        Arrays are replaced, never changed: snapshots share them."""
        self._values = array("d")
        self._open: _Bucket | None = None
        self._room = 1
        """Points that the open bucket still takes."""
        self._first: _Dot | None = None
        self._last: _Dot | None = None
        self._gaps: tuple[int, ...] = ()
        self._snapshot: CurveSnapshot | None = None

    def add(self, step: int, value: float) -> None:
        step = min(step, _MOST_STEP)
        self._snapshot = None
        if self._last is not None and step <= self._last[0]:
            self._cut(step)
        self._gaps = tuple(gap for gap in self._gaps if gap < step)
        if not math.isfinite(value):
            self._gaps = (*self._gaps[1 - _MOST_GAPS :], step)
            return
        self._last = (step, value)
        self._first = self._first or self._last
        self._put(self._last)

    def _put(self, dot: _Dot) -> None:
        self._open = _join(self._open, (dot, dot)) if self._open else (dot, dot)
        self._room -= 1
        if self._room:
            return
        low, high = self._open
        self._steps = self._steps + array("q", (low[0], high[0]))
        self._values = self._values + array("d", (low[1], high[1]))
        self._open, self._room = None, self._size
        if len(self._steps) <= 2 * self._most:
            return
        # Join buckets in pairs; an odd one stays open, half full.
        full, size = self._load(), self._size
        self._store([_join(*pair) for pair in zip(full[::2], full[1::2], strict=False)])
        self._size = 2 * size
        odd = len(full) % 2 == 1
        self._open, self._room = (full[-1], size) if odd else (None, 2 * size)

    def _load(self) -> list[_Bucket]:
        """The full buckets, oldest first."""
        dots = list(zip(self._steps, self._values, strict=True))
        return list(zip(dots[::2], dots[1::2], strict=True))

    def _store(self, buckets: Sequence[_Bucket]) -> None:
        self._steps = array("q", [step for pair in buckets for step, _ in pair])
        self._values = array("d", [value for pair in buckets for _, value in pair])

    def _cut(self, step: int) -> None:
        kept = [*self._load(), self._open] if self._open else self._load()
        self._open, self._room = None, self._size
        while kept and min(kept[-1])[0] >= step:
            kept.pop()
        if kept:  # a part of the last may lie before
            low, high = kept[-1]
            kept[-1] = (
                (low if low[0] < step else high),
                (high if high[0] < step else low),
            )
        self._store(kept)
        self._last = max(kept[-1]) if kept else None
        if self._first is not None and self._first[0] >= step:
            self._first = None

    def snapshot(self) -> CurveSnapshot:
        """The curve as it is now, to be made when somebody looks at it."""
        if self._snapshot is None:
            ends = (self._first, *(self._open or ()), self._last)
            self._snapshot = CurveSnapshot(self._steps, self._values, ends, self._gaps)
        return self._snapshot


def _join(one: _Bucket, two: _Bucket) -> _Bucket:
    low = two[0] if two[0][1] < one[0][1] else one[0]
    high = two[1] if two[1][1] > one[1][1] else one[1]
    return low, high


@dataclass(frozen=True)
class CurveSnapshot:
    """A curve that nobody has looked at yet; may be looked at from any thread."""

    steps: array[int]
    values: array[float]
    ends: tuple[_Dot | None, ...]
    gaps: tuple[int, ...]

    @cached_property
    def curve(self) -> Curve:
        """The points in order of steps; always the same object."""
        dots = dict(zip(self.steps, self.values, strict=True))
        dots |= dict(filter(None, self.ends))
        steps = tuple(sorted(dots))
        return Curve(steps, tuple(dots[step] for step in steps), self.gaps)


class Curves(Mapping[str, Curve]):
    """The curves of a run by metric, each made when it is looked at."""

    def __init__(self, curves: Mapping[str, ThinnedCurve]) -> None:
        self._curves = {name: curve.snapshot() for name, curve in curves.items()}

    def __getitem__(self, name: str) -> Curve:
        return self._curves[name].curve

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def __len__(self) -> int:
        return len(self._curves)


class Trend(Sequence[float]):
    """A curve in a few numbers, see `compute_trend`, made when they are looked at."""

    def __init__(self, curve: ThinnedCurve, most: int = 32) -> None:
        self._curve, self._most = curve.snapshot(), most

    @cached_property
    def _numbers(self) -> tuple[float, ...]:
        return compute_trend(self._curve.curve.values, self._most)

    def __getitem__(self, place: Any) -> Any:
        return self._numbers[place]

    def __len__(self) -> int:
        return len(self._numbers)


def compute_trend(values: Sequence[float], n: int = 32) -> tuple[float, ...]:
    """At most `n` numbers for a sparkline: means of equal stretches of what is
    finite."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) <= n:
        return tuple(finite)
    borders = [index * len(finite) // n for index in range(n + 1)]
    return tuple(
        math.fsum(finite[begin:end]) / (end - begin) for begin, end in pairwise(borders)
    )


BUSY: Final = "gpu_util"
MEMORY: Final = "gpu_mem"
POWER: Final = "gpu_power"
LOW_PERCENT: Final = 20.0
"""Of its time: a run that keeps its GPUs less busy makes little use of them."""
_MOST_GPUS: Final = 64
_APART: Final = 16
"""Of so many GPUs each is a metric of its own."""
_CURVE_POINTS: Final = 128


@dataclass(slots=True)
class GpuTrack:
    loads: tuple[GpuLoad, ...] = ()
    """At the newest sample."""
    newest: dict[str, float] = field(default_factory=dict)
    """Means over the GPUs, and where they are few each one, by metric: per cent of
    time, per cent of memory, watts."""
    curves: dict[str, ThinnedCurve] = field(default_factory=dict)
    """Over seconds since the first sample."""
    idle_seconds: float = 0.0
    """For how long every sample said that none of them did anything."""
    low_seconds: float = 0.0
    """For how long the mean of every sample was below `LOW_PERCENT`; 0 too where none
    of them tells."""
    _began: float | None = None
    _idle_since: float | None = None
    _low_since: float | None = None

    def add_lines(self, data: bytes) -> bool:
        """Take whole lines; whether a sample was among them."""
        is_new = False
        for line in data.split(b"\n"):
            record = parse_json_object(line) or {}
            t, gpus = _parse_number(record.get("t")), record.get("gpus")
            if t is not None and isinstance(gpus, list) and gpus:
                self._add_sample(t, tuple(map(_parse_load, gpus[:_MOST_GPUS])))
                is_new = True
        return is_new

    def _add_sample(self, t: float, loads: tuple[GpuLoad, ...]) -> None:
        self._began = t if self._began is None else self._began
        self.loads = loads
        self.newest = _summarize(loads)
        for name, value in self.newest.items():
            curve = self.curves.setdefault(name, ThinnedCurve(_CURVE_POINTS))
            curve.add(max(0, int(t - self._began)), value)
        idle = all(load.busy_percent == 0.0 for load in loads)
        low = self.newest.get(BUSY, LOW_PERCENT) < LOW_PERCENT
        self._idle_since, self.idle_seconds = _measure(self._idle_since, t, holds=idle)
        self._low_since, self.low_seconds = _measure(self._low_since, t, holds=low)


def _measure(
    since: float | None, t: float, *, holds: bool
) -> tuple[float | None, float]:
    """(since when, for how long) something has held at every sample."""
    if not holds:
        return None, 0.0
    since = t if since is None else min(since, t)  # the clock may be set back
    return since, t - since


def _summarize(loads: tuple[GpuLoad, ...]) -> dict[str, float]:
    """Means over the GPUs, and where they are few each one."""
    columns = {
        BUSY: [load.busy_percent for load in loads],
        MEMORY: [
            100.0 * load.used_mib / load.total_mib
            if load.used_mib is not None and load.total_mib
            else None
            for load in loads
        ],
        POWER: [load.watts for load in loads],
    }
    found: dict[str, float] = {}
    for name, column in columns.items():
        known = [value for value in column if value is not None]
        if known:
            found[name] = math.fsum(known) / len(known)
    if 1 < len(loads) <= _APART:
        found |= {
            f"gpu{index}_{name.removeprefix('gpu_')}": value
            for name in (BUSY, MEMORY)
            for index, value in enumerate(columns[name])
            if value is not None
        }
    return found


def _parse_load(gpu: object) -> GpuLoad:
    fields = gpu if isinstance(gpu, dict) else {}
    return GpuLoad(
        busy_percent=_parse_number(fields.get("util_percent")),
        used_mib=_parse_number(fields.get("used_mib")),
        total_mib=_parse_number(fields.get("total_mib")),
        watts=_parse_number(fields.get("watts")),
    )


def _parse_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
