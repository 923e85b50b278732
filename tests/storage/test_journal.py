"""The journal on disk: what counts after faults, kills, take-overs and damage."""

from __future__ import annotations

import gzip
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.events.events import JournalRotated
from autoexp_tui.events.jobs import JobEnded, JobReplanned
from autoexp_tui.events.session import EngineStarted
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    JournalDamaged,
    SessionOwned,
)
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.states import JobState, why
from autoexp_tui.storage.atomic import sync_data
from autoexp_tui.storage.journal import (
    encode_record,
    list_earlier,
    load_state,
    read_session,
)
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.live_sink import JournalFollower
from autoexp_tui.storage.session_dir import SessionDir, get_packed
from autoexp_tui.storage.sessions import require_removable
from tests.model.builders import job
from tests.support.journal_contract import JournalContract, Store, Writer, message

from .disk_session import KILLS, SYNC, Died, DiskStore, FixedLease, failing, mode
from .week_session import write_week
from .whole_session import WholeSession


class TestFileJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _place(self, store: DiskStore) -> None:
        self._store = store

    def new_store(self) -> Store:
        return self._store


def texts(records: list[Recorded]) -> list[str]:
    return [getattr(record.event, "text", "") for record in records]


def begun(store: DiskStore, *more: str) -> tuple[Writer, list[Recorded]]:
    writer = Writer(store)
    return writer, writer.begin() + writer.write(*map(message, more))


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


# ------------------------------------------------------------------------ writing
def test_a_commit_is_one_write_and_one_sync_to_a_private_part(store: DiskStore) -> None:
    Writer(store)
    assert store.session.list_parts() == []  # opening writes nothing
    begun(store)
    writer, _ = begun(store)
    assert store.session.journal.resolve() == store.part(3).resolve()
    assert mode(store.part(3)) == 0o600
    calls: list[str] = []
    real = os.pwrite

    def write(descriptor: int, data: bytes, offset: int) -> int:
        calls.append("write")
        return real(descriptor, data, offset)

    store.patch.setattr(os, "pwrite", write)
    store.patch.setattr(SYNC, lambda _descriptor: calls.append("sync"))
    writer.journal.append(writer.draft(*(message(str(n)) for n in range(100))))
    assert calls == ["write", "sync"]


def test_two_journals_under_one_lease_and_one_whose_directory_is_gone_are_refused(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    records = writer.draft(*writer.first_events())
    again = FileJournal(store.session, FixedLease(1))
    before = writer.begin()
    with pytest.raises(EnvironmentFailed, match="written already"):
        again.append(records)
    path = store.session.path
    path.rename(path.with_name("gone"))
    with pytest.raises(EnvironmentFailed, match="The directory is gone"):
        writer.write(message("lost"))
    path.with_name("gone").rename(path)
    aside = store.part().rename(path / "aside")
    store.part().touch()  # another file lies in its place
    with pytest.raises(EnvironmentFailed, match=r"journal\.1\.jsonl"):
        writer.write(message("lost"))
    aside.rename(store.part())
    assert before + writer.write(message("kept")) == store.records()


def test_what_a_full_disk_cut_short_is_cut_back_and_written_when_there_is_room(
    store: DiskStore,
) -> None:
    writer, before = begun(store)
    size, limit = store.part().stat().st_size, resource.RLIMIT_FSIZE
    records = writer.draft(*(message("x" * 100) for _ in range(5)))
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (size + 300, hard))
    try:
        with pytest.raises(EnvironmentFailed, match=r"journal\.1\.jsonl"):
            writer.journal.append(records)
    finally:
        resource.setrlimit(limit, (soft, hard))
    assert store.part().stat().st_size == size
    writer.journal.append(records)
    assert store.records() == before + records


