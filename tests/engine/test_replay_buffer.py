"""A journal can be shown as of any moment, and quickly from any other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.engine import replay_buffer
from autoexp_tui.engine.replay_buffer import (
    MOST,
    MOST_POINTS,
    ReplayBuffer,
)
from autoexp_tui.engine.snapshot_publisher import EVENT_TAIL
from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded, apply
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from tests.support.week import SHA, Week, week


@cache
def small() -> Week:
    return week(31, note_seconds=1800, slots=4)


def buffer_of(told: Week, interval: int = 64) -> ReplayBuffer:
    return read_all(told.records, interval)


def read_all(records: Sequence[Recorded], interval: int = 64) -> ReplayBuffer:
    buffer = ReplayBuffer(records, {SHA: small().plan}, interval=interval)
    buffer.read(len(records) + 1)
    return buffer


@cache
def buffer() -> ReplayBuffer:
    return buffer_of(small())


def folded(records: tuple[Recorded, ...]) -> SessionState:
    state = SessionState(plans={SHA: small().plan})
    for record in records:
        apply(state, record)
    return state


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_every_position_shows_the_fold_up_to_there(places: list[int]) -> None:
    for place in places:
        position = place % (len(buffer()) + 1)
        buffer().seek(position)
        shown = buffer().snapshot(0.0, 1.0, playing=False)
        state = folded(small().records[:position])
        assert shown.jobs == tuple(state.jobs[name] for name in state.order)
        assert shown.seq == state.seq
        assert shown.warnings == tuple(state.warnings.values())
        assert shown.paused == state.paused


def test_going_on_after_going_back_leaves_the_keyframes_as_they_were() -> None:
    buffer().seek(10)
    buffer().seek(len(buffer()))
    buffer().seek(10)
    state = folded(small().records[:10])
    shown = buffer().snapshot(0.0, 1.0, playing=False)
    assert shown.jobs == tuple(state.jobs[name] for name in state.order)


def test_a_jump_folds_no_more_than_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from autoexp_tui.engine import replay_buffer as module

    shown = buffer_of(small(), interval=32)
    folds: list[Recorded] = []

    def counted(state: SessionState, record: Recorded) -> None:
        folds.append(record)
        apply(state, record)

    monkeypatch.setattr(module, "apply", counted)
    for position in (len(shown), 200, 55, 199):
        folds.clear()
        shown.seek(position)
        assert len(folds) < 64


def test_keyframes_never_outgrow_their_number() -> None:
    shown = buffer_of(small(), interval=1)
    assert len(shown._keyframes) <= MOST


def test_large_sessions_have_fewer_keyframes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_buffer, "MOST_JOBS", 310)
    assert len(buffer_of(small(), interval=1)._keyframes) <= 10


def test_the_newest_events_come_with_a_jump_back() -> None:
    buffer().seek(len(buffer()))
    buffer().seek(300)
    shown = buffer().snapshot(0.0, 1.0, playing=False)
    assert [record.seq for record in shown.events[-3:]] == [298, 299, 300]
    assert len(shown.events) <= EVENT_TAIL


def test_a_moment_amid_a_commit_shows_the_whole_commit() -> None:
    records = small().records
    place = next(n for n, record in enumerate(records) if record.more)
    position = buffer().find_position(records[place].t)
    assert not records[position - 1].more


def test_a_step_goes_over_a_commit_and_back() -> None:
    records = small().records
    place = next(n for n, record in enumerate(records) if record.more and n > 3)
    buffer().seek(place)
    after = buffer().find_commit(1)
    assert not records[after - 1].more
    assert all(record.more for record in records[place : after - 1])
    buffer().seek(after)
    assert buffer().find_commit(-1) == place


def test_landmarks_are_failures_questions_and_times_without_an_engine() -> None:
    records = small().records
    failed = [
        record.t
        for record in records
        if isinstance(record.event, events.JobEnded)
        and record.event.state is JobState.FAILED
    ]
    marks = buffer().landmarks
    assert [one.t for one in marks if one.kind == "failed"] == failed
    assert sum(1 for one in marks if one.kind == "asked") == 1
    gone = [one for one in marks if one.kind == "gone"]
    assert gone
    assert all(one.until > one.t for one in gone)


def test_an_engine_that_gave_the_session_back_did_not_die() -> None:
    told = small()
    start = told.records[1].event
    assert isinstance(start, events.EngineStarted)
    after: list[events.Event] = [
        events.EngineStopped(),
        events.EngineStarted(host="b", pid=1, gap_seconds=9),
    ]
    t = told.records[3].t
    further = [
        Recorded(seq=seq, epoch=2, t=t, event_id="e", event=event)
        for seq, event in enumerate(after, 5)
    ]
    assert read_all([*told.records[:4], *further]).landmarks == []


def test_while_no_engine_lived_the_replay_says_so() -> None:
    gone = next(one for one in buffer().landmarks if one.kind == "gone")
    amid = (gone.t + gone.until) / 2
    buffer().seek(buffer().find_position(amid))
    assert not buffer().snapshot(amid, 1.0, playing=False).engine.owner_alive
    assert buffer().snapshot(gone.until, 1.0, playing=False).engine.owner_alive


def test_running_jobs_have_the_step_and_rate_that_were_noted() -> None:
    buffer().seek(len(buffer()) // 2)
    shown = buffer().snapshot(0.0, 1.0, playing=False)
    running = [
        live
        for job, live in zip(shown.jobs, shown.live, strict=True)
        if job.state is JobState.RUNNING and job.noted and live is not None
    ]
    assert running
    assert any(live.rate for live in running)
    for live in running:
        assert len(live.curves["loss"].steps) <= MOST_POINTS
        steps = live.curves["loss"].steps
        assert list(steps) == sorted(set(steps))
