"""A kept state counts only for the very journal it was made from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.events.apply import fold
from autoexp_tui.events.draft import Draft
from autoexp_tui.events.events import (
    Event,
    JobReplanned,
    JobsReleased,
    LogMatched,
    PlanAdded,
    Recorded,
)
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.verdicts import why
from autoexp_tui.storage import journal, state_cache
from autoexp_tui.storage.file_journal import FileJournal, Rotation
from autoexp_tui.storage.journal import Loaded, load_state, read_session
from autoexp_tui.storage.journal_follow import JournalFollower
from autoexp_tui.storage.journal_parts import find_chain
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.state_cache import Unfit, read_kept
from autoexp_tui.testing.journal_contract import PLAN, SPEC, Writer, message
from tests.model.builders import at

from .disk_session import Died, DiskStore, die


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    made = DiskStore(tmp_path / "k7f2", monkeypatch)
    made.keep_every = 1
    return made


def writing(store: DiskStore, *further: Event) -> Writer:
    """An engine amid a session with a plan."""
    writer = Writer(store)
    if not writer.journal.seal.part:
        sha = writer.journal.add_plan(PLAN)
        writer.begin()
        writer.write(PlanAdded(sha=sha), JobsReleased(jobs=("a",)), *further)
    else:
        writer.begin()
    return writer


def matched(number: int) -> LogMatched:
    return LogMatched(
        match_id=f"m{number}",
        job="a",
        attempt=1,
        run=0,
        rule="r",
        offset=number,
        line="x",
        metadata={"key": str(number)},
    )


def keep(store: DiskStore, writer: Writer) -> None:
    writer.journal.keep(writer.state)
    while store.pool.step():
        pass


def folded(session: SessionDir) -> SessionState:
    """The fold of all records, by nobody's cache."""
    state = SessionState(plans=journal.StoredPlans(session))
    return fold(state, read_session(session))


def kept_at(store: DiskStore, epoch: int = 1) -> Path:
    return store.session.state_cache(epoch)


def read_from(loaded: Loaded) -> bool:
    """Whether a state was begun with what was kept."""
    return loaded.folded < loaded.position.seq


# ----------------------------------------------------------------------------- equal
def test_a_kept_state_and_what_follows_are_the_fold_of_all(store: DiskStore) -> None:
    writer = writing(store)
    keep(store, writer)
    writer.write(matched(1), matched(2))
    loaded = load_state(store.session)
    assert loaded.folded == 2
    assert loaded.state == folded(store.session)


def test_a_start_from_a_kept_state_knows_the_newest_events(store: DiskStore) -> None:
    writer = writing(store, *(matched(number) for number in range(5)))
    keep(store, writer)
    writer.write(message("x"))
    records = tuple(read_session(store.session))
    loaded = load_state(store.session)
    assert read_from(loaded)
    assert loaded.events == records
    assert load_state(store.session, tail=3).events == records[-3:]


def test_a_job_that_was_planned_anew_keeps_its_spec(store: DiskStore) -> None:
    new = JobReplanned(job="a", spec=replace(SPEC, stage="new"), why=why("x"))
    keep(store, writing(store, new))
    loaded = load_state(store.session)
    assert read_from(loaded)
    assert loaded.state.jobs["a"].spec == new.spec


def test_a_successor_goes_on_from_what_was_kept(store: DiskStore) -> None:
    keep(store, writing(store, matched(1)))
    heir = FileJournal(store.session, store.acquire()[0])
    loaded = heir.load()
    assert read_from(loaded)
    assert loaded.state == folded(store.session)


def test_a_state_is_kept_over_take_overs_and_parts(store: DiskStore) -> None:
    store.rotation = Rotation(records=4)
    writing(store, matched(1))
    writer = writing(store)
    writer.write(message("a"), message("b"), message("c"))
    rotated = writer.journal.rotation()
    assert rotated
    writer.write(rotated)
    keep(store, writer)
    writer.write(matched(2))
    loaded = load_state(store.session)
    assert loaded.folded == 1
    assert loaded.state == folded(store.session)


