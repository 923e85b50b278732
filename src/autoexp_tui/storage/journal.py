"""A session's journal on disk, read: every record in order, and the state they make.

What an append did not acknowledge does not count for its engine; what is on disk when a
successor seals the part counts for everybody (`journal_parts`). Never writes.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autoexp_tui.events.apply import apply, unseen
from autoexp_tui.events.base import IllegalTransition
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal_parts import (
    Notices,
    Part,
    find_chain,
    read_part,
)
from autoexp_tui.storage.session_dir import PartId, SessionDir

NO_PART: PartId = (0, 0)
"""Comes before every part."""
DOES_NOT_FOLLOW = (IllegalTransition, KeyError, IndexError, ValueError)
"""What `apply` raises of a record that does not follow from those before it."""
TAIL = 2000
"""How many of the newest events `load_state` hands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a reader has come."""

    part: PartId = NO_PART
    """`NO_PART`: nothing was read."""
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
    seq = 0
    for part in find_chain(session, notices):
        for record, *_ in read_records(part, seq, notices):
            seq = record.seq
            yield record


def read_records(
    part: Part, seq: int, notices: Notices | None = None
) -> Iterator[tuple[Recorded, int, int]]:
    """The records of a part that follow record `seq`, each with its bytes' place.

    Raises:
        JournalDamaged: a record cannot be read, is missing, or another engine's.
        EnvironmentFailed: the part cannot be read.
    """
    epoch = part.epoch
    for found in read_part(part, notices):
        record = found[0]
        seq += 1
        if record.seq != seq or record.epoch != epoch:
            raise _misplaced(record, part, seq, found[1])
        yield found


def load_state(session: SessionDir, *, tail: int = TAIL) -> Loaded:
    """Fold a session that somebody else may be writing.

    Raises:
        JournalDamaged: a record or a plan cannot be read.
        EnvironmentFailed: a file cannot be read.
    """
    notices = Notices()
    return fold_chain(session, find_chain(session, notices), notices, tail)


def fold_chain(
    session: SessionDir, chain: Sequence[Part], notices: Notices, tail: int
) -> Loaded:
    """The state that the records of `chain` add up to; raises as `load_state`."""
    state = SessionState(plans=StoredPlans(session))
    position = Position()
    newest: deque[Recorded] = deque(maxlen=tail)
    with _no_search_for_garbage(), unseen(state, ours=True):
        for part in chain:
            position = _fold_part(state, part, notices, newest, position)
    if state.plan is None:
        _require_nothing_ran(session)
    return Loaded(
        state=state,
        events=tuple(newest),
        position=position,
        notices=tuple(notices.lines),
    )


def _require_nothing_ran(session: SessionDir) -> None:
    """A journal without a plan is that of a session in which nothing ever ran.

    Raises:
        JournalDamaged: something did, so records are gone.
    """
    try:
        ran = sorted(path.name for path in session.attempts.iterdir())
    except OSError:
        return
    if ran:
        of = f"{ran[0]} and {len(ran) - 1} more" if len(ran) > 1 else ran[0]
        raise JournalDamaged(
            f"it does not tell how the session began, and jobs have run: {of}",
            str(session.journal),
            "Records are gone: bring back the journal from a copy. "
            f"`autoexp-sessions check {session.id} --state-dir {session.state_dir}` "
            "tells what there is.",
        )


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Nothing of what is loaded is garbage; looking for it takes twice the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _fold_part(
    state: SessionState,
    part: Part,
    notices: Notices,
    newest: deque[Recorded],
    position: Position,
) -> Position:
    start = end = 0
    for record, start, end in read_records(part, state.seq, notices):  # noqa: B007
        try:
            apply(state, record)
        except DOES_NOT_FOLLOW as error:
            raise _unfit(record, end, part, error) from error
        newest.append(record)
    if not end:
        return position
    return Position(part=part.id, start=start, offset=end, seq=state.seq)


def _misplaced(
    record: Recorded, part: Part, expected: int, start: int
) -> JournalDamaged:
    return JournalDamaged(
        f"record {record.seq} of epoch {record.epoch} stands where record {expected} "
        f"of epoch {part.epoch} belongs",
        f"{part.path} (byte {start})",
        "Bring back the file from a copy; records are missing or out of order.",
    )


def _unfit(record: Recorded, end: int, part: Part, error: Exception) -> JournalDamaged:
    return JournalDamaged(
        f"record {record.seq} ({type(record.event).__name__}) does not follow from "
        f"those before it: {error}",
        f"{part.path}, before byte {end}",
        "Bring back the file from a copy, or read it with the version that wrote it.",
    )
