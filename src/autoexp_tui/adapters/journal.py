"""The journal of a session on disk: appending to it, and folding it.

One line an event, one write and one sync a commit. What an append did not acknowledge
does not count for its engine; what is on disk when a successor seals the part counts
for everybody (`journal_parts`). There is no snapshot cache: folding 100,000 events
takes about a second, and a cache could be wrong.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from autoexp_tui.adapters.atomic import (
    explained,
    sync_data,
    sync_directory,
    write_all,
)
from autoexp_tui.adapters.codec import encode_record
from autoexp_tui.adapters.journal_parts import (
    Notices,
    Part,
    Seal,
    find_chain,
    find_seal,
    read_part,
)
from autoexp_tui.adapters.session_dir import SessionDir
from autoexp_tui.core.apply import IllegalTransition, apply, unseen
from autoexp_tui.core.errors import JournalDamaged, SessionOwned
from autoexp_tui.core.events import EngineStarted, Recorded
from autoexp_tui.core.specs import Plan
from autoexp_tui.core.state import SessionState

TAIL = 2000
"""How many of the newest events `load_state` hands out."""


class Held(Protocol):
    """What an append asks of the lease it writes under."""

    epoch: int

    def held(self) -> bool:
        """Whether no successor has taken the session; may raise OSError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a reader has come."""

    epoch: int = 0
    """Of the part; 0: nothing was read."""
    start: int = 0
    """Where the newest record begins in it."""
    offset: int = 0
    """Where the newest record ends in it."""
    seq: int = 0
    """Of the newest record that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A session as its journal tells it."""

    state: SessionState
    events: tuple[Recorded, ...]
    """The newest ones, oldest first."""
    position: Position
    notices: tuple[str, ...] = ()
    """What is no damage but worth a word: torn lines, void bytes."""


class StoredPlans(dict[str, Plan]):
    """The plans of a session by sha, read when they are first asked for."""

    def __init__(self, session: SessionDir) -> None:
        super().__init__()
        self._session = session

    def __missing__(self, sha: str) -> Plan:
        plan = self[sha] = self._session.load_plan(sha)
        return plan


# ---------------------------------------------------------------------- reading
def read_session(
    session: SessionDir, notices: Notices | None = None
) -> Iterator[Recorded]:
    """Every record that counts, oldest first.

    Raises:
        JournalDamaged: a record cannot be read, or is missing.
        EnvironmentFailed: a file cannot be read.
    """
    for record, *_ in read_chain(find_chain(session, notices), notices):
        yield record


def read_chain(
    chain: Sequence[Part], notices: Notices | None = None
) -> Iterator[tuple[Recorded, int, int]]:
    """The records of `chain`, each with where its line begins and ends."""
    seq = 0
    for part in chain:
        epoch = part.epoch
        for found in read_part(part, notices):
            record = found[0]
            seq += 1
            if record.seq != seq or record.epoch != epoch:
                raise _misplaced(record, part, seq)
            yield found


def load_state(session: SessionDir, *, tail: int = TAIL) -> Loaded:
    """Fold a session that somebody else may be writing.

    Raises:
        JournalDamaged: a record or a plan cannot be read.
        EnvironmentFailed: a file cannot be read.
    """
    notices = Notices()
    return _fold(session, find_chain(session, notices), notices, tail)


def _fold(
    session: SessionDir, chain: Sequence[Part], notices: Notices, tail: int
) -> Loaded:
    state = SessionState(plans=StoredPlans(session))
    newest: deque[Recorded] = deque(maxlen=tail)
    start = end = 0
    with unseen(state):
        for record, start, end in read_chain(chain, notices):  # noqa: B007 - used below
            try:
                apply(state, record)
            except (IllegalTransition, KeyError, IndexError, ValueError) as error:
                raise _unfit(record, end, session, error) from error
            newest.append(record)
    return Loaded(
        state=state,
        events=tuple(newest),
        position=Position(epoch=state.epoch, start=start, offset=end, seq=state.seq),
        notices=tuple(notices.lines),
    )


def _misplaced(record: Recorded, part: Part, expected: int) -> JournalDamaged:
    return JournalDamaged(
        f"record {record.seq} of epoch {record.epoch} stands where record {expected} "
        f"of epoch {part.epoch} belongs",
        str(part.path),
        "Bring back the file from a copy; records are missing or out of order.",
    )


def _unfit(
    record: Recorded, end: int, session: SessionDir, error: Exception
) -> JournalDamaged:
    return JournalDamaged(
        f"record {record.seq} ({type(record.event).__name__}) does not follow from "
        f"those before it: {error}",
        f"{session.journal_part(record.epoch)}, before byte {end}",
        "Bring back the file from a copy, or read it with the version that wrote it.",
    )


# ---------------------------------------------------------------------- writing
class FileJournal:
    """The part that one engine writes. Implements `ports.Journal`.

    The first record must be the one that seals the predecessor: an EngineStarted with
    `seal`, or the SessionStarted of a new session. The file is made with it.
    """

    def __init__(self, session: SessionDir, lease: Held) -> None:
        """Open the journal under a lease that is held already.

        Raises:
            JournalDamaged: the chain of parts is broken.
            EnvironmentFailed: a part cannot be read.
        """
        self.session = session
        self._lease = lease
        self._path = session.journal_part(lease.epoch)
        self._notices = Notices()
        self._chain = find_chain(session, self._notices)
        self.seal = Seal()
        if self._chain:
            self.seal = find_seal(self._chain[-1])
            self._chain[-1] = replace(self._chain[-1], length=self.seal.bytes)
        self._note_torn()
        self._file = -1
        self._good = 0
        self._surplus = False
        self._seq: int | None = None
        self._closed = False
        self._lost = False

    def load(self, *, tail: int = TAIL) -> Loaded:
        """Fold what the predecessors left, up to the seal and not a byte further.

        Raises:
            JournalDamaged: a record or a plan cannot be read.
            EnvironmentFailed: a file cannot be read.
        """
        loaded = _fold(self.session, self._chain, self._notices, tail)
        if self._seq is None:
            self._seq = loaded.position.seq
        return loaded

    def append(self, records: Sequence[Recorded]) -> None:
        """Write the records and sync once; when it returns, they count.

        Raises:
            SessionOwned: a successor has taken the session; this journal is closed
                for good and nothing of this call counts.
            EnvironmentFailed: the disk refused; nothing of this call counts, and the
                same records may be tried again.
            ValueError: the records do not continue the journal: a bug.
        """
        if not records:
            return
        self._check(records)
        data = b"".join([encode_record(record) for record in records])
        try:
            self._append(data)
        except OSError as error:
            self._surplus = True
            with suppress(OSError):  # or else before the next append
                self._cut_back()
            raise explained(error, self._path, "write the journal") from error
        self._seq = records[-1].seq

    def add_plan(self, plan: Plan) -> str:
        """Store a plan beside the journal, durable; returns its sha.

        Raises:
            EnvironmentFailed: the disk refused.
            ValidationFailed: the plan holds a value that JSON cannot.
        """
        return self.session.store_plan(plan)

    def close(self) -> None:
        """Release the file; appending ends. Closing twice is one closing."""
        self._closed = True
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _append(self, data: bytes) -> None:
        if self._surplus:
            self._cut_back()
        if self._file < 0:
            self._create()
        write_all(self._file, data, self._good)
        sync_data(self._file)
        # After the sync, not before: an engine that was stopped in between must not
        # believe bytes that its successor's seal has left out.
        self._still_ours()
        self._good += len(data)

    def _create(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o600)
        try:
            if os.fstat(file).st_size:
                raise FileExistsError(errno.EEXIST, "it is written already")
            sync_directory(self.session.path)
        except OSError:
            os.close(file)
            raise
        self._file = file
        self._show_current()

    def _show_current(self) -> None:
        """Let `journal.jsonl` lead to the part that is written now."""
        link = self.session.journal
        temporary = link.with_name(f".{link.name}.{self._lease.epoch}")
        with suppress(OSError):  # for people alone: no reader follows it
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(self._path.name)
            temporary.replace(link)

    def _cut_back(self) -> None:
        """Remove what a failed append left, unless a successor may have sealed it."""
        if self._file >= 0:
            self._still_ours()
            os.ftruncate(self._file, self._good)
        self._surplus = False

    def _still_ours(self) -> None:
        if not self._lease.held():
            self._lost = True
            self.close()
            raise self._deposed()

    def _check(self, records: Sequence[Recorded]) -> None:
        if self._lost:
            raise self._deposed()
        if self._closed:
            raise ValueError("the journal is closed")
        if self._seq is None:
            self._seq = self.load(tail=0).position.seq
        if self._good == 0:
            self._check_seal(records[0])
        for expected, record in enumerate(records, self._seq + 1):
            if record.seq != expected or record.epoch != self._lease.epoch:
                raise ValueError(
                    f"record {record.seq} of epoch {record.epoch} after {expected - 1}"
                )

    def _check_seal(self, first: Recorded) -> None:
        event = first.event
        seal = Seal()
        if isinstance(event, EngineStarted):
            seal = Seal(part=event.sealed_part, bytes=event.sealed_bytes)
        if seal != self.seal:
            raise ValueError(f"the first record seals {seal}, not {self.seal}")

    def _note_torn(self) -> None:
        if not self._chain:
            return
        path = self._chain[-1].path
        torn = path.stat().st_size - self.seal.bytes
        if torn > 0:
            self._notices.add(path, f"dropped {torn} bytes of an unfinished commit")

    def _deposed(self) -> SessionOwned:
        return SessionOwned(
            f"another engine has taken session {self.session.id}",
            hint=f"`autoexp-tui --session {self.session.id} --state-dir "
            f"{self.session.state_dir}` watches it.",
        )
