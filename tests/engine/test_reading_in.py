"""A replay is there before its journal is read: the rest comes in behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

import pytest

from autoexp_tui.engine.journal_loading import ReadingIn
from autoexp_tui.engine.replay import Playing, ReplayHandle
from autoexp_tui.engine.replay_buffer import ListedHistory, Reel
from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.verdicts import why
from autoexp_tui.testing.clock import ManualClock
from tests.engine.test_reel import reel_of, small
from tests.engine.test_replay import Ear, playback
from tests.support.week import SHA

FIRST = 40
"""Records that are read before anything is shown, and on to the end of a commit."""


def begun() -> tuple[Reel, Sequence[Recorded]]:
    """A reel with the beginning of a journal, and the rest of that."""
    records = small().records
    reel = Reel(ListedHistory(), {SHA: small().plan}, interval=16)
    count = FIRST
    while records[count - 1].more:
        count += 1
    for record in records[:count]:
        reel.take_in(record)
    reel.expect(len(records), records[-1].t)
    return reel, records[count:]


def shown(reel: Reel, position: int) -> tuple[object, ...]:
    reel.seek(position)
    snapshot = reel.snapshot(0.0, 1.0, playing=False)
    return snapshot.seq, snapshot.jobs, snapshot.warnings, snapshot.pending


def read_all(reel: Reel, rest: Iterable[Recorded], portion: int = 7) -> ReadingIn:
    reading = ReadingIn(reel, rest)
    while reading.going_on:
        reading.go_on(portion)
    return reading


def test_it_stands_where_it_stands_while_more_is_read() -> None:
    reel, rest = begun()
    reel.seek(5)
    read_all(reel, rest)
    assert reel.position == 5


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_what_was_read_behind_is_shown_as_what_was_read_at_once(share: float) -> None:
    reel, rest = begun()
    read_all(reel, rest)
    whole = reel_of(small())
    position = int(share * len(whole))
    assert shown(reel, position) == shown(whole, position)


def test_its_time_reaches_to_the_journal_s_end_from_the_first() -> None:
    reel, _ = begun()
    assert reel.end == small().records[-1].t
    assert reel.read_until < reel.end


def test_a_portion_ends_with_a_commit() -> None:
    reel, rest = begun()
    reading = ReadingIn(reel, rest)
    ends = []
    while reading.going_on:
        reading.go_on(1)
        ends.append(reel.history.ends_commit(len(reel) - 1))
    assert all(ends)


def test_a_jump_to_what_is_not_read_comes_as_soon_as_it_is() -> None:
    reel, rest = begun()
    machine = Playing(reel, speed=1.0, playing=False, now=0.0)
    machine.jump(reel.end, 0.0)
    assert machine.at == reel.begin
    read_all(reel, rest)
    assert machine.tick(1.0)
    assert (machine.at, reel.position) == (reel.end, len(small().records))


def test_it_plays_no_further_than_was_read() -> None:
    reel, _ = begun()
    machine = Playing(reel, speed=inf, playing=True, now=0.0)
    machine.tick(1e6)
    assert machine.at == reel.read_until
    assert machine.playing


def test_damage_further_on_is_told_and_what_comes_before_is_shown() -> None:
    def damaged() -> Iterable[Recorded]:
        yield from rest[:10]
        raise JournalDamaged("no record", "journal.jsonl")

    reel, rest = begun()
    reading = read_all(reel, damaged())
    assert "journal.jsonl" in reading.problem
    assert reel.end == reel.read_until


def test_a_record_that_does_not_follow_is_told() -> None:
    reel, rest = begun()
    explained = events.WaitExplained(job="nobody", why=why("stopped"))
    reading = read_all(reel, [replace(rest[0], event=explained)])
    assert "does not follow" in reading.problem


def test_it_says_how_far_it_has_read_and_then_nothing() -> None:
    reel, rest = begun()
    assert ReadingIn(reel, rest).words.startswith("reading the journal: ")
    assert read_all(reel, rest).words == ""


def test_the_handle_reads_on_and_shows_what_was_wished_meanwhile() -> None:
    reel, rest = begun()
    ear = Ear()
    handle = ReplayHandle(reel, ManualClock(0.0), playing=False, rest=rest)
    handle.subscribe(ear)
    handle.jump(small().records[-1].t)
    ear.until_at(small().records[-1].t)
    assert playback(handle.snapshot()).position == len(small().records)
    handle.close()