def test_a_state_whose_last_part_was_packed_still_counts(store: DiskStore) -> None:
    store.rotation = Rotation(records=4)
    writer = writing(store, matched(1))
    keep(store, writer)
    rotated = writer.journal.rotation()
    assert rotated
    writer.write(rotated, message("x"))
    while store.pool.step():
        pass
    assert not store.session.journal_part(1).exists()
    loaded = load_state(store.session)
    assert loaded.folded == 2
    assert loaded.state == folded(store.session)


def test_a_follower_goes_on_from_a_kept_state(store: DiskStore) -> None:
    writer = writing(store)
    keep(store, writer)
    follower = JournalFollower(store.session, load_state(store.session))
    assert follower.poll().records == ()
    added = writer.write(matched(1))
    news = follower.poll()
    assert not news.rewound
    assert list(news.records) == added


# ------------------------------------------------------------------------- when, where
def test_nothing_is_kept_before_it_is_due(store: DiskStore) -> None:
    store.keep_every = 5
    writer = writing(store)
    keep(store, writer)
    assert store.session.state_caches() == []
    writer.write(message("fifth"))
    keep(store, writer)
    assert store.session.state_caches() == [1]


def test_a_state_is_kept_when_a_part_begins(store: DiskStore) -> None:
    store.keep_every, store.rotation = 100, Rotation(records=4)
    writer = writing(store)
    rotated = writer.journal.rotation()
    assert rotated
    writer.write(rotated)
    keep(store, writer)
    assert store.session.state_caches() == [1]


def test_the_last_state_is_kept_at_once(store: DiskStore) -> None:
    store.keep_every = 100
    writer = writing(store)
    writer.journal.keep(writer.state, last=True)
    assert load_state(store.session).folded == 0


def test_a_successor_removes_what_its_predecessors_kept(store: DiskStore) -> None:
    keep(store, writing(store))
    keep(store, writing(store))
    assert store.session.state_caches() == [2]


def test_what_is_kept_is_private(store: DiskStore) -> None:
    keep(store, writing(store))
    assert kept_at(store).stat().st_mode & 0o777 == 0o600


