"""Samples of a run's GPUs, as the wrapper notes them, one JSON object a line.

`{"t": seconds, "gpus": [{"util_percent": .., "used_mib": .., "total_mib": ..,
"watts": ..}]}`, times by the clock of the machine that runs the job. A `GpuTrack`
keeps the newest sample and bounded curves of the means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.model.snapshot import GpuLoad
from autoexp_tui.telemetry.curves import ThinnedCurve
from autoexp_tui.telemetry.metric_files import parse_json_object

BUSY: Final = "gpu_util"
MEMORY: Final = "gpu_mem"
POWER: Final = "gpu_power"
_MOST_GPUS: Final = 64
_APART: Final = 16
"""Of so many GPUs each is a metric of its own."""
_CURVE_POINTS: Final = 128


@dataclass(slots=True)
class GpuTrack:
    """The GPUs of one run."""

    loads: tuple[GpuLoad, ...] = ()
    """At the newest sample."""
    newest: dict[str, float] = field(default_factory=dict)
    """Means over the GPUs, and where they are few each one, by metric: per cent of
    time, per cent of memory, watts."""
    curves: dict[str, ThinnedCurve] = field(default_factory=dict)
    """Over seconds since the first sample."""
    idle_seconds: float = 0.0
    """For how long every sample said that none of them did anything."""
    _began: float | None = None
    _idle_since: float | None = None

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
        self._idle_since = (self._idle_since or t) if idle else None
        self.idle_seconds = max(0.0, t - self._idle_since) if self._idle_since else 0.0


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
