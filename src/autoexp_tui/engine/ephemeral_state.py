"""What the engine works with and never journals: it follows from state and clock, and
is made anew after a start and after a bug in one decision; and what time it is there,
by clocks that nobody sets."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from autoexp_tui.engine.observations import LogsRead, Observation
from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import Roster, Timers, Watch
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.snapshot import InQueue
from autoexp_tui.model.specs import Place
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState, Verdict


@dataclass(slots=True)
class EphemeralState:
    """One object for life; its parts are replaced by `restart`."""

    watch: Watch = field(default_factory=Watch)
    timers: Timers = field(default_factory=Timers)
    roster: Roster = field(default_factory=Roster)
    verdicts: dict[tuple[str, str, int], Verdict] = field(default_factory=dict)
    """(job, role, index) -> the newest verdict, its arguments as of now."""
    pending: set[str] = field(default_factory=set)
    """Jobs, and policies, that the next commit looks at whatever happens."""
    reworded: set[str] = field(default_factory=set)
    """Jobs of which a front end would see something else, though no event happened."""

    def restart(self, state: SessionState) -> None:
        self.watch = Watch()
        self.timers = Timers()
        self.roster = Roster()
        self.verdicts = {}
        self.reworded = set(state.jobs)
        for job in state.jobs.values():
            self.roster.note(job)
        self.pending = {
            name
            for name, job in state.jobs.items()
            if job.deferred
            or (not job.ended and job.state not in {JobState.PLANNED, JobState.HELD})
        } | state.parts.keys()


@dataclass(slots=True)
class Health:
    """How the outside answers just now, for people."""

    answered_at: float | None = None
    """When the session's executor did."""
    errors: dict[Place, str] = field(default_factory=dict)
    """Why it does not, or the one beside; empty: it does."""
    deposed: bool = False
    queue: dict[str, InQueue] = field(default_factory=dict)
    """Job -> what the executor says of it while it waits there."""
    faults: dict[str, str] = field(default_factory=dict)
    """What was looked at -> how that failed, as it was told last."""

    @property
    def error(self) -> str:
        return "; ".join(filter(None, self.errors.values()))


Inputs: TypeAlias = tuple[list[Order], list[Observation]]
"""Commands and observations, each oldest first."""


class Mailbox:
    """Commands and answers for the next commit; the one place where other threads touch
    the engine. Nothing is ever dropped."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._orders: deque[Order] = deque()
        self._observations: deque[Observation] = deque()
        self._woken = False

    def post(self, observation: Observation) -> None:
        with self._wake:
            self._observations.append(observation)
            self._wake.notify()

    def add_order(self, order: Order) -> None:
        with self._wake:
            self._orders.append(order)
            self._wake.notify()

    def wake(self) -> None:
        """End the sleep that is now, or the next one."""
        with self._wake:
            self._woken = True
            self._wake.notify()

    def sleep(self, seconds: float) -> None:
        """Wait until something comes, `seconds` at most."""
        with self._wake:
            if not (self._orders or self._observations or self._woken):
                self._wake.wait(max(0.0, seconds))
            self._woken = False

    def pause(self, seconds: float) -> None:
        """Wait, whatever comes meanwhile."""
        with self._wake:
            self._wake.wait_for(lambda: False, max(0.0, seconds))

    def drain(self) -> Inputs:
        """What waits; logs, whose search takes long, come after commands."""
        with self._wake:
            orders, observations = list(self._orders), list(self._observations)
            self._orders.clear()
            self._observations.clear()
            if orders or any(getattr(one, "orders", ()) for one in observations):
                found, observations = observations, []
                for one in found:
                    late = isinstance(one, LogsRead)
                    (self._observations if late else observations).append(one)
        return orders, observations

    def put_back(self, inputs: Sequence[Inputs]) -> None:
        """What was drained and not taken: it comes first again, in its order."""
        with self._wake:
            for orders, observations in reversed(inputs):
                self._orders.extendleft(reversed(orders))
                self._observations.extendleft(reversed(observations))


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
        self.wall_ahead = state.wall_ahead
        """Seconds by which the wall clock showed more than `t` when somebody looked."""

    def now(self) -> Moment:
        return Moment(
            t=self._t + self._clock.boottime() - self._boottime,
            utc=self._clock.utc(),
            lived=self._lived + self._clock.monotonic() - self._monotonic,
        )

    def lived_at(self, monotonic: float) -> float:
        """A moment of this engine on the scale of `lived`."""
        return self._lived + monotonic - self._monotonic

    def monotonic_at(self, lived: float) -> float:
        return self._monotonic + lived - self._lived
