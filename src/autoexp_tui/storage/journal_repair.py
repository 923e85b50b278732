"""Going on with a session whose journal is damaged, from the last commit that reads. No
file is edited, moved or removed: a take-over seals the journal after that commit, and
what follows is void, on disk for whoever has a better idea."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autoexp_tui import __version__
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.timeline import Timeline
from autoexp_tui.events.events import EngineStarted, EngineStopped, MessageLogged
from autoexp_tui.model.draft import Draft
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.event import apply, unseen
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal import DOES_NOT_FOLLOW, StoredPlans, read_records
from autoexp_tui.storage.journal_parts import Part, find_chain, open_part
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.session_dir import PartId, SessionDir
from autoexp_tui.text.spelling import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """The longest beginning of a damaged journal that reads and adds up."""

    chain: tuple[Part, ...]
    """The parts that would count, the last one up to its last good commit."""
    records: int
    left_out: int
    """Lines that counted, or may have, and would count no more."""

    def describe(self) -> str:
        last = self.chain[-1]
        return (
            f"go on after record {self.records} (byte {last.length} of "
            f"{last.path.name}) and leave out {plural(self.left_out, 'line')} that "
            "follow; no file is changed or removed"
        )


def find_salvage(session: SessionDir) -> Salvage | None:
    """What a repair would go on from; None when nothing reads; raises
    EnvironmentFailed."""
    parts = session.list_parts()
    for newest in reversed(parts):
        try:
            chain = find_chain(session, upto=newest)
        except JournalDamaged:
            continue
        good, records = _find_good_beginning(session, chain)
        if good:
            after = [session.get_part(*p) for p in parts if p > good[-1].id]
            lost = _count_lines(good[-1].path, good[-1].length or 0)
            lost += sum(_count_lines(path, 0) for path in after)
            return Salvage(chain=good, records=records, left_out=lost)
    return None


def _find_good_beginning(
    session: SessionDir, chain: Sequence[Part]
) -> tuple[tuple[Part, ...], int]:
    """The parts of `chain` up to its last good commit, and how many records."""
    state = SessionState(plans=StoredPlans(session))
    ends: dict[PartId, int] = {}
    records = 0
    with unseen(state), suppress(JournalDamaged, *DOES_NOT_FOLLOW):
        for part in chain:
            for record, _, end in read_records(part, state.seq):
                apply(state, record)
                if not record.more:
                    ends[part.id], records = end, record.seq
    good = (part for part in chain if part.id in ends)
    return tuple(replace(part, length=ends[part.id]) for part in good), records


def _count_lines(part: Path, offset: int) -> int:
    """Lines of a part from `offset`; of a damaged pack those that unpack."""
    count = 0
    # Damage is what brought us here.
    with suppress(EnvironmentFailed), open_part(part) as file:
        file.seek(offset)
        while block := file.read(1 << 20):
            count += block.count(b"\n")
    return count


def repair_journal(session: SessionDir, salvage: Salvage, clock: Clock) -> str:
    """Seal the journal where it reads, and say so; raises SessionOwned."""
    lease = take_lease(session, clock)
    try:
        with closing(FileJournal(session, lease, chain=salvage.chain)) as journal:
            state = journal.load().state
            draft = Draft(state, Timeline(clock, state).now(), lease.epoch)
            draft.emit(
                EngineStarted(
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    engine_version=__version__,
                    sealed_part=journal.seal.part,
                    sealed_bytes=journal.seal.bytes,
                    gap_seconds=state.measure_seconds_until(clock.utc()),
                )
            )
            text = f"the journal was damaged: a person let it {salvage.describe()}"
            draft.emit(MessageLogged(text=text, level="warning"))
            draft.emit(EngineStopped(reason="repaired"))
            journal.append(draft.commit())
    finally:
        lease.release()
    return f"{session.get_part(lease.epoch).name} goes on there"
