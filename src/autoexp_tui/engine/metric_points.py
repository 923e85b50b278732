"""New bytes of a run as points, and what a point moves on its track."""

from __future__ import annotations

import math
from dataclasses import replace

from autoexp_tui.engine.reading_ports import LOG_CHUNK, LogChunk
from autoexp_tui.engine.run_telemetry import FileSource, Source, Track
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.telemetry.metrics import Point
from autoexp_tui.text.metric_names import STEP, canonical_name

THINNING = 768
"""Stretches of a log: of each, a backlog leaves the lowest, highest and last point."""

SMALL_CHUNK = 64 << 10
"""Bytes up to which all points of a chunk are read."""


def plot(track: Track, source: Source, point: Point, lived: float) -> None:
    """Let a point move the track on; `lived`: of the commit."""
    step = _step_of(track.rules, point)
    if step is not None and source.tells_steps:
        stands = track.move(source, step)
        place = point.offset if source is track.log else track.log.offset
        track.watch.step(stands, lived, place)
    known = track.step if isinstance(source, FileSource) else source.step
    at = source.step if source.step is not None else known
    track.at = track.reached = point.step if at is None else at
    track.total = point.total or track.total
    for name, value in point.values.items():
        track.take(source, name, value, track.at)


def keep_pace(
    track: Track, source: Source, chunk: LogChunk, before: int | None, lived: float
) -> None:
    """Measure the run's speed by a chunk whose points were plotted.

    A backlog is read faster than it was written. So only steps count after which
    nothing is left to read, and of a source that is read to its end for the first time
    not even those: nobody saw when they came.

    Args:
        track: of the run.
        source: what the chunk is of.
        chunk: as it was read; its file's size tells whether more is left.
        before: the step where the run stood before it.
        lived: of the commit.
    """
    if chunk.size - chunk.offset > LOG_CHUNK:
        return  # more is left; half a line at the end is not
    first, source.caught_up = not source.caught_up, True
    if first:
        track.pace.begin_anew()
    elif track.step is not None and track.step != before:
        track.pace.see(track.step, lived)


def _step_of(rules: Monitoring, point: Point) -> int | None:
    """Where the run stands, by the metric that the config counts progress in."""
    metric = canonical_name(rules.progress.metric)
    if metric == STEP:
        return point.step
    value = point.values.get(metric)
    return int(value) if value is not None and math.isfinite(value) else None


def points_in(track: Track, chunk: LogChunk) -> list[Point]:
    """The points of new bytes of a log; of many bytes a selection."""
    every = chunk.size // THINNING if len(chunk.data) > SMALL_CHUNK else 0
    return track.reader.feed(chunk.data, chunk.offset, every)


def whole_lines(chunk: LogChunk) -> LogChunk:
    """Without the far end of a line that was too long for one read."""
    if not chunk.midline:
        return chunk
    ends = [at for at in (chunk.data.find(b"\n"), chunk.data.find(b"\r")) if at >= 0]
    start = min(ends, default=len(chunk.data) - 1) + 1
    return replace(
        chunk, offset=chunk.offset + start, data=chunk.data[start:], midline=False
    )
