"""A session's disk in memory: what is synced survives, and faults strike when told.

Keeps the contract of the journal on disk (`journal_contract`): seals, epochs, order.
A fault is set for the n-th append, counted over the life of the session: the disk
refuses, or the engine is killed before, amid, or after the write. No threads,
no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from autoexp_tui.events.events import EngineStarted
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Recorded, fold
from autoexp_tui.model.ids import digest
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import Seal


class Killed(BaseException):
    """The engine's process is gone. Nothing may catch it but the simulator."""


DiskKind = Literal["refused", "killed_before", "killed_amid", "killed_after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What becomes of one append."""

    kind: DiskKind
    kept: int = 0
    """`killed_amid`: how many of its records are on the disk."""


@dataclass(eq=False)
class MemorySession:
    """What survives engines: records, plans, and who owns the session."""

    records: list[Recorded] = field(default_factory=list)
    plans: dict[str, Plan] = field(default_factory=dict)
    epoch: int = 0
    """Of the newest lease."""
    released: bool = True
    faults: dict[int, Fault] = field(default_factory=dict)
    """By the number of the append, from 0."""
    appends: int = 0
    check: Callable[[Recorded], None] = lambda _record: None
    """Called with each record before it counts, for a codec's round trip."""

    def acquire(self, *, holder_is_dead: bool = False) -> MemoryLease:
        if not self.released and not holder_is_dead:
            raise SessionOwned(f"the session is owned by epoch {self.epoch}")
        self.epoch += 1
        self.released = False
        while self.records and self.records[-1].more:
            self.records.pop()  # of a commit that is not whole
        return MemoryLease(self, self.epoch)

    def open(self, lease: MemoryLease) -> MemoryJournal:
        return MemoryJournal(self, lease)

    def load(self) -> SessionState:
        return fold(SessionState(plans=self.plans), self.records)


@dataclass(eq=False)
class MemoryLease:
    """Implements `ports.Lease`."""

    session: MemorySession
    epoch: int

    def is_held(self) -> bool:
        return self.session.epoch == self.epoch

    def heartbeat(self) -> bool:
        return self.is_held()

    def release(self) -> None:
        if self.is_held():
            self.session.released = True


class MemoryJournal:
    """Implements `ports.Journal`."""

    def __init__(self, session: MemorySession, lease: MemoryLease) -> None:
        self._session = session
        self._lease = lease
        self._begun = False
        self._closed = False
        self.is_fenced = True
        """False: a deposed engine's records count too, which is a deliberate bug."""
        records = session.records
        self.seal = Seal()
        if records:
            part = f"journal.{records[-1].epoch}.jsonl"
            self.seal = Seal(part=part, bytes=len(records))

    def append(self, records: Sequence[Recorded]) -> None:
        """As `ports.Journal.append`, or as the fault for this append says; raises
        EnvironmentFailed, SessionOwned, Killed or ValueError."""
        if not records:
            return
        if not self._lease.is_held():
            if self.is_fenced:
                raise SessionOwned("another engine has taken the session")
            self._session.records.extend(records)
            return
        self._check(records)
        fault = self._session.faults.get(self._session.appends)
        self._session.appends += 1
        self._strike(fault, records)
        self._session.records.extend(records)
        self._begun = True
        if fault is not None:
            raise Killed(f"after append {self._session.appends - 1}")

    def add_plan(self, plan: Plan) -> str:
        sha = digest(plan, length=16)
        self._session.plans[sha] = plan
        return sha

    def close(self) -> None:
        self._closed = True

    def _strike(self, fault: Fault | None, records: Sequence[Recorded]) -> None:
        if fault is None or fault.kind == "killed_after":
            return
        if fault.kind == "refused":
            raise EnvironmentFailed("cannot write the journal: no space left on device")
        kept = fault.kept if fault.kind == "killed_amid" else 0
        self._session.records.extend(records[:kept])
        raise Killed(f"with {kept} of {len(records)} records written")

    def _check(self, records: Sequence[Recorded]) -> None:
        if self._closed:
            raise ValueError("the journal is closed")
        if not self._begun:
            self._check_seal(records[0])
        first = len(self._session.records) + 1
        for expected, record in enumerate(records, first):
            if record.seq != expected or record.epoch != self._lease.epoch:
                raise ValueError(f"record {record.seq} where {expected} belongs")
            self._session.check(record)

    def _check_seal(self, first: Recorded) -> None:
        event = first.event
        seal = Seal()
        if isinstance(event, EngineStarted):
            seal = Seal(part=event.sealed_part, bytes=event.sealed_bytes)
        if seal != self.seal:
            raise ValueError(f"the first record seals {seal}, not {self.seal}")
