"""What time it is in a session: an engine takes it on where the last record left it,
and goes by clocks that nobody sets. What the wall clock does meanwhile is told once."""

from __future__ import annotations

from typing import Final

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.state import SessionState

STEP_SECONDS: Final = 5.0
"""By which the wall clock differs from what passed when somebody has set it."""


class Timeline:
    """The time of a session while one engine lives."""

    def __init__(
        self, clock: Clock, state: SessionState, unrecorded: float = 0.0
    ) -> None:
        """`unrecorded`: seconds for which an engine lived after the newest record."""
        self._clock = clock
        self._monotonic, self._boottime = clock.monotonic(), clock.boottime()
        self._t = state.t + state.measure_seconds_until(clock.utc())
        self._lived = state.lived + unrecorded
        self._wall_ahead = state.wall_ahead

    def now(self) -> Moment:
        """This moment."""
        return Moment(
            t=self._t + self._clock.boottime() - self._boottime,
            utc=self._clock.utc(),
            lived=self._lived + self._clock.monotonic() - self._monotonic,
        )

    def lived_at(self, monotonic: float) -> float:
        """A moment of this engine on the scale of `lived`."""
        return self._lived + monotonic - self._monotonic

    def monotonic_at(self, lived: float) -> float:
        """The other way round."""
        return self._monotonic + lived - self._lived

    def take_step(self) -> float:
        """Seconds by which the wall clock was set since the last call; 0: it was
        not."""
        now = self.now()
        wall_ahead = now.utc - now.t
        step = wall_ahead - self._wall_ahead
        self._wall_ahead = wall_ahead
        return step if abs(step) >= STEP_SECONDS else 0.0
