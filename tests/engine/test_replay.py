"""A journal is shown as of any moment, quickly from any other, before it is read; a
replay plays it in its own time or any other, stands, steps and jumps."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.engine import replay
from autoexp_tui.engine.replay import (
    FASTEST,
    MOST,
    MOST_POINTS,
    ReplayBuffer,
    ReplayHandle,
    ReplayPlayer,
)
from autoexp_tui.events import events
from autoexp_tui.model.commands import Pause
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Recorded, apply
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState, why
from autoexp_tui.testing.clock import ManualClock
from tests.support.week import SHA, Week, week

FIRST = 40
"""Records that are read before anything is shown, and on to the end of a commit."""


@cache
def small() -> Week:
    return week(31, note_seconds=1800, slots=4)


def read_all(records: Sequence[Recorded], interval: int = 64) -> ReplayBuffer:
    buffer = ReplayBuffer(records, {SHA: small().plan}, interval=interval)
    buffer.read(len(records) + 1)
    return buffer


@cache
def whole() -> ReplayBuffer:
    return read_all(small().records)


def show(buffer: ReplayBuffer, position: int, at: float = 0.0) -> Snapshot:
    buffer.seek(position)
    return buffer.snapshot(at, 1.0, playing=False)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_every_position_shows_the_fold_up_to_there(places: list[int]) -> None:
    for place in (10, len(whole()), 10, *places):
        position = place % (len(whole()) + 1)
        shown = show(whole(), position)
        state = SessionState(plans={SHA: small().plan})
        for record in small().records[:position]:
            apply(state, record)
        assert shown.jobs == tuple(state.jobs[name] for name in state.order)
        assert shown.warnings == tuple(state.warnings.values())
        assert (shown.seq, shown.paused) == (state.seq, state.paused)


def test_a_jump_folds_no_more_than_an_interval_and_keyframes_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folds: list[Recorded] = []

    def counted(state: SessionState, record: Recorded) -> None:
        folds.append(record)
        apply(state, record)

    shown = read_all(small().records, interval=32)
    with monkeypatch.context() as patched:
        patched.setattr(replay, "apply", counted)
        for position in (len(shown), 200, 55, 199):
            folds.clear()
            shown.seek(position)
            assert len(folds) < 64
    assert len(read_all(small().records, interval=1)._keyframes) <= MOST


def test_a_moment_and_a_step_show_whole_commits() -> None:
    records = small().records
    place = next(n for n, record in enumerate(records) if record.more and n > 3)
    assert not records[whole().find_position(records[place].t) - 1].more
    whole().seek(place)
    after = whole().find_commit(1)
    assert not records[after - 1].more
    assert all(record.more for record in records[place : after - 1])
    whole().seek(after)
    assert whole().find_commit(-1) == place


def test_landmarks_are_failures_questions_and_times_without_an_engine() -> None:
    failed = [
        record.t
        for record in small().records
        if isinstance(record.event, events.JobEnded)
        and record.event.state is JobState.FAILED
    ]
    marks = whole().landmarks
    assert [one.t for one in marks if one.kind == "failed"] == failed
    assert sum(1 for one in marks if one.kind == "asked") == 1
    gone = [one for one in marks if one.kind == "gone"]
    assert gone
    assert all(one.until > one.t for one in gone)
    amid = (gone[0].t + gone[0].until) / 2
    shown = show(whole(), whole().find_position(amid), amid)
    assert not shown.engine.owner_alive
    back = whole().snapshot(gone[0].until, 1.0, playing=False)
    assert back.engine.owner_alive


def test_running_jobs_have_the_step_and_rate_that_were_noted() -> None:
    shown = show(whole(), len(whole()) // 2)
    running = [
        live
        for job, live in zip(shown.jobs, shown.live, strict=True)
        if job.state is JobState.RUNNING and job.noted and live is not None
    ]
    assert any(live.rate for live in running)
    for live in running:
        steps = live.curves["loss"].steps
        assert len(steps) <= MOST_POINTS
        assert list(steps) == sorted(set(steps))


def playing(speed: float = 60.0) -> ReplayPlayer:
    return ReplayPlayer(whole(), speed=speed, playing=True, now=0.0)


def test_time_passes_at_its_speed_and_not_while_it_stands() -> None:
    machine, begin = playing(60.0), whole().begin
    machine.tick(10.0)
    assert machine.at == begin + 600.0
    assert machine.buffer.position == whole().find_position(machine.at)
    assert machine.snapshot().engine.committed_at == machine.at  # ages count from it
    machine.play("toggle", 0.0, 10.0)
    machine.play("toggle", 0.0, 100.0)
    machine.tick(101.0)
    assert machine.at == begin + 660.0
    machine.play("speed", 2.0, 102.0)  # keeps what has passed
    assert machine.at == begin + 720.0


def test_speed_doubles_and_halves_between_one_and_as_fast_as_it_goes() -> None:
    machine = playing(1.0)
    machine.play("speed", 0.5, 0.0)
    assert machine.speed == 1.0
    for _ in range(21):
        machine.play("speed", 2.0, 0.0)
    assert machine.speed == inf
    machine.play("speed", 0.5, 0.0)
    assert machine.speed == FASTEST


def test_a_speed_that_cannot_be_kept_up_with_goes_on_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "AT_ONCE", 100)
    machine = playing(FASTEST)
    machine.tick(1.0)
    assert machine.hurries
    assert machine.at < whole().end


def test_a_step_stands_on_the_commit_s_moment_and_a_jump_within_the_journal() -> None:
    """From the end it plays from the beginning again."""
    machine = playing()
    machine.play("step", 3, 0.0)
    assert not machine.playing
    assert machine.at == small().records[machine.buffer.position - 1].t
    after = machine.buffer.position
    machine.play("step", -1, 0.0)
    assert machine.buffer.position < after
    machine.jump(0.0, 0.0)
    assert machine.at == whole().begin
    machine.jump(inf, 0.0)
    assert (machine.at, machine.buffer.position) == (whole().end, len(whole()))
    machine.play("toggle", 0.0, 2.0)
    assert (machine.playing, machine.at) == (True, whole().begin)


def count_begun() -> int:
    count = FIRST
    while small().records[count - 1].more:
        count += 1
    return count


def begun(rest: Iterable[Recorded] | None = None) -> ReplayBuffer:
    """A buffer with the beginning of a journal read; `rest`: what follows there."""
    records, place = small().records, count_begun()
    given = records[place:] if rest is None else rest
    buffer = ReplayBuffer(
        chain(records[:place], given), {SHA: small().plan}, interval=16
    )
    buffer.read(FIRST)
    buffer.expected = (len(records), records[-1].t)
    return buffer


def read_on(buffer: ReplayBuffer, portion: int = 7) -> ReplayBuffer:
    while buffer.reading:
        buffer.read_on(portion)
        assert not buffer.records[-1].more  # a portion ends with a commit
    return buffer


def doing(buffer: ReplayBuffer) -> str:
    return buffer.snapshot(0.0, 1.0, playing=False).engine.doing


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_what_was_read_behind_is_shown_as_what_was_read_at_once(share: float) -> None:
    buffer = begun()
    assert doing(buffer).startswith("reading the journal: ")
    assert buffer.read_until < buffer.end == small().records[-1].t
    read_on(buffer)
    assert doing(buffer) == ""
    position = int(share * len(whole()))
    one, other = show(buffer, position), show(whole(), position)
    for field in ("seq", "jobs", "warnings", "pending"):
        assert getattr(one, field) == getattr(other, field)


def test_it_plays_and_jumps_no_further_than_was_read() -> None:
    buffer = begun()
    machine = ReplayPlayer(buffer, speed=inf, playing=True, now=0.0)
    machine.tick(1e6)
    assert (machine.at, machine.playing) == (buffer.read_until, True)
    machine.jump(buffer.end, 1e6)
    assert machine.at == buffer.read_until < buffer.end


def test_damage_further_on_is_told_and_what_comes_before_is_shown() -> None:
    def damaged() -> Iterator[Recorded]:
        yield from small().records[count_begun() :][:10]
        raise JournalDamaged("no record", "journal.jsonl")

    buffer = read_on(begun(damaged()))
    assert "journal.jsonl" in buffer.problem
    assert buffer.end == buffer.read_until
    odd = events.WaitExplained(job="nobody", why=why("stopped"))
    buffer = read_on(begun([replace(small().records[count_begun()], event=odd)]))
    assert "does not follow" in buffer.problem


def handle_of(buffer: ReplayBuffer, playing: bool = False, **how: Any) -> ReplayHandle:
    return ReplayHandle(buffer, ManualClock(0.0), playing=playing, **how)


@pytest.mark.parametrize("is_begun", [False, True])
def test_as_fast_as_it_goes_arrives_at_the_end_and_stands(is_begun: bool) -> None:
    buffer = begun() if is_begun else read_all(small().records)
    handle = handle_of(buffer, speed=inf, playing=True)
    came, end = threading.Event(), small().records[-1]

    def see(shown: Snapshot) -> None:
        if shown.playback and shown.playback.at == end.t:
            came.set()

    handle.subscribe(see)
    handle.play("speed", 1.0)
    assert came.wait(10.0)
    shown = handle.snapshot()
    handle.close()
    assert shown.seq == end.seq
    assert shown.playback is not None
    assert not shown.playback.playing


def test_a_replay_takes_no_command_and_reads_older_events_from_the_history() -> None:
    handle = handle_of(read_all(small().records))
    assert handle.read_only
    assert handle.send(Pause()) == ""
    assert [one.seq for one in handle.earlier(50, 3)] == [47, 48, 49]
    assert [one.seq for one in handle.earlier(3, 9)] == [1, 2]
    handle.close()


def test_a_fault_of_the_thread_is_kept() -> None:
    told: list[str] = []
    faulty = handle_of(read_all(small().records), log_fault=told.append)
    faulty.subscribe(lambda _snapshot: [][0])
    faulty.play("step", 1)
    faulty._thread.join(10.0)
    assert "IndexError" in told[0]
