"""The journal on disk: what counts after faults, kills, take-overs and damage."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from autoexp_tui.events.jobs import JobEnded, JobReplanned
from autoexp_tui.events.session import EngineStarted, PlanAdded
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    JournalDamaged,
    SessionOwned,
)
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import JobState, why
from autoexp_tui.storage.atomic import sync_data
from autoexp_tui.storage.journal import (
    JournalFollower,
    list_earlier,
    load_state,
    read_session,
)
from autoexp_tui.storage.journal_parts import Part, find_seal
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.record_codec import decode_record, encode_record
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import require_removable
from tests.storage.week_session import write_week
from tests.storage.whole_session import WholeSession
from tests.support.journal_contract import (
    PLAN,
    JournalContract,
    Store,
    Writer,
    message,
)

from .disk_session import FULL, KILLS, SYNC, Died, DiskStore, FixedLease


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    return DiskStore(tmp_path / "k7f2", monkeypatch)


class TestFileJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _place(self, store: DiskStore) -> None:
        self._store = store

    def new_store(self) -> Store:
        return self._store


def part(store: DiskStore, epoch: int) -> Path:
    return store.session.get_part(epoch)


def texts(records: list[Recorded]) -> list[str]:
    return [getattr(record.event, "text", "") for record in records]


def counting(store: DiskStore) -> list[Recorded]:
    return list(read_session(store.session))


def append_bytes(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_the_current_part_is_private_and_has_a_name_that_stays(
    store: DiskStore,
) -> None:
    Writer(store).begin()
    Writer(store).begin()
    assert store.session.journal.resolve() == part(store, 2).resolve()
    assert part(store, 2).stat().st_mode & 0o777 == 0o600


def test_opening_a_journal_writes_nothing(store: DiskStore) -> None:
    Writer(store)
    assert store.session.list_parts() == []


def test_one_commit_is_one_write_and_one_sync(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(store)
    writer.begin()
    calls: list[str] = []
    real = os.pwrite

    def write(descriptor: int, data: bytes, offset: int) -> int:
        calls.append("write")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(SYNC, lambda _descriptor: calls.append("sync"))
    writer.journal.append(writer.draft(*(message(str(n)) for n in range(100))))
    assert calls == ["write", "sync"]


def test_two_journals_under_one_lease_are_refused(store: DiskStore) -> None:
    writer = Writer(store)
    records = writer.draft(*writer.first_events())
    again = FileJournal(store.session, FixedLease(1))
    writer.journal.append(records)
    with pytest.raises(EnvironmentFailed, match="written already"):
        again.append(records)


@pytest.fixture
def file_limit() -> Iterator[Callable[[int], None]]:
    """Sets how long a file of this process may be; put back at the end."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_nothing_counts_that_is_written_to_a_session_that_is_gone(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    writer.begin()
    path = store.session.path
    path.rename(path.with_name("gone"))
    with pytest.raises(EnvironmentFailed, match="The directory is gone"):
        writer.write(message("lost"))
    path.with_name("gone").rename(path)
    writer.write(message("kept"))
    assert texts(counting(store))[-1] == "kept"
    assert "lost" not in texts(counting(store))


def test_what_a_full_disk_cut_short_is_cut_back_and_written_when_there_is_room(
    store: DiskStore, file_limit: Callable[[int], None]
) -> None:
    writer = Writer(store)
    before = writer.begin()
    size = part(store, 1).stat().st_size
    file_limit(size + 300)
    records = writer.draft(*(message("x" * 100) for _ in range(5)))
    with pytest.raises(EnvironmentFailed, match=r"journal\.1\.jsonl"):
        writer.journal.append(records)
    assert part(store, 1).stat().st_size == size
    file_limit(1 << 30)
    writer.journal.append(records)
    assert counting(store) == before + records


def refuse(*_args: object) -> None:
    raise FULL


@pytest.mark.parametrize(
    ("fails", "begun"),
    [
        ((SYNC, "os.ftruncate"), True),  # the cut is made up before the next append
        (("tests.storage.disk_session.FixedLease.is_held",), True),
        (("autoexp_tui.storage.journal_writer.sync_directory",), False),
    ],
    ids=["its cut fails too", "the lease cannot be asked", "no sync of the directory"],
)
def test_an_append_that_failed_is_written_when_it_is_tried_again(
    store: DiskStore,
    monkeypatch: pytest.MonkeyPatch,
    fails: tuple[str, ...],
    *,
    begun: bool,
) -> None:
    writer = Writer(store)
    before = writer.begin() if begun else []
    longer = [message("a much longer line")] if begun else writer.first_events()
    records = writer.draft(*longer)
    with monkeypatch.context() as broken:
        for name in fails:
            broken.setattr(name, refuse)
        with pytest.raises(EnvironmentFailed):
            writer.journal.append(records)
    if begun:
        records = writer.draft(message("short"))
    writer.journal.append(records)
    assert counting(store) == before + records


