"""What waits for the engine's next commit: commands, and answers from outside.

The one place where other threads touch the engine. Nothing is ever dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from autoexp_tui.engine.observations import Observation
from autoexp_tui.model.commands import Order

Inputs: TypeAlias = tuple[list[Order], list[Observation]]
"""Commands and observations, each oldest first."""


class Mailbox:
    """Filled from any thread, emptied by the engine's."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._orders: deque[Order] = deque()
        self._observations: deque[Observation] = deque()
        self._nudged = False

    def post(self, observation: Observation) -> None:
        """An answer from a pool."""
        with self._wake:
            self._observations.append(observation)
            self._wake.notify()

    def order(self, order: Order) -> None:
        """A command."""
        with self._wake:
            self._orders.append(order)
            self._wake.notify()

    def nudge(self) -> None:
        """End the sleep that is now, or the next one."""
        with self._wake:
            self._nudged = True
            self._wake.notify()

    def sleep(self, seconds: float) -> None:
        """Wait until something comes, `seconds` at most."""
        with self._wake:
            if not (self._orders or self._observations or self._nudged):
                self._wake.wait(max(0.0, seconds))
            self._nudged = False

    def rest(self, seconds: float) -> None:
        """Wait, whatever comes meanwhile."""
        with self._wake:
            self._wake.wait_for(lambda: False, max(0.0, seconds))

    def drain(self) -> Inputs:
        """All that waits."""
        with self._wake:
            orders, observations = list(self._orders), list(self._observations)
            self._orders.clear()
            self._observations.clear()
        return orders, observations

    def put_back(self, inputs: Sequence[Inputs]) -> None:
        """What was drained and not taken: it comes first again, in its order."""
        with self._wake:
            for orders, observations in reversed(inputs):
                self._orders.extendleft(reversed(orders))
                self._observations.extendleft(reversed(observations))
