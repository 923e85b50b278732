"""What really befell the runs of a made-up cluster, whatever it says of them.

A cluster notes each stroke when it falls; a checker holds against them the causes that
a session tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause


class Stroke(StrEnum):
    """Something that befalls a run."""

    ENDED = "ended"  # its command ended, and there is a record of it, or will be
    CANCELLED = "cancelled"  # by a cancel that the session asked for
    CANCELLED_BY_OTHERS = "cancelled by others"  # by one that it never asked for
    TIMEOUT = "time limit"
    OUT_OF_MEMORY = "out of memory"
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    VANISHED = "vanished"  # it ended without a record, and nobody knows why
    FORGOTTEN = "forgotten"  # nobody has ever heard of it, and nothing of it lives


STROKES: Final[Mapping[Cause, Stroke]] = {
    Cause.TIMEOUT: Stroke.TIMEOUT,
    Cause.OUT_OF_MEMORY: Stroke.OUT_OF_MEMORY,
    Cause.NODE_FAIL: Stroke.NODE_LOST,
    Cause.PREEMPTED: Stroke.PREEMPTED,
    Cause.USER: Stroke.CANCELLED_BY_OTHERS,
}
"""What an executor's word for an end stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Befallen:
    """One stroke, and the run that it befell; the rest is of an end."""

    stroke: Stroke
    run: int
    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False
    """The command had been asked to end before."""
    late_seconds: float = 0.0
    """How much later its record appears."""


class Ledger:
    """Every stroke, by task, in order."""

    def __init__(self) -> None:
        self.befallen: dict[TaskId, list[Befallen]] = {}

    def note(self, task: TaskId, run: int, stroke: Stroke) -> None:
        self._add(task, Befallen(stroke=stroke, run=run))

    def note_end(
        self,
        task: TaskId,
        run: int,
        ends: tuple[int | None, int | None],
        *,
        asked: bool,
        late_seconds: float,
    ) -> None:
        """A run's command has ended, with a code or by a signal; its record says so."""
        self._add(
            task,
            Befallen(
                stroke=Stroke.ENDED,
                run=run,
                exit_code=ends[0],
                signal=ends[1],
                asked=asked,
                late_seconds=late_seconds,
            ),
        )

    def of(self, task: TaskId) -> Sequence[Befallen]:
        return self.befallen.get(task, ())

    def _add(self, task: TaskId, befallen: Befallen) -> None:
        self.befallen.setdefault(task, []).append(befallen)
