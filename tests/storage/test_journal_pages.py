"""Older records come a page at a time, backwards over lines and parts."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.storage.journal import list_earlier, read_session
from autoexp_tui.storage.session_dir import SessionDir, get_packed
from tests.storage.week_session import write_week


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


def test_a_page_from_the_midst_ends_before_the_record_asked_about(
    session: SessionDir,
) -> None:
    page = list_earlier(str(session.path), 120, 5)
    assert [record.seq for record in page] == [115, 116, 117, 118, 119]


def test_before_the_first_record_there_is_nothing(session: SessionDir) -> None:
    assert list_earlier(str(session.path), 1, 5) == []
    assert list_earlier("", 100, 5) == []


def test_a_packed_part_reads_as_before(session: SessionDir, tmp_path: Path) -> None:
    copy = SessionDir(tmp_path / "copy")
    copy.make()
    for part in session.list_parts():
        shutil.copy(session.get_part(*part), copy.get_part(*part))
    first = copy.get_part(1)
    get_packed(first).write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    page = list_earlier(str(copy.path), 120, 5)
    assert page == list_earlier(str(session.path), 120, 5)


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