@pytest.mark.parametrize(
    ("fails", "is_begun"),
    [
        ((SYNC, "os.ftruncate"), True),  # the cut is made up before the next append
        (("tests.storage.disk_session.FixedLease.is_held",), True),
        (("autoexp_tui.storage.journal_writer.sync_directory",), False),
    ],
    ids=["its cut fails too", "the lease cannot be asked", "no sync of the directory"],
)
def test_an_append_that_failed_is_written_when_it_is_tried_again(
    store: DiskStore, fails: tuple[str, ...], *, is_begun: bool
) -> None:
    writer = Writer(store)
    before = writer.begin() if is_begun else []
    longer = [message("a much longer line")] if is_begun else writer.first_events()
    records = writer.draft(*longer)
    with store.patch.context() as broken:
        for name in fails:
            broken.setattr(name, failing())
        with pytest.raises(EnvironmentFailed):
            writer.journal.append(records)
    if is_begun:
        records = writer.draft(message("short"))
    writer.journal.append(records)
    assert store.records() == before + records


# ----------------------------------------------------------------- dying and deposed
@pytest.mark.parametrize("torn", [b'{"v":1,"seq":3,', b"\0" * 4096, 2])
def test_a_torn_line_is_dropped_with_a_notice(
    store: DiskStore, torn: bytes | int
) -> None:
    """Or so many records of a commit that was torn between two of its records."""
    writer, before = begun(store)
    size = store.part().stat().st_size
    records = writer.draft(*(message("x") for _ in range(3)))
    store.add(*([torn] if isinstance(torn, bytes) else records[:torn]))
    heir = FileJournal(store.session, FixedLease(2))
    assert (heir.seal.part, heir.seal.bytes) == ("journal.1.jsonl", size)
    sealed, loaded = heir.load(), load_state(store.session)
    assert list(sealed.events) == list(loaded.events) == before == store.records()
    assert loaded.position.offset == size
    torn_off = store.part().stat().st_size - size
    assert heir.torn == f"dropped {torn_off} bytes of an unfinished commit"
    if not isinstance(torn, bytes):
        store.add(records[2])
        assert load_state(store.session).position.seq == records[-1].seq


@pytest.mark.parametrize("fails", [False, True])
def test_an_engine_deposed_amid_its_append_is_told_and_cuts_nothing(
    store: DiskStore, *, fails: bool
) -> None:
    first, before = begun(store)
    after: list[Recorded] = []

    def taken_over(descriptor: int) -> None:
        store.patch.setattr(SYNC, sync_data)
        sync_data(descriptor)
        after.extend(Writer(store).begin())
        if fails:
            failing()()

    records = first.draft(message("x"))
    store.patch.setattr(SYNC, taken_over)
    for _ in range(2):  # each time
        with pytest.raises(SessionOwned):
            first.journal.append(records)
    # It was on disk when the successor sealed the part: for that one it counts.
    assert store.records() == before + records + after


@pytest.mark.parametrize("step", KILLS)
@pytest.mark.parametrize(("is_begun", "kills"), [(False, 1), (True, 1), (True, 2)])
def test_a_kill_at_any_step_of_a_take_over_loses_nothing(
    store: DiskStore, step: str, kills: int, *, is_begun: bool
) -> None:
    before = Writer(store).begin() if is_begun else []
    for _ in range(kills):
        victim = Writer(store)
        records = victim.draft(*victim.first_events(), message("of the victim"))
        name, replacement = KILLS[step]
        with store.patch.context() as killing:
            killing.setattr(f"autoexp_tui.storage.journal_writer.{name}", replacement)
            with pytest.raises(Died):
                victim.journal.append(records)
    begun(store, "of the heir")
    found = store.records()
    assert found[: len(before)] == before
    assert texts(found)[-1] == "of the heir"
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert store.load().session == "s"


def test_a_kill_at_every_byte_of_a_commit_leaves_all_of_it_or_nothing(
    store: DiskStore,
) -> None:
    writer, before = begun(store)
    size = store.part().stat().st_size
    added = writer.write(message("a"), message("b"))
    data = store.part().read_bytes()
    for end in range(size, len(data) + 1):
        store.part().write_bytes(data[:end])
        whole = end == len(data)
        assert store.records() == (before + added if whole else before)


# ------------------------------------------------------------------------- damage
def damaged(store: DiskStore) -> JournalDamaged:
    with pytest.raises(JournalDamaged) as caught:
        load_state(store.session)
    assert caught.value.exit_code == 5
    assert caught.value.hint
    return caught.value


