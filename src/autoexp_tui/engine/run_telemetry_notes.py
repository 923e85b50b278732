"""What is journaled of a track, and what people see of it."""

from __future__ import annotations

import math

from autoexp_tui.engine.ended_runs import TREND_POINTS
from autoexp_tui.engine.reading_ports import LOG
from autoexp_tui.engine.run_telemetry import Track
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import Desk
from autoexp_tui.model.moment import Moment
from autoexp_tui.model.snapshot import GpuView, InQueue, Live
from autoexp_tui.model.verdicts import Verdict
from autoexp_tui.telemetry.curves import Curves, Trend


def note(desk: Desk, track: Track, job: str, *, told: bool = False) -> None:
    """Journal the newest values; `told`: and that anomalies were noted."""
    now = (track.at, dict(track.newest))
    if now == track.noted and not told:
        return
    track.noted_lived, track.noted = desk.now.lived, now
    desk.draft.emit(
        events.MetricsNoted(
            job=job,
            attempt=track.attempt,
            run=track.run,
            step=track.at,
            total=track.total,
            values={name: _plain(value) for name, value in track.newest.items()},
            judged=_judged_by_now(track),
            result=None if track.result is None else _plain(track.result),
        )
    )


def live_side(
    track: Track,
    total: int | None,
    now: Moment,
    start: tuple[Verdict | None, ...],
    queue: InQueue | None,
) -> Live:
    """What people see of a track at `now`; `total`: the run's last step."""
    curve = track.curves.get(track.result_metric)
    return Live(
        start=start,
        queue=queue,
        step=track.step,
        first_step=track.first_step,
        total=total,
        rate=track.pace.rate,
        metrics=track.newest | track.gpu.newest,
        result=track.result,
        curves=Curves(track.curves | track.gpu.curves),
        gpu=_gpu_view(track),
        trend=Trend(curve, TREND_POINTS) if curve is not None else (),
        log_bytes=track.log.offset,
        last_output_at=track.output_at,
        last_step_at=track.moved_t(now),
    )


def _gpu_view(track: Track) -> GpuView | None:
    if track.gpu_at is None:
        return None
    return GpuView(track.gpu.loads, track.gpu_at, track.gpu.idle_seconds)


def _judged_by_now(track: Track) -> dict[str, int]:
    """File -> the bytes of which all anomalies are told."""
    sources = {LOG: track.log, **track.files}
    return {name: max(one.offset, one.judged) for name, one in sources.items()}


def _plain(value: float) -> float | str:
    """A number as JSON can hold it."""
    return value if math.isfinite(value) else str(value)
