"""Events to the journal; what happens when the disk or a successor refuses them.

While something could not be written nothing else may be decided: the engine holds, and
tries the same records again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from autoexp_tui.engine.health import Health
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.session_ports import Journal
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Recorded

HOLD_SECONDS = 2.0
"""Between two tries to write what could not be written."""


class Written(Enum):
    """What came of a try."""

    DURABLE = auto()
    HELD = auto()
    """The disk refused; the records wait."""
    TOO_EARLY = auto()
    """Not tried: the last refusal is too fresh."""
    DEPOSED = auto()
    """Another engine has the session: nothing of ours will ever be written."""


class Writer:
    """Appends, and keeps what the disk refused."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        health: Health,
        log_fault: Callable[[str], None],
    ) -> None:
        self.unwritten: list[Recorded] = []
        self.holding = ""
        """Why nothing is written just now, empty when all is well."""
        self._journal = journal
        self._clock = clock
        self._health = health
        self._log_fault = log_fault
        self._retry_at = 0.0

    @property
    def next_try(self) -> float:
        """When to try again, monotonic; means something while anything is unwritten."""
        return self._retry_at

    def write(self, records: list[Recorded]) -> Written:
        """Append and sync; `DURABLE` is the word that the events count."""
        if self.unwritten and self._clock.monotonic() < self._retry_at:
            return Written.TOO_EARLY
        if self._health.deposed:
            return Written.DEPOSED
        try:
            self._journal.append(records)
        except SessionOwned as deposed:
            self._log_fault(str(deposed))
            self._health.deposed = True
            return Written.DEPOSED
        except (OSError, EnvironmentFailed) as problem:
            self._hold(records, str(problem))
            return Written.HELD
        self.unwritten = []
        self.holding = ""
        return Written.DURABLE

    def _hold(self, records: list[Recorded], problem: str) -> None:
        self.unwritten = records
        self._retry_at = self._clock.monotonic() + HOLD_SECONDS
        self.holding = problem
