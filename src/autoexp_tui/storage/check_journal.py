"""The check of what a session's journal, kept states and plans say.

Reads everything from the first record on, whatever is kept, and compares. Never writes;
an engine may be writing meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoexp_tui.engine.ports import Clock
from autoexp_tui.events.apply import fold
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.integrity_issue import Flaw
from autoexp_tui.storage.journal import (
    TAIL,
    Loaded,
    StoredPlans,
    fold_chain,
    load_state,
    read_records,
)
from autoexp_tui.storage.journal_parts import Notices, Part, find_chain
from autoexp_tui.storage.journal_repair import (
    Salvage,
    find_salvage,
    repair_journal,
)
from autoexp_tui.storage.plan_codec import decode_plan, plan_sha
from autoexp_tui.storage.session_dir import SessionDir, part_id, read_if_there
from autoexp_tui.storage.state_cache import Kept, Unfit, read_kept


@dataclass(slots=True)
class JournalReading:
    """What reading all of a journal gave."""

    flaws: list[Flaw] = field(default_factory=list)
    state: SessionState | None = None
    """The fold of all; of what a kept state covers, where that is all there is."""
    parts: int = 0
    records: int = 0


def check_journal(session: SessionDir, clock: Clock) -> JournalReading:
    """Read all of a journal, and everything that was made from it."""
    reading = JournalReading()
    try:
        chain, loaded = _read_all(session)
    except JournalDamaged as damage:
        _tell_damage(session, clock, damage, reading)
    except EnvironmentFailed as refusal:
        reading.flaws.append(_refused(refusal))
    else:
        reading.state = loaded.state
        reading.parts, reading.records = len(chain), loaded.position.seq
        reading.flaws += [_noticed(line) for line in loaded.notices]
        reading.flaws += _kept_states(session, chain, loaded)
    reading.flaws += [*_strange_names(session), *_plans(session)]
    return reading


def _read_all(session: SessionDir) -> tuple[Sequence[Part], Loaded]:
    notices = Notices()
    chain = find_chain(session, notices)
    return chain, fold_chain(session, chain, notices, TAIL, all_of_it=True)


def _noticed(line: str) -> Flaw:
    where, _, problem = line.partition(": ")
    flipped = "had flipped" in problem
    return Flaw(
        severity="warning" if flipped else "note",
        where=where,
        problem=problem,
        hint="It reads as it was written. Look after that disk." if flipped else "",
    )


def _refused(refusal: EnvironmentFailed) -> Flaw:
    return Flaw(
        severity="error",
        where=refusal.where,
        problem=refusal.problem,
        hint=refusal.hint,
    )


# -------------------------------------------------------------------------- damage
def _tell_damage(
    session: SessionDir, clock: Clock, damage: JournalDamaged, reading: JournalReading
) -> None:
    where, problem, hint = damage.where, damage.problem, damage.hint
    reading.state = _kept_alone(session)
    if reading.state is not None:
        hint = "A kept state covers it: the session goes on all the same. " + hint
        reading.flaws.append(
            Flaw(severity="error", where=where, problem=problem, hint=hint)
        )
        return
    salvage = None if damage.newer else _salvage(session)
    mend = None if salvage is None else _Repair(session, salvage, clock)
    reading.flaws.append(
        Flaw(
            severity="error",
            where=where,
            problem=problem,
            hint=hint,
            repair=salvage.words if salvage else "",
            mend=mend,
        )
    )


def _kept_alone(session: SessionDir) -> SessionState | None:
    """The state that a start would have; None: it would be refused."""
    try:
        return load_state(session).state
    except EnvironmentFailed:
        return None


def _salvage(session: SessionDir) -> Salvage | None:
    try:
        return find_salvage(session)
    except (EnvironmentFailed, OSError):
        return None


@dataclass(frozen=True, slots=True)
class _Repair:
    session: SessionDir
    salvage: Salvage
    clock: Clock

    def __call__(self) -> str:
        return repair_journal(self.session, self.salvage, self.clock)


# -------------------------------------------------------------------- kept states
def _kept_states(
    session: SessionDir, chain: Sequence[Part], loaded: Loaded
) -> Iterator[Flaw]:
    for epoch in session.state_caches():
        path = session.state_cache(epoch)
        try:
            kept = read_kept(path, chain, StoredPlans(session))
            later = kept.cover.seq > loaded.position.seq  # than our reading
            same = later or _with_tail(kept, chain, loaded) == loaded.state
        except Unfit as reason:
            yield _unfit(path, "note", f"it does not count: {reason}")
        except FileNotFoundError:  # a newer one has taken its place
            continue
        except OSError as error:
            yield _unfit(path, "warning", f"it cannot be read: {error.strerror}")
        else:
            if not same:
                yield _unfit(path, "error", "it is not what the journal adds up to")


def _with_tail(kept: Kept, chain: Sequence[Part], loaded: Loaded) -> SessionState:
    """A kept state and the records after it, up to those that were folded."""
    cover, state = kept.cover, kept.state
    offset = cover.parts[-1][1]
    for part in chain[len(cover.parts) - 1 :]:
        found = (record for record, *_ in read_records(part, state.seq, None, offset))
        fold(state, (one for one in found if one.seq <= loaded.position.seq))
        offset = 0
    return state


def _unfit(path: Path, severity: str, problem: str) -> Flaw:
    def remove() -> str:
        path.unlink(missing_ok=True)
        return f"removed {path.name}"

    return Flaw(
        severity="error" if severity == "error" else "note",
        where=str(path),
        problem=problem,
        hint="It is a cache: the journal is folded from its beginning instead.",
        repair=f"remove {path.name}",
        mend=remove,
    )


# ---------------------------------------------------------------- names and plans
def _strange_names(session: SessionDir) -> Iterator[Flaw]:
    """Files that look like parts and are read by nobody."""
    known = {"journal.jsonl"}
    for path in sorted(session.path.glob("journal*")):
        if path.name not in known and part_id(path.name) is None:
            yield Flaw(
                severity="warning",
                where=str(path),
                problem="no part of a journal has such a name: it is not read",
                hint="If a person renamed a part, its name belongs back.",
            )


def _plans(session: SessionDir) -> Iterator[Flaw]:
    """Stored plans that are not what they were."""
    for path in sorted((session.path / "plans").glob("*.json")):
        data = read_if_there(path)
        if path.match("*.public.json"):
            continue  # a masked copy, for viewers alone
        if data is not None and plan_sha(data) != path.stem:
            yield Flaw(
                severity="error",
                where=str(path),
                problem="the plan was changed after it was stored",
                hint="Bring back the file as it was.",
            )
    data = read_if_there(session.plan)
    if data is None:
        return
    try:
        decode_plan(data, str(session.plan))
    except JournalDamaged as damage:
        yield Flaw(severity="error", where=damage.where, problem=damage.problem)
