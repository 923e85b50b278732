"""The three time scales of a session, and the present for people.

`t` orders events and never goes back. It goes on by what the machine's clocks count
while nobody sets them, and between two engines by what the wall clock says. Ages and
spans that people read are differences of `t`.

`utc` is what the wall clock showed. It may be set back or forward at any time, so only
`Time.at` asks it, and people see it.

`lived` counts the seconds for which an engine of the session lived, absences left out.
Whatever lasts (a cooldown, a time-out, a grace, a stall) is stored and judged in it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on all three scales, in seconds."""

    t: float
    utc: float
    lived: float

    def t_of(self, lived: float) -> float:
        """The `t` of a moment of `lived`, for people: whole seconds, since clocks that
        are not read at once differ by a little each time."""
        return round(self.t + lived - self.lived)

    def lived_of(self, utc: float) -> float:
        """The moment of `lived` at which the wall clock shows `utc`."""
        return self.lived + utc - self.utc


class Present(float):
    """The present `t`, which knows what the wall clock shows."""

    __slots__ = ("wall_ahead",)
    wall_ahead: float
    """Seconds by which the wall clock shows more than `t`."""

    def __new__(cls, t: float, wall_ahead: float = 0.0) -> Present:
        """`t` as a number; `wall_ahead` is what makes a time of day of it."""
        made = super().__new__(cls, t)
        made.wall_ahead = wall_ahead
        return made


def wall_time(t: float, now: float | None) -> float:
    """UTC of a moment `t`, by the wall clock as it goes at `now`."""
    return t + now.wall_ahead if isinstance(now, Present) else t