def test_damage_in_the_midst_is_refused_with_line_byte_and_remedy(
    store: DiskStore,
) -> None:
    writer, _ = begun(store, "1", "2")
    part, lines = store.part(), lines_of(store.part())
    part.write_bytes(lines[0] + b"oh no\n" + lines[1])
    error = damaged(store)
    assert f"journal.1.jsonl, line 2 (byte {len(lines[0])})" in error.where
    assert "autoexp-sessions check k7f2 --repair" in error.hint
    part.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert "record 4 of epoch 1 stands where record 3" in str(damaged(store))
    part.write_bytes(b"".join(lines))
    (first,) = writer.draft(message("x"))
    ended = JobEnded(job="nobody", state=JobState.COMPLETED)
    store.add(replace(first, event=ended))
    assert "JobEnded" in damaged(store).problem
    part.unlink()
    part.mkdir()
    with pytest.raises(EnvironmentFailed, match=r"journal\.1\.jsonl"):
        load_state(store.session)


def test_an_empty_journal_of_jobs_that_ran_is_refused_and_not_removed(
    tmp_path: Path,
) -> None:
    never_ran, made = WholeSession(tmp_path / "m3x9"), WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    for one in (never_ran, made):
        one.leave()
        one.session.get_part(1).write_bytes(b"")
    assert load_state(never_ran.session).state.plan is None
    with pytest.raises(JournalDamaged, match="jobs have run: a"):
        load_state(made.session)
    with pytest.raises(AutoexpError):
        require_removable(made.session)


# ---------------------------------------------------------------------- following
def test_a_follower_sees_whole_commits_from_the_first_over_all_take_overs(
    store: DiskStore,
) -> None:
    follower = store.follow()
    assert follower.poll() == []
    writer, written = begun(store)
    assert follower.poll() == written
    records = writer.draft(message("1"), message("2"))
    first, second = map(encode_record, records)
    for data in (first[:20], first[20:], second[:20]):
        store.add(data)
        assert follower.poll() == []
    store.add(second[20:])
    assert follower.poll() == records
    assert list(load_state(store.session, tail=3).events) == [written[-1], *records]
    store.part(2).write_bytes(b'{"v":1')  # of an engine that never began
    assert follower.poll() == []
    writer.state = store.load()
    records = writer.draft(message("3"))
    store.add(*records)
    assert follower.poll() == records
    store.part(2).unlink()
    expected = begun(store)[1] + begun(store, "3")[1]
    assert follower.poll() == expected
    store.patch.setattr(Path, "open", lambda *_args: pytest.fail("read while idle"))
    assert follower.poll() == []


def test_a_follower_that_read_void_bytes_says_so(store: DiskStore) -> None:
    first, _ = begun(store)
    _, second = store.acquire()
    late = first.draft(message("late"))
    store.add(*late)
    follower = store.follow()
    seal = {"sealed_part": second.seal.part, "sealed_bytes": second.seal.bytes}
    start = EngineStarted(host="h", pid=1, **seal)  # type: ignore[arg-type]
    second.append([replace(late[0], event=start, epoch=2)])
    assert follower.poll() is None


@pytest.mark.parametrize("another", [False, True])
def test_a_follower_notices_that_a_line_was_cut_back(
    store: DiskStore, *, another: bool
) -> None:
    writer, before = begun(store)
    size = store.part().stat().st_size
    refused, further = writer.draft(message("refused"), message("x"))
    refused = replace(refused, more=False)
    store.add(refused)
    follower = store.follow()
    os.truncate(store.part(), size)
    if another:  # stands there now, as long as the first
        instead = replace(refused, event=message("instead"))
        store.add(instead, further)
        before += [instead, further]
    assert follower.poll() is None
    loaded = load_state(store.session)
    assert list(loaded.events) == before
    assert JournalFollower(store.session, loaded).poll() == []


