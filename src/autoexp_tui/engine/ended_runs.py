"""What is kept of runs whose jobs have ended: of the newest all, of the others little.

A month has ten thousand jobs, and their curves would fill the memory of a login node.
What is let go of can be read again from the log.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.engine.run_telemetry import TREND_POINTS, Track
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.snapshot import Live
from autoexp_tui.telemetry.curves import compute_trend

MOST_WHOLE: Final = 500
"""Ended jobs whose curves are held: those that ended, or were opened, last."""


@dataclass(slots=True)
class EndedRuns:
    """Which ended jobs still have a track, and what is left of the others."""

    _whole: dict[str, None] = field(default_factory=dict)
    """The one to be let go of next comes first."""
    _left: dict[str, Live] = field(default_factory=dict)

    def restart(self) -> None:
        """All tracks are gone."""
        self._whole.clear()

    def hold(self, job: str) -> None:
        """A job ended, or somebody looks at it: it is let go of last."""
        self._whole.pop(job, None)
        self._whole[job] = None

    def revive(self, job: str) -> None:
        """A job lives again: its past run is not shown any more."""
        self._whole.pop(job, None)
        self._left.pop(job, None)

    def surplus(self) -> list[str]:
        """Jobs whose tracks are to be let go of."""
        names = list(self._whole)
        return names[: max(0, len(names) - MOST_WHOLE)]

    def let_go(self, job: str, track: Track, total: int | None, now: Moment) -> None:
        """Keep of a track what a row of a table shows; `total`: the run's last step."""
        self._whole.pop(job, None)
        if not track.says_anything:
            return
        curve = track.curves.get(track.result_metric)
        values = compute_trend(curve.curve().values, TREND_POINTS) if curve else ()
        self._left[job] = Live(
            step=track.step,
            total=total,
            result=track.result,
            trend=array("d", values),
            log_bytes=track.log.offset,
            last_output_at=track.output_at,
            last_step_at=track.moved_t(now),
        )

    def left(self, job: str) -> Live | None:
        """What is left of a job; None while it has its track, or never said a word."""
        return self._left.get(job)
