"""The session in memory keeps the journal's contract, and its faults strike as told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import decode_record, encode_record
from tests.support.journal_contract import JournalContract, Store, Writer, message
from tests.support.memory_journal import (
    Fault,
    Killed,
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
        self.fail(Fault(kind="refused"))

    def fail(self, fault: Fault) -> None:
        """At the next write."""
        self.session.faults[self.session.appends] = fault


class TestMemoryJournal(JournalContract):
    def new_store(self) -> Store:
        return MemoryStore()


@pytest.mark.parametrize(
    ("fault", "survive"),
    [
        (Fault(kind="killed_before"), 0),
        (Fault(kind="killed_amid", kept=1), 1),
        (Fault(kind="killed_amid", kept=0), 0),
        (Fault(kind="killed_after"), 2),
    ],
)
def test_a_kill_leaves_the_records_that_the_fault_says(
    fault: Fault, survive: int
) -> None:
    store = MemoryStore()
    writer = Writer(store)
    before = len(writer.begin())
    store.fail(fault)
    with pytest.raises(Killed):
        writer.journal.append(writer.draft(message("1"), message("2")))
    assert len(store.session.records) == before + survive
    assert not issubclass(Killed, Exception)  # nobody catches it as an error


def test_a_deposed_lease_loses_its_heartbeat() -> None:
    session = MemorySession()
    lease = session.acquire()
    session.acquire(holder_is_dead=True)
    assert not lease.heartbeat()
