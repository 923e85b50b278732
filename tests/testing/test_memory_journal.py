"""The session in memory keeps the journal's contract; the manual clock; what the
simulator finds wrong with files of old attempts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists
from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.storage.journal import decode_record, encode_record
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import ended, happen, job, plan, run, started
from tests.support.journal_contract import JournalContract, Store
from tests.support.memory_journal import (
    Fault,
    MemoryJournal,
    MemoryLease,
    MemorySession,
)
from tests.support.sim_checks import unsure_files


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


def test_time_passes_as_told_and_never_goes_back() -> None:
    clock = ManualClock(utc=100.0, monotonic=5.0)
    clock.set_utc(40.0)
    assert (clock.utc(), clock.monotonic()) == (40.0, 5.0)
    clock.advance(1.0)
    assert (clock.utc(), clock.monotonic()) == (41.0, 6.0)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


FILE = FileExists(path="/out/a/done", writer="a")
TEXT = FileContent(path="/out/a/done", pattern="done", writer="a")


def unsure(state: SessionState) -> dict[str, list[str]]:
    return {name: list(unsure_files(state, job)) for name, job in state.jobs.items()}


@pytest.mark.parametrize("file", [FILE, TEXT])
def test_writer_and_follower_wait_until_old_files_are_known(
    file: FileExists | FileContent,
) -> None:
    state = started(plan(job("a"), job("b", 1, start_conditions=(file,))))
    happen(state, events.JobsReleased(jobs=("b",)))
    run(state, "a")
    over = events.JobEnded(job="a", state=JobState.FAILED, cause=Cause.EXIT_CODE)
    again = events.JobRevived(job="a", from_checkpoint=False, why=why("resubmitted"))
    happen(state, ended("a"), over, again)
    assert unsure(state) == {
        "a": ["a begins anew, and nobody has looked at what lies there"],
        "b": ["b begins from /out/a/done, and a begins anew"],
    }
    happen(state, events.FilesSetAside(job="a", attempt=2))
    assert unsure(state) == {"a": [], "b": []}
