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
from tests.support.fake_executor import FakeEnd


class Stroke(StrEnum):
    """Something that befalls a run."""

    ENDED = "ended"
    """Its command ended, and there is a record of it, or will be."""
    CANCELLED = "cancelled"
    """By a cancel that the session asked for."""
    CANCELLED_BY_OTHERS = "cancelled by others"
    """By a cancel that the session never asked for."""
    TIMEOUT = "time limit"
    OUT_OF_MEMORY = "out of memory"
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    VANISHED = "vanished"
    """It ended without a record, and nobody knows why."""
    FORGOTTEN = "forgotten"
    """The executor has never heard of it, and nothing of it lives."""


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
    """One stroke, and the run that it befell."""

    stroke: Stroke
    run: int
    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False
    """Of an end: the command had been asked to end before."""
    late_seconds: float = 0.0
    """Of an end: how much later its record appears."""


_WITHOUT_RECORD: Final[Mapping[str, Stroke]] = {
    "requeue": Stroke.REQUEUED,
    "vanish": Stroke.VANISHED,
}


class Ledger:
    """Every stroke, by task, in order."""

    def __init__(self) -> None:
        self._befallen: dict[TaskId, list[Befallen]] = {}

    def note(self, task: TaskId, run: int, stroke: Stroke) -> None:
        self._add(task, Befallen(stroke=stroke, run=run))

    def note_end(
        self,
        task: TaskId,
        run: int,
        *,
        exit_code: int | None,
        signal: int | None,
        asked: bool,
        late_seconds: float,
    ) -> None:
        """A run's command has ended, and its record tells so."""
        ended = Befallen(
            stroke=Stroke.ENDED,
            run=run,
            exit_code=exit_code,
            signal=signal,
            asked=asked,
            late_seconds=late_seconds,
        )
        self._add(task, ended)

    def note_fake(self, end: FakeEnd) -> None:
        run, number = end.run, end.run.begin.run
        if run.asked:
            self.note(end.task, number, Stroke.CANCELLED)
        if end.cause is not None:
            self.note(end.task, number, STROKES[end.cause])
        if end.ends != "exit":
            self.note(end.task, number, _WITHOUT_RECORD[end.ends])
            return
        self.note_end(
            end.task,
            number,
            exit_code=end.exit_code,
            signal=end.signal,
            asked=run.asked,
            late_seconds=run.script.record_lag,
        )

    def of(self, task: TaskId) -> Sequence[Befallen]:
        return self._befallen.get(task, ())

    def _add(self, task: TaskId, befallen: Befallen) -> None:
        self._befallen.setdefault(task, []).append(befallen)