def test_a_disk_that_refuses_to_keep_a_state_is_told_and_no_more(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writing(store)

    def refuse(*_args: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("autoexp_tui.storage.atomic.os.replace", refuse)
    keep(store, writer)
    writer.journal.keep(writer.state, last=True)
    assert "No space left" in store.faults[0]
    assert load_state(store.session).state == folded(store.session)


# ---------------------------------------------------------------------------- mismatch
def rewrite_header(path: Path, **changes: object) -> None:
    head, _, body = path.read_bytes().partition(b"\n")
    path.write_bytes(
        json.dumps({**json.loads(head), **changes}).encode() + b"\n" + body
    )


def cut_journal(store: DiskStore) -> None:
    """Take the last record away, as whoever restores an older copy does."""
    path = store.session.journal_part(1)
    lines = path.read_bytes().splitlines(keepends=True)
    records = list(read_session(store.session))
    end = max(n for n, record in enumerate(records[:-1]) if not record.more) + 1
    path.write_bytes(b"".join(lines[:end]))


MISMATCHES: dict[str, Callable[[DiskStore], object]] = {
    "a bit of the state": lambda store: flip(kept_at(store), -100),
    "a bit of an event": lambda store: flip(kept_at(store), 1000),
    "half of it": lambda store: os.truncate(kept_at(store), 1200),
    "nothing of it": lambda store: os.truncate(kept_at(store), 0),
    "zeros": lambda store: kept_at(store).write_bytes(b"\0" * 4096),
    "another format": lambda store: rewrite_header(kept_at(store), format=2),
    "other code": lambda store: rewrite_header(kept_at(store), code="x"),
    "no cover": lambda store: rewrite_header(kept_at(store), cover=None),
    "a strange cover": lambda store: rewrite_header(kept_at(store), cover={"parts": 7}),
    "a shorter journal": cut_journal,
    "a directory": lambda store: put_directory(kept_at(store)),
}


def put_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0b11
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("what", MISMATCHES)
def test_at_any_mismatch_the_journal_is_folded_from_its_beginning(
    store: DiskStore, what: str
) -> None:
    writer = writing(store, matched(1))
    writer.write(matched(2))
    keep(store, writer)
    MISMATCHES[what](store)
    loaded = load_state(store.session)
    assert not read_from(loaded)
    assert loaded.state == folded(store.session)


def test_a_changed_byte_below_a_kept_state_is_damage_not_passed_over(
    store: DiskStore,
) -> None:
    keep(store, writing(store))
    flip(store.session.journal_part(1), 200)
    with pytest.raises(JournalDamaged):
        load_state(store.session)


def test_a_state_of_void_records_does_not_count(store: DiskStore) -> None:
    first = writing(store)
    late = first.draft(matched(1))
    first.state = fold(first.state, late)
    heir_lease, heir = store.acquire()
    store._leases[0].ours = True  # the deposed one does not know yet
    first.journal.append(late)
    keep(store, first)
    store._leases[0].ours = False
    events = Writer.first_events(_Stub(heir))
    records = _drafted(heir_lease.epoch, events, before=late[0].seq)
    heir.append(records)
    loaded = load_state(store.session)
    assert not read_from(loaded)
    assert "m1" not in loaded.state.matches


class _Stub(Writer):
    """Only what `first_events` asks for."""

    def __init__(self, journal: FileJournal) -> None:
        self.journal = journal


def _drafted(epoch: int, happened: list[Event], *, before: int) -> list[Recorded]:
    draft = Draft(SessionState(session="s", seq=before - 1), at(1.0), epoch)
    for event in happened:
        draft.emit(event)
    return draft.commit()


def test_a_plan_that_is_gone_is_refused_all_the_same(store: DiskStore) -> None:
    keep(store, writing(store))
    store.session.plan.unlink()
    with pytest.raises(JournalDamaged, match="plan"):
        load_state(store.session)


def test_whoever_asks_is_told_why_a_kept_state_does_not_count(
    store: DiskStore,
) -> None:
    keep(store, writing(store))
    rewrite_header(kept_at(store), code="x")
    chain = find_chain(store.session)
    with pytest.raises(Unfit, match="another version"):
        read_kept(kept_at(store), chain, journal.StoredPlans(store.session))


def test_without_sources_nothing_is_kept(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoexp_tui.storage.state_keeper.folding_code", lambda: "")
    keep(store, writing(store))
    assert store.session.state_caches() == []


def test_the_code_that_folds_has_a_digest() -> None:
    assert len(state_cache.folding_code()) == 64


# ------------------------------------------------------------------------------ kills
@pytest.mark.parametrize(
    "name", ["os.open", "write_all", "os.replace", "secrets.token_hex"]
)
def test_a_kill_at_any_step_of_keeping_loses_nothing(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    writer = writing(store)
    keep(store, writer)
    writer.write(matched(1))
    with monkeypatch.context() as killing:
        killing.setattr(f"autoexp_tui.storage.atomic.{name}", die)
        with pytest.raises(Died):
            writer.journal.keep(writer.state, last=True)
    loaded = load_state(store.session)
    assert read_from(loaded)
    assert loaded.state == folded(store.session)


def test_a_kept_state_torn_at_any_byte_counts_for_nothing(store: DiskStore) -> None:
    writer = writing(store)
    keep(store, writer)
    expected = folded(store.session)
    data = kept_at(store).read_bytes()
    for end in range(0, len(data), 37):
        kept_at(store).write_bytes(data[:end])
        loaded = load_state(store.session)
        assert not read_from(loaded)
        assert loaded.state == expected
