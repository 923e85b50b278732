"""A decision in the making: events, and the state as it will be once they count.

Deciders emit into a draft and see at once what they emitted; the session's own state
moves only after the journal has the events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autoexp_tui.core.apply import apply
from autoexp_tui.core.events import Event, Recorded, SessionStarted
from autoexp_tui.core.ids import event_id

if TYPE_CHECKING:
    from autoexp_tui.core.state import JobRecord, SessionState


class Draft:
    """Events decided in one commit, over a fork of the session's state."""

    def __init__(self, state: SessionState, now: float, epoch: int) -> None:
        self.state = state.fork()
        self.now = max(now, state.t)
        self.epoch = epoch
        self.records: list[Recorded] = []
        self._command_id = ""
        self._cause_id = ""

    def because(self, *, command_id: str = "", cause_id: str = "") -> None:
        """What the next events come from."""
        self._command_id = command_id
        self._cause_id = cause_id

    def emit(self, event: Event) -> Recorded:
        """Add an event and apply it to the draft.

        Raises:
            IllegalTransition: a bug of the caller.
        """
        session = self.state.session
        if isinstance(event, SessionStarted):
            session = event.session
        seq = self.state.seq + 1
        record = Recorded(
            seq=seq,
            epoch=self.epoch,
            t=self.now,
            event_id=event_id(session, self.epoch, seq),
            cause_id=self._cause_id,
            command_id=self._command_id,
            event=event,
        )
        apply(self.state, record)
        self.records.append(record)
        return record

    def commit(self) -> list[Recorded]:
        """The records as they go to the journal: they count together or not at all."""
        return [*(replace(r, more=True) for r in self.records[:-1]), *self.records[-1:]]

    def next_event_id(self) -> str:
        """The id that the next emitted event will have."""
        return event_id(self.state.session, self.epoch, self.state.seq + 1)

    def job(self, name: str) -> JobRecord:
        """The job as it is in the draft."""
        return self.state.jobs[name]
