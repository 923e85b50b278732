"""A journal of many parts: what counts after kills, faults and take-overs amid them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.events.events import JournalRotated
from autoexp_tui.model.errors import (
    EnvironmentFailed,
    JournalDamaged,
    SessionOwned,
)
from autoexp_tui.model.event import Recorded
from autoexp_tui.storage.journal import JournalFollower, load_state, read_session
from autoexp_tui.storage.journal_writer import Rotation, pack_part
from autoexp_tui.storage.record_codec import encode_record
from autoexp_tui.storage.session_dir import get_packed
from tests.support.journal_contract import Writer, message

from .disk_session import KILLS, Died, DiskStore, die


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    made = DiskStore(tmp_path / "k7f2", monkeypatch)
    made.rotation = Rotation(records=3)
    return made


def part(store: DiskStore, epoch: int, segment: int = 0) -> Path:
    return store.session.get_part(epoch, segment)


def counting(store: DiskStore) -> list[Recorded]:
    return list(read_session(store.session))


def due(writer: Writer) -> JournalRotated:
    rotated = writer.journal.rotation()
    assert rotated is not None
    return rotated


def long_campaign(store: DiskStore, parts: int) -> tuple[Writer, list[Recorded]]:
    """An engine that went on in `parts` further parts, and what it wrote."""
    writer = Writer(store)
    written = writer.begin()
    for number in range(parts):
        written += writer.write(message(f"{number}a"), message(f"{number}b"))
        written += writer.write(due(writer))
    return writer, written


# --------------------------------------------------------------------- further parts
def test_a_journal_of_many_parts_is_read_in_order(store: DiskStore) -> None:
    _, written = long_campaign(store, 4)
    assert store.session.list_parts() == [(1, number) for number in range(5)]
    assert counting(store) == written


def test_a_part_is_long_by_its_records(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    assert writer.journal.rotation() is None
    writer.write(message("third"))
    assert due(writer).sealed_part == "journal.1.jsonl"


def test_a_part_is_long_by_its_bytes(store: DiskStore) -> None:
    store.rotation = Rotation(bytes=1000)
    writer = Writer(store)
    writer.begin()
    assert writer.journal.rotation() is None
    writer.write(message("x" * 1000))
    assert due(writer).sealed_bytes == part(store, 1).stat().st_size


def test_a_new_part_begins_its_count_anew(store: DiskStore) -> None:
    writer, _ = long_campaign(store, 1)
    assert writer.journal.rotation() is None


def test_a_rotation_that_seals_something_else_is_a_bug(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    wrong = JournalRotated(sealed_part="journal.1.jsonl", sealed_bytes=7)
    with pytest.raises(ValueError, match="seals"):
        writer.journal.append(writer.draft(wrong))


def test_a_rotation_that_the_disk_refused_is_tried_again(store: DiskStore) -> None:
    writer = Writer(store)
    written = writer.begin() + writer.write(message("x"))
    records = writer.draft(due(writer), message("in the new part"))
    for _ in range(2):
        store.refuse()
        with pytest.raises(EnvironmentFailed):
            writer.journal.append(records)
        assert counting(store) == written
    writer.journal.append(records)
    assert counting(store) == written + records


def test_a_successor_seals_the_newest_part(store: DiskStore) -> None:
    _, written = long_campaign(store, 2)
    heir = Writer(store)
    assert heir.journal.seal.part == "journal.1.2.jsonl"
    assert counting(store) + heir.begin() == counting(store)
    assert counting(store)[: len(written)] == written


def test_a_missing_part_in_between_is_refused(store: DiskStore) -> None:
    long_campaign(store, 3)
    part(store, 1, 2).unlink()
    with pytest.raises(JournalDamaged, match=r"'journal\.1\.2\.jsonl', is missing"):
        counting(store)


def test_the_newest_part_has_a_name_that_stays(store: DiskStore) -> None:
    long_campaign(store, 2)
    assert store.session.journal.resolve() == part(store, 1, 2).resolve()


# ------------------------------------------------------------------ kills, deposition
@pytest.mark.parametrize("step", KILLS)
def test_a_kill_at_any_step_of_a_rotation_loses_nothing(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    victim, written = long_campaign(store, 1)
    written += victim.write(message("c"), message("d"))
    records = victim.draft(due(victim), message("of the victim"))
    name, replacement = KILLS[step]
    with monkeypatch.context() as killing:
        killing.setattr(f"autoexp_tui.storage.journal_writer.{name}", replacement)
        with pytest.raises(Died):
            victim.journal.append(records)
    heir = Writer(store)
    heir.begin()
    last = heir.write(message("of the heir"))
    found = counting(store)
    assert found[: len(written)] == written
    assert found[-1:] == last


def test_a_kill_at_every_byte_of_a_new_part_leaves_its_commit_or_nothing(
    store: DiskStore,
) -> None:
    writer = Writer(store)
    before = writer.begin() + writer.write(message("x"))
    added = writer.write(due(writer), message("y"))
    data = part(store, 1, 1).read_bytes()
    for end in range(len(data) + 1):
        part(store, 1, 1).write_bytes(data[:end])
        whole = end == len(data)
        assert counting(store) == (before + added if whole else before)


def test_the_rotation_of_a_deposed_engine_is_void(store: DiskStore) -> None:
    first = Writer(store)
    before = first.begin() + first.write(message("x"))
    late = first.draft(due(first), message("late"))
    heir = Writer(store)
    after = heir.begin()
    with pytest.raises(SessionOwned):
        first.journal.append(late)
    notices: list[str] = []
    assert list(read_session(store.session, notices)) == before + after
    assert any("journal.1.1.jsonl" in line for line in notices)


# ------------------------------------------------------------------------- packing
def pack_all(store: DiskStore) -> None:
    while store.pool.step():
        pass


def test_a_finished_part_is_packed_and_reads_as_before(store: DiskStore) -> None:
    _, written = long_campaign(store, 2)
    plain = [part(store, 1, number).read_bytes() for number in range(2)]
    pack_all(store)
    assert [part(store, 1, number).exists() for number in range(3)] == [
        False,
        False,
        True,
    ]
    files = [get_packed(part(store, 1, number)) for number in range(2)]
    assert [gzip.decompress(file.read_bytes()) for file in files] == plain
    assert counting(store) == written


def test_a_packed_part_is_private(store: DiskStore) -> None:
    long_campaign(store, 1)
    pack_all(store)
    assert get_packed(part(store, 1)).stat().st_mode & 0o777 == 0o600


def test_equal_parts_are_equal_when_packed(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("journal.1.jsonl", "journal.2.jsonl")]
    for file in files:
        file.write_bytes(b"x" * 1000)
        pack_part(file, 1000)
    one, other = (get_packed(file).read_bytes() for file in files)
    assert one == other


PACKING = {
    "os.open": "not begun",
    "os.fsync": "not synced",
    "_require_length": "not read back",
    "os.replace": "without its name",
    "sync_directory": "with its name, not durable",
    "Path.unlink": "both there",
}


@pytest.mark.parametrize("name", PACKING)
def test_a_kill_at_any_step_of_packing_loses_nothing(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _, written = long_campaign(store, 1)
    length = part(store, 1).stat().st_size
    with monkeypatch.context() as killing:
        killing.setattr(f"autoexp_tui.storage.journal_writer.{name}", die)
        with pytest.raises(Died):
            pack_part(part(store, 1), length)
    assert counting(store) == written
    pack_part(part(store, 1), length)
    assert counting(store) == written
    assert not part(store, 1).exists()


def test_a_pack_that_does_not_come_back_leaves_the_part(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, written = long_campaign(store, 1)
    fsync = os.fsync

    def spoil(descriptor: int) -> None:
        fsync(descriptor)
        os.pwrite(descriptor, b"\0\0\0\0", 40)

    monkeypatch.setattr("autoexp_tui.storage.journal_writer.os.fsync", spoil)
    pack_all(store)
    assert not get_packed(part(store, 1)).exists()
    assert counting(store) == written
    assert "journal.1.jsonl" in store.faults[0]


def test_a_part_that_lost_bytes_is_not_packed(store: DiskStore) -> None:
    long_campaign(store, 1)
    length = part(store, 1).stat().st_size
    os.truncate(part(store, 1), length - 10)
    with pytest.raises(JournalDamaged, match=f"the {length} bytes"):
        pack_part(part(store, 1), length)
    assert [path.name for path in store.session.path.glob(".*tmp")] == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:40] + b"\0\0\0\0" + data[44:],
        lambda _data: b"oh no",
        lambda _data: b"",
    ],
)
def test_a_damaged_pack_is_refused_by_name(
    store: DiskStore, damage: Callable[[bytes], bytes]
) -> None:
    long_campaign(store, 1)
    pack_all(store)
    file = get_packed(part(store, 1))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(JournalDamaged, match=r"journal\.1\.jsonl") as caught:
        counting(store)
    assert "copy" in caught.value.hint


# ----------------------------------------------------------------------- following
def test_a_follower_goes_on_over_rotations(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    follower = JournalFollower(store.session, load_state(store.session))
    expected = writer.write(message("a"))
    assert follower.poll() == expected
    expected = writer.write(message("b"))
    for number in range(3):
        expected += writer.write(due(writer), message(f"{number}"), message("x"))
    assert follower.poll() == expected


def test_a_follower_amid_a_part_that_was_packed_goes_on(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    follower = JournalFollower(store.session, load_state(store.session))
    expected = writer.write(message("a"))
    expected += writer.write(due(writer), message("b"))
    pack_all(store)
    assert follower.poll() == expected


def test_a_follower_waits_for_the_first_commit_of_a_part(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    writer.write(message("a"))
    follower = JournalFollower(store.session, load_state(store.session))
    records = writer.draft(due(writer), message("b"))
    lines = [encode_record(record) for record in records]
    part(store, 1, 1).write_bytes(lines[0])
    assert follower.poll() == []
    part(store, 1, 1).write_bytes(b"".join(lines))
    assert follower.poll() == records
