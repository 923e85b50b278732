"""A decision in the making: deciders emit and see at once what they emitted; the
session's own state moves only after the journal has the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.model.event import Event, Recorded, apply
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.fast_replace import changed
from autoexp_tui.model.ids import event_id

if TYPE_CHECKING:
    from autoexp_tui.model.state import SessionState


class Draft:
    """Events decided in one commit, over a fork of the session's state."""

    def __init__(self, state: SessionState, now: Moment, epoch: int) -> None:
        self.state = state.fork()
        self.now = Moment(
            t=max(now.t, state.t), utc=now.utc, lived=max(now.lived, state.lived)
        )
        self.epoch = epoch
        self.records: list[Recorded] = []
        self._command_id = ""
        self._cause_id = ""

    def note_cause(self, *, command_id: str = "", cause_id: str = "") -> None:
        """What the next events come from."""
        self._command_id = command_id
        self._cause_id = cause_id

    def emit(self, event: Event) -> Recorded:
        session = self.state.session or getattr(event, "session", "")
        seq = self.state.seq + 1
        record = Recorded(
            seq=seq,
            epoch=self.epoch,
            t=self.now.t,
            utc=self.now.utc,
            lived=self.now.lived,
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
        return [*(changed(r, more=True) for r in self.records[:-1]), *self.records[-1:]]

    def next_event_id(self) -> str:
        return event_id(self.state.session, self.epoch, self.state.seq + 1)
