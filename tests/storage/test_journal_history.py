"""Records kept small are the records that were put in."""

from __future__ import annotations

from autoexp_tui.storage.journal_history import BLOCK, OPEN_BLOCKS, PackedHistory
from tests.support.week import week

RECORDS = week(31, note_seconds=300, slots=4).records


def packed() -> PackedHistory:
    history = PackedHistory()
    for record in RECORDS:
        history.add(record)
    return history


def test_any_stretch_is_what_was_put_in() -> None:
    history = packed()
    assert len(RECORDS) > 3 * BLOCK
    for start, stop in ((0, 5), (BLOCK - 2, BLOCK + 2), (300, 300), (7, len(RECORDS))):
        assert tuple(history.between(start, stop)) == RECORDS[start:stop]


def test_what_lies_outside_is_nothing() -> None:
    history = packed()
    assert len(history.between(len(RECORDS) - 2, len(RECORDS) + 50)) == 2
    assert history.between(-5, 1) == [RECORDS[0]]


def test_times_and_commits_need_no_record_to_be_opened() -> None:
    history = packed()
    assert list(history.times) == [record.t for record in RECORDS]
    found = [history.ends_commit(place) for place in range(len(RECORDS))]
    assert found == [not record.more for record in RECORDS]
    assert not history._open


def test_few_blocks_stay_open() -> None:
    history = packed()
    for start in range(0, len(RECORDS), BLOCK):
        history.between(start, start + 1)
    assert len(history._open) <= OPEN_BLOCKS
