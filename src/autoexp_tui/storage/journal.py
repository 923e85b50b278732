"""A session's journal on disk, read: every record in order, and the state they make.
Never writes. What a follower read may turn out not to count, when an engine cut back a
write that failed or a successor's seal left it out: then it says so."""

from __future__ import annotations

import gc
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import IllegalTransition, Recorded, apply, unseen
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.journal_parts import (
    Part,
    decode_record,
    find_chain,
    read_lines,
    read_part,
)
from autoexp_tui.storage.session_dir import PartId, SessionDir

NO_PART: PartId = (0, 0)
"""Comes before every part."""
DOES_NOT_FOLLOW = (IllegalTransition, KeyError, IndexError, ValueError)
"""What `apply` raises of a record that does not follow from those before it."""
TAIL = 2000
"""How many of the newest events `load_state` hands out."""
_SEQ = re.compile(rb'"seq":(\d{1,18}),')


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a reader has come."""

    part: PartId = NO_PART
    """`NO_PART`: nothing was read."""
    start: int = 0
    offset: int = 0
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A session as its journal tells it."""

    state: SessionState
    events: tuple[Recorded, ...]
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


def read_session(
    session: SessionDir, notices: list[str] | None = None
) -> Iterator[Recorded]:
    """Every record that counts, oldest first; raises JournalDamaged."""
    seq = 0
    for part in find_chain(session, notices):
        for record, *_ in read_records(part, seq, notices):
            seq = record.seq
            yield record


def read_records(
    part: Part, seq: int, notices: list[str] | None = None
) -> Iterator[tuple[Recorded, int, int]]:
    """The records of a part after record `seq`, with their places; raises
    JournalDamaged."""
    epoch = part.id[0]
    for found in read_part(part, notices):
        record = found[0]
        seq += 1
        if record.seq != seq or record.epoch != epoch:
            raise JournalDamaged(
                f"record {record.seq} of epoch {record.epoch} stands where record "
                f"{seq} of epoch {epoch} belongs",
                f"{part.path} (byte {found[1]})",
                "Bring back the file from a copy; records are missing or out of order.",
            )
        yield found


def list_earlier(directory: str, seq: int, count: int) -> Sequence[Recorded]:
    """The newest `count` records before record `seq`, oldest first: only these are
    decoded; raises JournalDamaged."""
    page: list[Recorded] = []
    if not directory or seq <= 1:
        return page
    for part in reversed(find_chain(SessionDir(Path(directory)))):
        lines: deque[tuple[bytes, int]] = deque(maxlen=count - len(page))
        for line, offset in read_lines(part):
            number = _SEQ.search(line)
            if not line.endswith(b"\n") or (number and int(number[1]) >= seq):
                break
            lines.append((line, offset))
        page[:0] = [
            decode_record(line, f"{part.path} (byte {offset})")
            for line, offset in lines
        ]
        if len(page) >= count:
            break
    return page


def load_state(session: SessionDir, *, tail: int = TAIL) -> Loaded:
    """Fold a session that somebody else may be writing; raises JournalDamaged."""
    notices: list[str] = []
    return fold_chain(session, find_chain(session, notices), notices, tail)


def fold_chain(
    session: SessionDir, chain: Sequence[Part], notices: list[str], tail: int
) -> Loaded:
    """The state that the records of `chain` add up to; raises as `load_state`."""
    state = SessionState(plans=StoredPlans(session))
    newest: deque[Recorded] = deque(maxlen=tail)
    place = (NO_PART, 0, 0)
    # Nothing of what is loaded is garbage; looking for it takes twice the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with unseen(state, ours=True):
            for part in chain:
                for record, start, end in read_records(part, state.seq, notices):
                    try:
                        apply(state, record)
                    except DOES_NOT_FOLLOW as error:
                        name = type(record.event).__name__
                        raise JournalDamaged(
                            f"record {record.seq} ({name}) does not follow from those "
                            f"before it: {error}",
                            f"{part.path}, before byte {end}",
                            "Bring back the file from a copy, or read it with the "
                            "version that wrote it.",
                        ) from error
                    newest.append(record)
                    place = (part.id, start, end)
    finally:
        if collecting:
            gc.enable()
    if state.plan is None:
        _require_nothing_ran(session)
    at, start, end = place
    return Loaded(
        state=state,
        events=tuple(newest),
        position=Position(part=at, start=start, offset=end, seq=state.seq),
        notices=tuple(notices),
    )


def _require_nothing_ran(session: SessionDir) -> None:
    """In a session whose journal has no plan, nothing ever ran; else raises
    JournalDamaged."""
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


class JournalFollower:
    """Goes on where `load_state` ended."""

    def __init__(self, session: SessionDir, loaded: Loaded) -> None:
        self._session = session
        self._position = loaded.position
        self._last = loaded.events[-1] if loaded.events else None

    def poll(self) -> Sequence[Recorded] | None:
        """The records since the last look; None: what was read does not all count, so
        load anew. Idle, it costs one listing and one stat. Raises JournalDamaged."""
        found: list[Recorded] = []
        rest = self._find_rest()
        if rest is None or not all(self._read_news(part, found) for part in rest):
            return None
        return found

    def _find_rest(self) -> Sequence[Part] | None:
        """The parts that may hold something new; None when ours counts no more."""
        at = self._position
        own = self._session.get_part(*at.part)
        with explaining(self._session.path, "follow the journal"):
            newest = max(self._session.list_parts(), default=NO_PART)
            if newest == at.part:
                same = newest == NO_PART or own.stat().st_size == at.offset
                return () if same else (Part(id=newest, path=own),)
        chain = find_chain(self._session)
        if at.part == NO_PART:
            return chain
        for index, part in enumerate(chain):
            if part.id == at.part:
                kept = part.length is None or part.length >= at.offset
                return chain[index:] if kept else None
        return None

    def _read_news(self, part: Part, found: list[Recorded]) -> bool:
        """Read what is new in `part`; False when it does not follow."""
        at = self._position
        same = part.id == at.part
        if not same:
            self._position = at = replace(at, part=part.id, start=0, offset=0)
        try:
            if same and self._last is not None:  # does it still stand where it stood
                again = next(read_part(part, offset=at.start), None)
                if again != (self._last, at.start, at.offset):
                    return False
            for record, start, end in read_part(part, offset=at.offset):
                if record.seq != self._position.seq + 1:
                    return False
                self._position = Position(
                    part=part.id, start=start, offset=end, seq=record.seq
                )
                self._last = record
                found.append(record)
        except JournalDamaged:
            return False
        return True
