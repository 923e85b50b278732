"""Journals of earlier versions: parts that one engine went on in, some compressed."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.events.events import JournalRotated
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.storage.journal import (
    JournalFollower,
    list_earlier,
    load_state,
    read_session,
)
from autoexp_tui.storage.record_codec import encode_record
from autoexp_tui.storage.session_dir import get_packed
from tests.support.journal_contract import Writer, message

from .disk_session import DiskStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    return DiskStore(tmp_path / "k7f2", monkeypatch)


def part(store: DiskStore, segment: int = 0) -> Path:
    return store.session.get_part(1, segment)


def write_further_part(
    store: DiskStore, writer: Writer, segment: int
) -> list[Recorded]:
    """A part of engine 1 that seals the one before it, as earlier versions wrote it."""
    former = part(store, segment - 1)
    rotated = JournalRotated(
        sealed_part=former.name, sealed_bytes=former.stat().st_size
    )
    records = writer.draft(rotated, message(f"{segment}a"), message(f"{segment}b"))
    part(store, segment).write_bytes(b"".join(map(encode_record, records)))
    writer.state = store.load()
    return records


def pack(path: Path) -> None:
    get_packed(path).write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def write_old(store: DiskStore, parts: int) -> list[Recorded]:
    writer = Writer(store)
    written = writer.begin() + writer.write(message("first"))
    for segment in range(1, parts):
        written += write_further_part(store, writer, segment)
    return written


@pytest.mark.parametrize("packed", [0, 1, 3])
def test_old_parts_are_read_in_order_and_sealed_by_the_next_engine(
    store: DiskStore, packed: int
) -> None:
    written = write_old(store, 4)
    for segment in range(packed):
        pack(part(store, segment))
    assert list(read_session(store.session)) == written
    assert list_earlier(str(store.session.path), 6, 4) == written[1:5]
    heir = Writer(store)
    assert heir.journal.seal.part == "journal.1.3.jsonl"
    written += heir.begin()
    assert list(read_session(store.session)) == written


def test_a_part_that_is_there_twice_counts_once(store: DiskStore) -> None:
    written = write_old(store, 2)
    get_packed(part(store)).write_bytes(gzip.compress(part(store).read_bytes()))
    assert list(read_session(store.session)) == written


def test_a_missing_part_in_between_is_refused(store: DiskStore) -> None:
    write_old(store, 4)
    part(store, 2).unlink()
    with pytest.raises(JournalDamaged, match=r"'journal\.1\.2\.jsonl', is missing"):
        list(read_session(store.session))


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
    write_old(store, 2)
    pack(part(store))
    file = get_packed(part(store))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(JournalDamaged, match=r"journal\.1\.jsonl") as caught:
        list(read_session(store.session))
    assert "copy" in caught.value.hint


def test_a_follower_goes_on_over_old_parts(store: DiskStore) -> None:
    writer = Writer(store)
    writer.begin()
    follower = JournalFollower(store.session, load_state(store.session))
    expected = writer.write(message("a"))
    expected += write_further_part(store, writer, 1)
    pack(part(store))
    expected += write_further_part(store, writer, 2)
    assert follower.poll() == expected
