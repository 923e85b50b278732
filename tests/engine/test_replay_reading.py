"""A replay is there before its journal is read: the rest comes in behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from math import inf

import pytest

from autoexp_tui.engine.replay import ReplayHandle, ReplayPlayer
from autoexp_tui.engine.replay_buffer import ReplayBuffer
from autoexp_tui.events import events
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.states import why
from autoexp_tui.testing.clock import ManualClock
from tests.engine.test_replay import Ear, playback
from tests.engine.test_replay_buffer import buffer_of, small
from tests.support.week import SHA

FIRST = 40
"""Records that are read before anything is shown, and on to the end of a commit."""


def begun(rest: Iterable[Recorded] | None = None) -> ReplayBuffer:
    """A buffer with the beginning of a journal read; `rest`: what follows there."""
    records = small().records
    place = begins_rest()
    given = records[place:] if rest is None else rest
    buffer = ReplayBuffer(
        chain(records[:place], given), {SHA: small().plan}, interval=16
    )
    buffer.read(FIRST)
    buffer.expected = (len(records), records[-1].t)
    return buffer


def begins_rest() -> int:
    count = FIRST
    while small().records[count - 1].more:
        count += 1
    return count


def shown(buffer: ReplayBuffer, position: int) -> tuple[object, ...]:
    buffer.seek(position)
    snapshot = buffer.snapshot(0.0, 1.0, playing=False)
    return snapshot.seq, snapshot.jobs, snapshot.warnings, snapshot.pending


def read_all(buffer: ReplayBuffer, portion: int = 7) -> None:
    while buffer.reading:
        buffer.read_on(portion)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_what_was_read_behind_is_shown_as_what_was_read_at_once(share: float) -> None:
    buffer = begun()
    read_all(buffer)
    whole = buffer_of(small())
    position = int(share * len(whole))
    assert shown(buffer, position) == shown(whole, position)


def test_its_time_reaches_to_the_journal_s_end_from_the_first() -> None:
    buffer = begun()
    assert buffer.end == small().records[-1].t
    assert buffer.read_until < buffer.end


def test_a_portion_ends_with_a_commit() -> None:
    buffer = begun()
    ends = []
    while buffer.reading:
        buffer.read_on(1)
        ends.append(not buffer.records[-1].more)
    assert all(ends)


def test_a_jump_to_what_is_not_read_comes_as_soon_as_it_is() -> None:
    buffer = begun()
    machine = ReplayPlayer(buffer, speed=1.0, playing=False, now=0.0)
    machine.jump(buffer.end, 0.0)
    assert machine.at == buffer.begin
    read_all(buffer)
    assert machine.tick(1.0)
    assert (machine.at, buffer.position) == (buffer.end, len(small().records))


def test_it_plays_no_further_than_was_read() -> None:
    buffer = begun()
    machine = ReplayPlayer(buffer, speed=inf, playing=True, now=0.0)
    machine.tick(1e6)
    assert machine.at == buffer.read_until
    assert machine.playing


def test_damage_further_on_is_told_and_what_comes_before_is_shown() -> None:
    def damaged() -> Iterator[Recorded]:
        yield from small().records[begins_rest() :][:10]
        raise JournalDamaged("no record", "journal.jsonl")

    buffer = begun(damaged())
    read_all(buffer)
    assert "journal.jsonl" in buffer.problem
    assert buffer.end == buffer.read_until


def test_a_record_that_does_not_follow_is_told() -> None:
    explained = events.WaitExplained(job="nobody", why=why("stopped"))
    buffer = begun([replace(small().records[begins_rest()], event=explained)])
    read_all(buffer)
    assert "does not follow" in buffer.problem


def test_it_says_how_far_it_has_read_and_then_nothing() -> None:
    def doing() -> str:
        return buffer.snapshot(0.0, 1.0, playing=False).engine.doing

    buffer = begun()
    assert doing().startswith("reading the journal: ")
    read_all(buffer)
    assert doing() == ""


def test_the_handle_reads_on_and_shows_what_was_wished_meanwhile() -> None:
    buffer = begun()
    ear = Ear()
    handle = ReplayHandle(buffer, ManualClock(0.0), playing=False)
    handle.subscribe(ear)
    handle.play("jump", small().records[-1].t)
    ear.until_at(small().records[-1].t)
    assert playback(handle.snapshot()).position == len(small().records)
    handle.close()
