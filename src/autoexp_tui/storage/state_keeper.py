"""Keeps the state of a session now and then, behind its engine's back.

Follows what the engine appends, so that it knows what a state covers. Encoding and
writing happen on a pool; an engine never waits for it, but once when it leaves.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from autoexp_tui.engine.ports import Pool
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal_parts import Part
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.state_cache import Cover, folding_code, forget_older, keep

KEEP_RECORDS = 25_000
"""Between two kept states: as many are folded in a quarter of a second."""


class StateKeeper:
    """The caches that one engine writes. The engine's thread uses it."""

    def __init__(
        self,
        session: SessionDir,
        epoch: int,
        pool: Pool,
        log_fault: Callable[[str], None],
        *,
        every: int = KEEP_RECORDS,
        recent: int,
    ) -> None:
        """`every` so many records a state is due; `recent` of them go with it."""
        self._session = session
        self._epoch = epoch
        self._pool = pool
        self._log_fault = log_fault
        self._every = every
        self._recent: deque[Recorded] = deque(maxlen=recent)
        self._former: list[tuple[str, int]] = []
        self._current = ""
        self._length = 0
        self._start = 0
        self._digest = hashlib.sha256()
        self._unkept = 0

    def loaded(
        self, chain: Sequence[Part], newest: Sequence[Recorded], folded: int
    ) -> None:
        """An engine goes on after `chain`; `folded` records were not kept before."""
        self._former = [(part.path.name, part.length or 0) for part in chain]
        self._recent.extend(newest)
        self._unkept = folded

    def began(self, part: Path) -> None:
        """The next records go into this part."""
        if self._current:
            self._former.append((self._current, self._length))
            self._unkept = max(self._unkept, self._every)
        self._current, self._length, self._digest = part.name, 0, hashlib.sha256()

    def wrote(self, records: Sequence[Recorded], lines: Sequence[bytes]) -> None:
        """Records are synced."""
        data = b"".join(lines)
        self._digest.update(data)
        self._length += len(data)
        self._start = self._length - len(lines[-1])
        self._recent.extend(records)
        self._unkept += len(records)

    def keep(self, state: SessionState) -> None:
        """Keep `state`, which adds up all that was written, when one is due."""
        if self._unkept < self._every or not self._able(state):
            return
        work = self._work(state)
        if self._pool.submit("state", work, self._kept):
            self._unkept = 0

    def keep_now(self, state: SessionState) -> None:
        """Keep the last state of an engine; returns when it is on disk, or was not."""
        if self._unkept and self._able(state):
            try:
                self._work(state)()
            except (EnvironmentFailed, ValueError) as error:
                self._kept(None, error)

    def _able(self, state: SessionState) -> bool:
        return bool(self._current and state.plan and folding_code())

    def _work(self, state: SessionState) -> Callable[[], None]:
        """What writes the state as it is now, whatever becomes of it meanwhile."""
        frozen, recent = _copied(state), tuple(self._recent)
        cover = Cover(
            parts=(*self._former, (self._current, self._length)),
            sha256=self._digest.hexdigest(),
            start=self._start,
            seq=state.seq,
        )

        def work() -> None:
            keep(self._session.state_cache(self._epoch), cover, frozen, recent)
            forget_older(self._session, self._epoch)

        return work

    def _kept(self, _nothing: object, error: BaseException | None) -> None:
        if error is not None:  # the journal has it all
            self._log_fault(f"keeping the state: {error}")


def _copied(state: SessionState) -> SessionState:
    """The containers anew, the frozen records in them shared."""
    values = {part.name: getattr(state, part.name) for part in fields(state)}
    copies: dict[str, Any] = {
        name: dict(value)
        for name, value in values.items()
        if isinstance(value, Mapping)
    }
    return replace(state, **copies)
