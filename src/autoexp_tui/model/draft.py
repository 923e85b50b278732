"""A decision in the making: events, and the state as it will be once they count.

Deciders emit into a draft and see at once what they emitted; the session's own state
moves only after the journal has the events.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.model.event import Event, Recorded, apply
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.fast_replace import changed
from autoexp_tui.model.ids import event_id
from autoexp_tui.model.state import JobRecord, Layer

if TYPE_CHECKING:
    from autoexp_tui.model.state import SessionState
    from autoexp_tui.model.states import JobState


@dataclass(frozen=True, slots=True)
class Move:
    """A job went from one state to another."""

    job: str
    old: JobState
    new: JobState
    seq: int
    """Of the event before the one that moved it."""


class _Jobs(Layer[JobRecord]):
    """A draft's jobs, which note when one of them changes its state."""

    __slots__ = ("_draft",)

    def __init__(self, base: Mapping[str, JobRecord], draft: Draft) -> None:
        super().__init__(base)
        self._draft = draft

    def __setitem__(self, key: str, value: JobRecord) -> None:
        old = self.get(key)
        if old is not None and old.state is not value.state:
            self._draft.note_move(key, old.state, value.state)
        super().__setitem__(key, value)


class Draft:
    """Events decided in one commit, over a fork of the session's state."""

    def __init__(self, state: SessionState, now: Moment, epoch: int) -> None:
        self.state = state.fork()
        self._jobs = _Jobs(state.jobs, self)
        self.state.jobs = self._jobs
        self._moves: list[Move] = []
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
        """Add an event and apply it to the draft.

        Raises:
            IllegalTransition: a bug of the caller.
        """
        session = event.find_opened_session() or self.state.session
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

    @property
    def touched(self) -> Set[str]:
        """Jobs that are no longer what they were."""
        return self._jobs.written

    def note_move(self, job: str, old: JobState, new: JobState) -> None:
        """A job of the draft changed its state."""
        self._moves.append(Move(job, old, new, self.state.seq))

    def take_moves(self) -> list[Move]:
        """Moves since the last call, oldest first."""
        moves, self._moves = self._moves, []
        return moves

    def forget_move(self) -> None:
        """Forget the last move: it has been reacted to as something else."""
        self._moves.pop()

    def commit(self) -> list[Recorded]:
        """The records as they go to the journal: they count together or not at all."""
        return [*(changed(r, more=True) for r in self.records[:-1]), *self.records[-1:]]

    def next_event_id(self) -> str:
        """The id that the next emitted event will have."""
        return event_id(self.state.session, self.epoch, self.state.seq + 1)

    def job(self, name: str) -> JobRecord:
        """The job as it is in the draft."""
        return self.state.jobs[name]