# -------------------------------------------------------------------------- modes
@pytest.mark.parametrize(
    ("env", "closes"), [({"STEPS": "text"}, 0o640), ({"HF_TOKEN": "abcdef"}, 0o600)]
)
def test_a_part_for_the_group_is_closed_before_it_holds_a_secret(
    store: DiskStore, env: dict[str, str], closes: int
) -> None:
    store.session.path.chmod(0o2750)
    _, journal = store.acquire()
    replanned = JobReplanned(job="a", spec=job("a", env=env), why=why("x"))
    told: tuple[Event, ...] = (message("x"), replanned)
    modes = []
    for seq, event in enumerate(told, 1):
        journal.append(
            [Recorded(seq=seq, epoch=1, t=1.0, event_id=f"e{seq}", event=event)]
        )
        modes.append(mode(store.part()))
    assert modes == [0o640, closes]
    closed = any("closed to the group" in text for text in store.faults)
    assert closed == (closes == 0o600)


# ---------------------------------------------------------------------- pages back
def test_pages_lead_back_to_the_first_record(
    tmp_path: Path, session: SessionDir
) -> None:
    made, told = write_week(tmp_path, jobs=31, note_seconds=1800, slots=4)
    assert len(made.list_parts()) > 1
    whole = list(read_session(made))
    assert len(whole) == len(told.records)
    seq = whole[-1].seq + 1
    found: list[Recorded] = []
    while page := list_earlier(str(made.path), seq, 37):
        found = [*page, *found]
        seq = page[0].seq
    assert found == whole
    assert list_earlier("", 100, 5) == []
    lines = lines_of(made.get_part(1))[:50]
    session.get_part(1).write_bytes(b"".join(lines) + b'{"seq":51,"bad":1}\n')
    with pytest.raises(JournalDamaged, match=r"journal\.1\.jsonl"):
        list_earlier(str(session.path), 60, 5)


# --------------- of earlier versions: an engine's further parts, some compressed
def write_further_part(
    store: DiskStore, writer: Writer, segment: int
) -> list[Recorded]:
    """A part of engine 1 that seals the one before it, as earlier versions wrote it."""
    former = store.part(1, segment - 1)
    rotated = JournalRotated(
        sealed_part=former.name, sealed_bytes=former.stat().st_size
    )
    records = writer.draft(rotated, message(f"{segment}a"), message(f"{segment}b"))
    store.part(1, segment).write_bytes(b"".join(map(encode_record, records)))
    writer.state = store.load()
    return records


def pack(path: Path) -> None:
    get_packed(path).write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("packed", [0, 1, 3])
def test_old_parts_are_read_in_order_followed_and_sealed_by_the_next_engine(
    store: DiskStore, packed: int
) -> None:
    writer, written = begun(store, "first")
    follower = store.follow()
    followed = []
    for segment in (1, 2, 3):
        followed += write_further_part(store, writer, segment)
        if segment <= packed:
            pack(store.part(1, segment - 1))
    written += followed
    assert follower.poll() == followed
    if not packed:  # there twice, it counts once
        get_packed(store.part()).write_bytes(gzip.compress(store.part().read_bytes()))
    assert store.records() == written
    assert list_earlier(str(store.session.path), 6, 4) == written[1:5]
    heir = Writer(store)
    assert heir.journal.seal.part == "journal.1.3.jsonl"
    assert [*written, *heir.begin()] == store.records()
    store.part(1, 2).unlink(missing_ok=True)
    get_packed(store.part(1, 2)).unlink(missing_ok=True)
    with pytest.raises(JournalDamaged, match=r"'journal\.1\.2\.jsonl', is missing"):
        store.records()


def test_a_damaged_pack_is_refused_by_name(store: DiskStore) -> None:
    write_further_part(store, begun(store)[0], 1)
    pack(store.part())
    file = get_packed(store.part())
    data = file.read_bytes()
    half, other = data[: len(data) // 2], data[:40] + b"\0\0\0\0" + data[44:]
    for damaged in (half, other, b"oh no", b""):
        file.write_bytes(damaged)
        with pytest.raises(JournalDamaged, match=r"journal\.1\.jsonl") as caught:
            store.records()
        assert "copy" in caught.value.hint
