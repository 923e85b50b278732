"""The volatile side of a job in a replay: worked out anew from what was recorded.

Logs are not read again; the metrics that were noted now and then give step, rate,
newest values and curves as they were known at the time. Curves stay bounded.
"""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.snapshot import Curve, Live
from autoexp_tui.model.verdicts import Why

MOST_POINTS = 64
"""Of one curve; from there on every second point goes."""
TREND = 16
"""Points of the sparkline."""


class PlayedLives:
    """Job -> its volatile side, folded along with the state."""

    __slots__ = ("jobs",)

    def __init__(self, jobs: dict[str, Live] | None = None) -> None:
        self.jobs: dict[str, Live] = jobs if jobs is not None else {}

    def copy(self) -> PlayedLives:
        """One that goes its own way; the frozen values are shared."""
        return PlayedLives(dict(self.jobs))

    def take(self, record: Recorded, loss: str) -> None:
        """Move on by one record; `loss` names the metric of the sparkline."""
        match record.event:
            case events.MetricsNoted() as noted:
                old = self.jobs.get(noted.job)
                self.jobs[noted.job] = _noted(old or Live(), noted, record.t, loss)
            case events.JobReplanned(job=job, why=Why(code="other_overrides")):
                self.jobs.pop(job, None)
            case events.RunBegan(job=job):
                old = self.jobs.get(job)
                if old is not None:
                    self.jobs[job] = replace(
                        old, rate=None, last_step_at=None, last_output_at=record.t
                    )


def _noted(old: Live, event: events.MetricsNoted, t: float, loss: str) -> Live:
    went_on = old.step is None or event.step > old.step
    rate = old.rate
    if old.step is not None and old.last_step_at is not None and t > old.last_step_at:
        rate = (event.step - old.step) / (t - old.last_step_at) if went_on else rate
    values = {name: float(value) for name, value in event.values.items()}
    curves = {
        **old.curves,
        **{
            name: _with_point(old.curves.get(name), event.step, value)
            for name, value in values.items()
        },
    }
    trend = curves[loss].values[-TREND:] if loss in curves else old.trend
    return replace(
        old,
        step=event.step,
        total=event.total or old.total,
        rate=rate if rate and rate > 0 else None,
        metrics={**old.metrics, **values},
        result=old.result if event.result is None else float(event.result),
        curves=curves,
        trend=trend,
        last_output_at=t,
        last_step_at=t if went_on or old.last_step_at is None else old.last_step_at,
    )


def _with_point(curve: Curve | None, step: int, value: float) -> Curve:
    """The curve with one point more; what a restart runs again is drawn again."""
    if curve is None:
        return Curve((step,), (value,))
    steps, values = curve.steps, curve.values
    if steps and step <= steps[-1]:
        kept = sum(1 for one in steps if one < step)
        steps, values = steps[:kept], values[:kept]
    if len(steps) >= MOST_POINTS:
        steps, values = steps[::2], values[::2]
    return Curve((*steps, step), (*values, value))
