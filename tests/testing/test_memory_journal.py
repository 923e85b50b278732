"""The session in memory keeps the journal's contract."""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import decode_record, encode_record
from tests.support.journal_contract import JournalContract, Store
from tests.support.memory_journal import (
    Fault,
    MemoryJournal,
    MemoryLease,
    MemorySession,
)


def round_trip(record: Recorded) -> None:
    """What the journal on disk would do to a record."""
    assert decode_record(encode_record(record)) == record


class MemoryStore:
    """`journal_contract.Store` in memory."""

    def __init__(self) -> None:
        self.session = MemorySession(check=round_trip)

    def acquire(self) -> tuple[MemoryLease, MemoryJournal]:
        lease = self.session.acquire(holder_is_dead=True)
        return lease, self.session.open(lease)

    def load(self) -> SessionState:
        return self.session.load()

    def records(self) -> Sequence[Recorded]:
        return self.session.records

    def refuse(self) -> None:
        self.session.faults[self.session.appends] = Fault(kind="refused")


class TestMemoryJournal(JournalContract):
    def new_store(self) -> Store:
        return MemoryStore()
