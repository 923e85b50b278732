"""Reading a journal that another engine writes, as it grows.

Survives take-overs. What was read may turn out not to count: an engine cut back a write
that failed, or a successor's seal left out the last bytes of the one before. Then the
follower says so, and its owner loads the session anew. Never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoexp_tui.events.events import Recorded
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.journal import NO_PART, Loaded, Position
from autoexp_tui.storage.journal_parts import (
    Part,
    find_chain,
    read_part,
)
from autoexp_tui.storage.session_dir import SessionDir


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What came of one look."""

    records: tuple[Recorded, ...] = ()
    """In order, right after those of the last look."""
    rewound: bool = False
    """What was read before does not all count: load the session anew."""


class JournalFollower:
    """Goes on where `load_state` ended."""

    def __init__(self, session: SessionDir, loaded: Loaded) -> None:
        self._session = session
        self._position = loaded.position
        self._last = loaded.events[-1] if loaded.events else None

    def poll(self) -> News:
        """The records since the last look; a line that is not whole yet waits.

        Idle, this costs one listing of the session's directory and one stat.

        Raises:
            EnvironmentFailed: the journal cannot be read just now.
            JournalDamaged: the chain of parts is broken.
        """
        rest = self._rest()
        if rest is None:
            return News(rewound=True)
        found: list[Recorded] = []
        for part in rest:
            if not self._read(part, found):
                return News(rewound=True)
        return News(records=tuple(found))

    def _rest(self) -> Sequence[Part] | None:
        """The parts that may hold something new; None when ours counts no more."""
        own = self._session.journal_part(*self._position.part)
        with explaining(self._session.path, "follow the journal"):
            parts = self._session.journal_parts()
            newest = max(parts, default=NO_PART)
            if newest == self._position.part:
                same = newest == NO_PART or own.stat().st_size == self._position.offset
                return () if same else (Part(id=newest, path=own),)
        return self._from_ours(find_chain(self._session))

    def _from_ours(self, chain: Sequence[Part]) -> Sequence[Part] | None:
        if self._position.part == NO_PART:
            return chain
        for index, part in enumerate(chain):
            if part.id == self._position.part:
                sealed = part.length
                kept = sealed is None or sealed >= self._position.offset
                return chain[index:] if kept else None
        return None

    def _read(self, part: Part, found: list[Recorded]) -> bool:
        """Read what is new in `part`; False when it does not follow."""
        if part.id != self._position.part:
            self._position = replace(self._position, part=part.id, start=0, offset=0)
            return self._take(part, 0, found)
        return self._overlaps(part) and self._take(part, self._position.offset, found)

    def _overlaps(self, part: Part) -> bool:
        """Whether the newest record that was read still stands where it stood."""
        if self._last is None:
            return True
        try:
            again = next(read_part(part, offset=self._position.start), None)
        except JournalDamaged:
            return False
        return again == (self._last, self._position.start, self._position.offset)

    def _take(self, part: Part, offset: int, found: list[Recorded]) -> bool:
        try:
            for record, start, end in read_part(part, offset=offset):
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