@pytest.mark.parametrize("torn", [b'{"v":1,"seq":3,', b"\0" * 4096])
def test_a_torn_line_is_dropped_with_a_notice(store: DiskStore, torn: bytes) -> None:
    before = Writer(store).begin()
    size = part(store, 1).stat().st_size
    append_bytes(part(store, 1), torn)
    heir = FileJournal(store.session, FixedLease(2))
    assert (heir.seal.part, heir.seal.bytes) == ("journal.1.jsonl", size)
    loaded = heir.load()
    assert list(loaded.events) == before == counting(store)
    assert f"{len(torn)} bytes of an unfinished" in "".join(loaded.notices)


def test_late_bytes_of_a_deposed_engine_do_not_count(store: DiskStore) -> None:
    first = Writer(store)
    before = first.begin()
    late = first.draft(message("late"))
    second = Writer(store)
    after = second.begin()
    append_bytes(part(store, 1), b"".join(encode_record(record) for record in late))
    notices: list[str] = []
    assert list(read_session(store.session, notices)) == before + after
    assert any("no later part counts" in line for line in notices)


@pytest.mark.parametrize("fails", [False, True])
def test_an_engine_deposed_amid_its_append_is_told_and_cuts_nothing(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    first = Writer(store)
    before = first.begin()
    after: list[Recorded] = []

    def taken_over(descriptor: int) -> None:
        monkeypatch.setattr(SYNC, sync_data)
        sync_data(descriptor)
        after.extend(Writer(store).begin())
        if fails:
            raise FULL

    records = first.draft(message("x"))
    monkeypatch.setattr(SYNC, taken_over)
    with pytest.raises(SessionOwned):
        first.journal.append(records)
    # It was on disk when the successor sealed the part: for that one it counts.
    assert counting(store) == before + records + after


def test_a_deposed_engine_is_told_each_time(store: DiskStore) -> None:
    first = Writer(store)
    first.begin()
    Writer(store)
    for _ in range(2):
        with pytest.raises(SessionOwned):
            first.journal.append(first.draft(message("x")))


def test_an_engine_that_began_late_changes_nothing(store: DiskStore) -> None:
    first = Writer(store)
    before = first.begin()
    slow = Writer(store)
    late = slow.draft(*slow.first_events())
    third = Writer(store)
    after = third.begin()
    with pytest.raises(SessionOwned):
        slow.journal.append(late)
    assert counting(store) == before + after
    fourth = Writer(store)
    assert counting(store) + fourth.begin() == counting(store)


@pytest.mark.parametrize("step", KILLS)
@pytest.mark.parametrize("twice", [False, True])
def test_a_kill_at_any_step_of_a_take_over_loses_nothing(
    store: DiskStore,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    twice: bool,
) -> None:
    before = Writer(store).begin()
    for _ in range(1 + twice):
        victim = Writer(store)
        records = victim.draft(*victim.first_events(), message("of the victim"))
        name, replacement = KILLS[step]
        with monkeypatch.context() as killing:
            killing.setattr(f"autoexp_tui.storage.journal_writer.{name}", replacement)
            with pytest.raises(Died):
                victim.journal.append(records)
    heir = Writer(store)
    heir.begin()
    heir.write(message("of the heir"))
    found = counting(store)
    assert found[: len(before)] == before
    assert texts(found)[-1] == "of the heir"
    assert [record.seq for record in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("step", KILLS)
def test_a_kill_at_any_step_of_a_first_start_leaves_a_new_session(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    victim = Writer(store)
    records = victim.draft(*victim.first_events())
    name, replacement = KILLS[step]
    with monkeypatch.context() as killing:
        killing.setattr(f"autoexp_tui.storage.journal_writer.{name}", replacement)
        with pytest.raises(Died):
            victim.journal.append(records)
    heir = Writer(store)
    heir.begin()
    assert store.load().session == "s"


def test_a_kill_at_every_byte_of_a_commit_leaves_all_of_it_or_nothing(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    before = writer.begin()
    size = part(store, 1).stat().st_size
    added = writer.write(message("a"), message("b"))
    data = part(store, 1).read_bytes()
    for end in range(size, len(data) + 1):
        part(store, 1).write_bytes(data[:end])
        whole = end == len(data)
        assert counting(store) == (before + added if whole else before)


def damaged(store: DiskStore) -> JournalDamaged:
    with pytest.raises(JournalDamaged) as caught:
        load_state(store.session)
    assert caught.value.exit_code == 5
    assert caught.value.hint
    return caught.value


def test_damage_in_the_midst_is_refused_with_line_byte_and_remedy(
    store: DiskStore,
) -> None:
    Writer(store).begin()
    lines = part(store, 1).read_bytes().splitlines(keepends=True)
    part(store, 1).write_bytes(lines[0] + b"oh no\n" + lines[1])
    error = damaged(store)
    assert f"journal.1.jsonl, line 2 (byte {len(lines[0])})" in error.where
    assert "autoexp-sessions check k7f2 --repair" in error.hint


def test_a_missing_line_is_refused(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    writer.write(message("1"), message("2"))
    lines = part(store, 1).read_bytes().splitlines(keepends=True)
    part(store, 1).write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert "record 4 of epoch 1 stands where record 3" in str(damaged(store))


@pytest.mark.parametrize(
    "name", ["../journal.1.jsonl", "/etc/passwd", "journal.9.jsonl"]
)
def test_a_seal_names_only_an_older_part(store: DiskStore, name: str) -> None:
    Writer(store).begin()
    Writer(store).begin()
    lines = part(store, 2).read_bytes().splitlines(keepends=True)
    first = decode_record(lines[0])
    event = replace(cast(EngineStarted, first.event), sealed_part=name)
    part(store, 2).write_bytes(encode_record(replace(first, event=event)))
    assert "is missing" in damaged(store).problem


def test_an_event_that_does_not_follow_is_damage(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    (first,) = writer.draft(message("x"))
    ended = JobEnded(job="nobody", state=JobState.COMPLETED)
    writer.journal.append([replace(first, event=ended)])
    assert "JobEnded" in damaged(store).problem


def test_a_part_that_cannot_be_read_is_an_error_with_its_path(
    store: DiskStore,
) -> None:
    part(store, 1).mkdir()
    with pytest.raises(EnvironmentFailed, match=r"journal\.1\.jsonl"):
        load_state(store.session)


def test_a_lost_plan_is_refused_with_a_remedy(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    writer.write(PlanAdded(sha=writer.journal.add_plan(PLAN)))
    store.session.plan.unlink()
    assert "plan" in damaged(store).problem


def test_an_engine_loads_up_to_its_seal(store: DiskStore) -> None:
    first = Writer(store)
    before = first.begin()
    late = first.draft(message("late"))
    heir = FileJournal(store.session, FixedLease(2))
    append_bytes(part(store, 1), encode_record(late[0]))
    assert list(heir.load().events) == before


def test_only_the_newest_events_are_handed_out(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    newest = writer.write(*(message(str(number)) for number in range(10)))[-3:]
    assert list(load_state(store.session, tail=3).events) == newest


def follow(store: DiskStore) -> JournalFollower:
    return JournalFollower(store.session, load_state(store.session))


def test_a_follower_from_before_the_first_event_sees_all(store: DiskStore) -> None:
    follower = follow(store)
    assert follower.poll() == []
    written = Writer(store).begin()
    assert follower.poll() == written


def test_a_follower_waits_for_the_end_of_a_line_and_of_a_commit(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    writer.begin()
    follower = follow(store)
    records = writer.draft(message("1"), message("2"))
    first, second = (encode_record(record) for record in records)
    for data in (first[:20], first[20:], second[:20]):
        append_bytes(part(store, 1), data)
        assert follower.poll() == []
    append_bytes(part(store, 1), second[20:])
    assert follower.poll() == records
    assert follower.poll() == []


def test_a_follower_goes_on_over_take_overs(store: DiskStore) -> None:
    first = Writer(store)
    first.begin()
    follower = follow(store)
    expected = first.write(message("1"))
    expected += Writer(store).begin()
    third = Writer(store)
    expected += third.begin()
    expected += third.write(message("3"))
    assert follower.poll() == expected
    assert counting(store)[-len(expected) :] == expected


def test_a_follower_is_not_disturbed_by_an_engine_that_never_began(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    writer.begin()
    follower = follow(store)
    part(store, 2).write_bytes(b'{"v":1')
    added = writer.write(message("1"))
    assert follower.poll() == added


def test_a_follower_that_read_void_bytes_says_so(store: DiskStore) -> None:
    first = Writer(store)
    first.begin()
    _, second = store.acquire()
    late = first.draft(message("late"))
    append_bytes(part(store, 1), encode_record(late[0]))
    follower = follow(store)
    start = EngineStarted(
        host="h",
        pid=1,
        sealed_part=second.seal.part,
        sealed_bytes=second.seal.bytes,
    )
    second.append([replace(late[0], event=start, epoch=2)])
    assert follower.poll() is None


def test_a_follower_notices_another_line_where_one_was_cut_back(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    writer.begin()
    size = part(store, 1).stat().st_size
    refused, further = writer.draft(message("refused"), message("x"))
    refused = replace(refused, more=False)
    append_bytes(part(store, 1), encode_record(refused))
    follower = follow(store)
    os.truncate(part(store, 1), size)
    instead = replace(refused, event=message("instead"))
    for record in (instead, further):
        append_bytes(part(store, 1), encode_record(record))
    assert follower.poll() is None


def test_after_a_rewind_loading_anew_tells_the_truth(store: DiskStore) -> None:
    writer = Writer(store)
    before = writer.begin()
    size = part(store, 1).stat().st_size
    append_bytes(part(store, 1), encode_record(writer.draft(message("refused"))[0]))
    follower = follow(store)
    os.truncate(part(store, 1), size)
    assert follower.poll() is None
    loaded = load_state(store.session)
    assert list(loaded.events) == before
    assert JournalFollower(store.session, loaded).poll() == []


def test_an_idle_look_reads_no_journal(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(store).begin()
    follower = follow(store)
    opened: list[object] = []
    monkeypatch.setattr(Path, "open", lambda path, *_args: opened.append(path))
    assert follower.poll() == []
    assert opened == []


def test_a_commit_that_was_torn_between_two_of_its_records_does_not_count(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    writer.begin()
    path = part(store, 1)
    whole = path.stat().st_size
    records = writer.draft(*(message("x") for _ in range(3)))
    lines = [encode_record(record) for record in records]
    append_bytes(path, b"".join(lines[:2]))
    loaded = load_state(store.session)
    assert loaded.position.offset == whole
    assert "2 records of an unfinished commit" in loaded.notices[0]
    assert find_seal(Part(id=(1, 0), path=path)).bytes == whole
    append_bytes(path, lines[2])
    assert load_state(store.session).position.seq == records[-1].seq


def replanned(env: dict[str, str]) -> JobReplanned:
    spec = JobSpec(
        name="a", index=0, command=("x",), env=env, output_dir="/o", log_dir="/l"
    )
    return JobReplanned(job="a", spec=spec, why=why("x"))


@pytest.mark.parametrize(
    ("env", "mode"), [({"STEPS": "text"}, 0o640), ({"HF_TOKEN": "abcdef"}, 0o600)]
)
def test_a_part_for_the_group_is_closed_before_it_holds_a_secret(
    store: DiskStore, env: dict[str, str], mode: int
) -> None:
    store.session.path.chmod(0o2750)
    _, journal = store.acquire()
    told: tuple[Event, ...] = (message("x"), replanned(env))
    for seq, event in enumerate(told, 1):
        journal.append(
            [Recorded(seq=seq, epoch=1, t=1.0, event_id=f"e{seq}", event=event)]
        )
        if seq == 1:
            assert stat.S_IMODE(part(store, 1).stat().st_mode) == 0o640
    assert stat.S_IMODE(part(store, 1).stat().st_mode) == mode
    assert any("closed to the group" in text for text in store.faults) == (
        mode == 0o600
    )


def emptied(made: WholeSession) -> SessionDir:
    made.leave()
    for part in made.session.path.glob("journal.*.jsonl"):
        part.write_bytes(b"")
    return made.session


def test_an_empty_journal_of_jobs_that_ran_is_refused_and_not_removed(
    tmp_path: Path,
) -> None:
    made = WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    session = emptied(made)
    with pytest.raises(JournalDamaged, match="jobs have run: a"):
        load_state(session)
    with pytest.raises(AutoexpError):
        require_removable(session)


def test_a_session_in_which_nothing_ran_has_merely_not_begun(tmp_path: Path) -> None:
    session = emptied(WholeSession(tmp_path / "k7f2"))
    assert load_state(session).state.plan is None


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SessionDir:
    made, told = write_week(
        tmp_path_factory.mktemp("state"), jobs=31, note_seconds=1800, slots=4
    )
    assert len(made.list_parts()) > 1
    assert len(list(read_session(made))) == len(told.records)
    return made


def test_pages_lead_back_to_the_first_record(session: SessionDir) -> None:
    whole = list(read_session(session))
    seq = whole[-1].seq + 1
    found: list[Recorded] = []
    while page := list_earlier(str(session.path), seq, 37):
        found = [*page, *found]
        seq = page[0].seq
    assert found == whole
    assert list_earlier("", 100, 5) == []


def test_a_record_that_does_not_read_is_named(
    session: SessionDir, tmp_path: Path
) -> None:
    copy = SessionDir(tmp_path / "copy")
    copy.make()
    part = copy.get_part(1)
    lines = session.get_part(1).read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:50]) + b'{"seq":51,"bad":1}\n')
    with pytest.raises(JournalDamaged, match=r"journal\.1\.jsonl"):
        list_earlier(str(copy.path), 60, 5)
