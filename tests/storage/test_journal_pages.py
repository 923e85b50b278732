"""Older records come a page at a time, backwards over lines and parts."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import BinaryIO

import pytest

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.storage import journal_pages
from autoexp_tui.storage.journal import read_session
from autoexp_tui.storage.journal_pages import EarlierRecords, lines_before
from autoexp_tui.storage.session_dir import SessionDir, packed
from tests.storage.week_session import write_week


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SessionDir:
    made, told = write_week(
        tmp_path_factory.mktemp("state"), jobs=31, note_seconds=1800, slots=4
    )
    assert len(made.journal_parts()) > 1
    assert len(list(read_session(made))) == len(told.records)
    return made


def test_pages_lead_back_to_the_first_record(session: SessionDir) -> None:
    whole = list(read_session(session))
    pages, seq = EarlierRecords(), whole[-1].seq + 1
    found: list[Recorded] = []
    while page := pages(str(session.path), seq, 37):
        found = [*page, *found]
        seq = page[0].seq
    assert found == whole


def test_a_page_from_the_midst_ends_before_the_record_asked_about(
    session: SessionDir,
) -> None:
    page = EarlierRecords()(str(session.path), 120, 5)
    assert [record.seq for record in page] == [115, 116, 117, 118, 119]


def test_before_the_first_record_there_is_nothing(session: SessionDir) -> None:
    assert EarlierRecords()(str(session.path), 1, 5) == ()
    assert EarlierRecords()("", 100, 5) == ()


def test_the_next_page_goes_on_where_the_last_began(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = EarlierRecords()
    last = list(read_session(session))[-1].seq
    page = pages(str(session.path), last + 1, 100)
    read: list[bytes] = []

    def counted(file: BinaryIO, stop: int) -> object:
        for offset, line in lines_before(file, stop):
            read.append(line)
            yield offset, line

    monkeypatch.setattr(journal_pages, "lines_before", counted)
    pages(str(session.path), page[0].seq, 10)
    assert len(read) == 10


@pytest.mark.parametrize("block", [7, 64, 1 << 18])
def test_lines_come_backwards_whatever_the_blocks(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_pages, "_BLOCK", block)
    data = b"".join(b"line %d\n" % n for n in range(40))
    path = tmp_path / "part"
    path.write_bytes(data + b"torn")
    with path.open("rb") as file:
        found = list(lines_before(file, len(data) + 4))
    assert b"".join(line for _, line in reversed(found)) == data
    assert all(data[at : at + len(line)] == line for at, line in found)


def test_a_packed_part_reads_as_before(session: SessionDir, tmp_path: Path) -> None:
    copy = SessionDir(tmp_path / "copy")
    copy.make()
    for part in session.journal_parts():
        shutil.copy(session.journal_part(*part), copy.journal_part(*part))
    first = copy.journal_part(1)
    packed(first).write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    page = EarlierRecords()(str(copy.path), 120, 5)
    assert page == EarlierRecords()(str(session.path), 120, 5)


def test_a_record_that_does_not_read_is_named(
    session: SessionDir, tmp_path: Path
) -> None:
    copy = SessionDir(tmp_path / "copy")
    copy.make()
    part = copy.journal_part(1)
    lines = session.journal_part(1).read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:50]) + b'{"seq":51,"bad":1}\n')
    with pytest.raises(JournalDamaged, match=r"journal\.1\.jsonl"):
        EarlierRecords()(str(copy.path), 60, 5)
