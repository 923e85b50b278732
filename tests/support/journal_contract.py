"""What every journal keeps, on disk or in memory: inherit, and say how one is made.

Plain asserts and plain methods named `test_...`, so that pytest collects a subclass; no
test runner is imported here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from autoexp_tui.engine.ports import Journal, Lease
from autoexp_tui.events.session import (
    EngineStarted,
    MessageLogged,
    PlanAdded,
    SessionStarted,
)
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import Seal


class SealingJournal(Journal, Protocol):
    """A journal that says what its first record must seal."""

    seal: Seal
    """For `EngineStarted`."""


class Store(Protocol):
    """One session, as a contract needs it."""

    def acquire(self) -> tuple[Lease, SealingJournal]:
        """Become the owner and open the journal; the owner before is deposed."""

    def load(self) -> SessionState:
        """The fold of everything that counts."""

    def records(self) -> Sequence[Recorded]:
        """Everything that counts."""

    def refuse(self) -> None:
        """Let the next write fail as on a full disk, and the ones after it succeed."""


SPEC = JobSpec(
    name="a", index=0, command=("true",), output_dir="/out/a", log_dir="/log/a"
)
PLAN = Plan(plan_id="p", name="test", state_dir="/state", jobs=(SPEC,))


class Writer:
    """An engine as small as can be: owns a session and writes to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lease, self.journal = store.acquire()
        self.state = store.load()

    def draft(self, *happened: Event) -> list[Recorded]:
        t = 100.0 + self.state.seq
        draft = Draft(self.state, Moment(t, t, t - 100.0), self.lease.epoch)
        for event in happened:
            draft.emit(event)
        return draft.commit()

    def write(self, *happened: Event) -> list[Recorded]:
        records = self.draft(*happened)
        self.journal.append(records)
        self.state = self.store.load()
        return records

    def begin(self) -> list[Recorded]:
        return self.write(*self.first_events())

    def first_events(self) -> list[Event]:
        """What an engine writes first: a new session, or the seal of the last part."""
        seal = self.journal.seal
        started = EngineStarted(
            host="h", pid=1, sealed_part=seal.part, sealed_bytes=seal.bytes
        )
        if seal.part:
            return [started]
        words = {"session": "s", "name": "test", "plan_sha": ""}
        opened = SessionStarted(**words, engine_version="1", wrapper_version="1")
        return [opened, started]


def message(text: str) -> MessageLogged:
    """An event that changes nothing else."""
    return MessageLogged(text=text)


class JournalContract(ABC):
    """Inherit as `TestX(JournalContract)` and give `store`, best as a fixture."""

    @abstractmethod
    def new_store(self) -> Store:
        """A session that nobody has written yet."""

    def test_what_was_appended_is_read_back_in_order(self) -> None:
        writer = Writer(self.new_store())
        writer.journal.append([])
        assert not writer.store.records()
        written = [*writer.begin(), *writer.write(message("1"), message("2"))]
        assert list(writer.store.records()) == written

    def test_a_refused_append_counts_for_nothing_until_it_is_tried_again(self) -> None:
        writer = Writer(self.new_store())
        written: list[Recorded] = []
        for happened in (writer.first_events(), [message("lost"), message("too")]):
            records = writer.draft(*happened)
            writer.store.refuse()
            raises(EnvironmentFailed, partial(writer.journal.append, records))
            assert list(writer.store.records()) == written
            writer.journal.append(records)
            written += records
            assert list(writer.store.records()) == written
            writer.state = writer.store.load()

    def test_a_gap_another_epoch_and_a_closed_journal_are_bugs_of_the_writer(
        self,
    ) -> None:
        first = Writer(self.new_store())
        first.begin()
        records = first.draft(message("1"), message("2"))
        raises(ValueError, lambda: first.journal.append(records[1:]))
        second = Writer(first.store)
        raises(ValueError, lambda: second.journal.append(second.draft(message("1"))))
        second.begin()
        raises(ValueError, lambda: second.journal.append(records))
        second.journal.close()
        raises(ValueError, lambda: second.journal.append(second.draft(message("1"))))

    def test_a_stored_plan_is_there_for_the_event_that_names_it(self) -> None:
        writer = Writer(self.new_store())
        writer.begin()
        sha = writer.journal.add_plan(PLAN)
        writer.state = writer.store.load()
        plans = {**writer.state.plans, sha: PLAN}
        writer.state.plans = plans
        writer.write(PlanAdded(sha=sha))
        assert writer.store.load().plan == PLAN

    def test_a_successor_goes_on_where_the_records_end(self) -> None:
        store = self.new_store()
        first = Writer(store)
        before = [*first.begin(), *first.write(message("1"))]
        second = Writer(store)
        after = second.begin()
        assert list(store.records()) == before + after

    def test_a_deposed_engine_is_told_and_counts_for_nothing(self) -> None:
        store = self.new_store()
        first = Writer(store)
        first.begin()
        late = first.draft(message("late"))
        second = Writer(store)
        raises(SessionOwned, lambda: first.journal.append(late))  # it has not written
        second.begin()
        counting = list(store.records())
        raises(SessionOwned, lambda: first.journal.append(late))
        assert list(store.records()) == counting


def raises(kind: type[BaseException], call: Callable[[], object]) -> None:
    """`call` raises `kind`, or this does."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
