"""A replay plays in its own time or any other, stands, steps and jumps."""

from __future__ import annotations

import threading
from functools import cache
from math import inf

import pytest

from autoexp_tui.engine.replay import FASTEST, ReplayHandle, ReplayPlayer
from autoexp_tui.engine.replay_buffer import ReplayBuffer
from autoexp_tui.model.commands import Pause
from autoexp_tui.model.snapshot import Playback, Snapshot
from autoexp_tui.testing.clock import ManualClock
from tests.engine.test_replay_buffer import buffer_of, small


@cache
def shared() -> ReplayBuffer:
    return buffer_of(small())


def playing(speed: float = 60.0, *, on: bool = True) -> ReplayPlayer:
    return ReplayPlayer(shared(), speed=speed, playing=on, now=0.0)


def playback(shown: Snapshot) -> Playback:
    assert shown.playback is not None
    return shown.playback


def test_time_passes_at_its_speed() -> None:
    machine = playing(60.0)
    machine.tick(10.0)
    assert machine.at == shared().begin + 600.0
    assert machine.buffer.position == shared().find_position(machine.at)


def test_ages_are_counted_against_the_time_that_is_shown() -> None:
    machine = playing(60.0)
    machine.tick(100.0)
    assert machine.snapshot().engine.committed_at == machine.at


def test_what_passed_while_it_stood_is_not_made_up_for() -> None:
    machine = playing(60.0)
    machine.play("toggle", 0.0, 1.0)
    machine.play("toggle", 0.0, 100.0)
    machine.tick(101.0)
    assert machine.at == shared().begin + 60.0


def test_speed_doubles_and_halves_between_one_and_as_fast_as_it_goes() -> None:
    machine = playing(1.0)
    machine.play("speed", 0.5, 0.0)
    assert machine.speed == 1.0
    for _ in range(21):
        machine.play("speed", 2.0, 0.0)
    assert machine.speed == inf
    machine.play("speed", 0.5, 0.0)
    assert machine.speed == FASTEST


def test_a_change_of_speed_keeps_what_has_passed() -> None:
    machine = playing(60.0)
    machine.play("speed", 2.0, 10.0)
    assert machine.at == shared().begin + 600.0


def test_at_the_end_it_stands_and_plays_from_the_beginning_again() -> None:
    machine = playing(inf)
    machine.jump(shared().end, 0.0)
    machine.tick(1.0)
    assert not machine.playing
    machine.play("toggle", 0.0, 2.0)
    assert playback(machine.snapshot()).playing
    assert machine.at == shared().begin


def test_a_speed_that_cannot_be_kept_up_with_goes_on_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from autoexp_tui.engine import replay

    monkeypatch.setattr(replay, "AT_ONCE", 100)
    machine = playing(FASTEST)
    machine.tick(1.0)
    assert machine.hurries
    assert machine.at < shared().end


def test_a_step_stands_on_the_commit_s_moment() -> None:
    machine = playing()
    machine.play("step", 3, 0.0)
    assert not machine.playing
    assert machine.at == small().records[machine.buffer.position - 1].t
    after = machine.buffer.position
    machine.play("step", -1, 0.0)
    assert machine.buffer.position < after


def test_a_jump_is_kept_within_the_journal() -> None:
    machine = playing()
    machine.jump(0.0, 0.0)
    assert machine.at == shared().begin
    machine.jump(inf, 0.0)
    assert machine.at == shared().end
    assert machine.buffer.position == len(shared())


# --------------------------------------------------------------------- the handle
class Ear:
    """Hears snapshots; `until` waits for one that fits."""

    def __init__(self) -> None:
        self.heard: list[Playback] = []
        self._news = threading.Condition()

    def __call__(self, snapshot: Snapshot) -> None:
        with self._news:
            self.heard.append(playback(snapshot))
            self._news.notify_all()

    def until_at(self, t: float) -> None:
        with self._news:
            done = self._news.wait_for(
                lambda: bool(self.heard) and self.heard[-1].at == t, 10.0
            )
        assert done


def test_the_handle_shows_a_jump_without_making_anybody_wait() -> None:
    handle = ReplayHandle(buffer_of(small()), ManualClock(0.0), playing=False)
    ear = Ear()
    handle.subscribe(ear)
    end = small().records[-1].t
    handle.play("jump", end)
    ear.until_at(end)
    assert handle.snapshot().seq == small().records[-1].seq
    handle.close()


def test_as_fast_as_it_goes_arrives_at_the_end_and_stands() -> None:
    handle = ReplayHandle(buffer_of(small()), ManualClock(0.0), speed=inf)
    ear = Ear()
    handle.subscribe(ear)
    handle.play("speed", 1.0)
    ear.until_at(small().records[-1].t)
    assert not playback(handle.snapshot()).playing
    handle.close()


def test_a_command_is_not_taken() -> None:
    handle = ReplayHandle(buffer_of(small()), ManualClock(0.0), playing=False)
    assert handle.read_only
    assert handle.send(Pause()) == ""
    handle.close()


def test_older_events_are_read_from_the_history() -> None:
    handle = ReplayHandle(buffer_of(small()), ManualClock(0.0), playing=False)
    assert [one.seq for one in handle.earlier(50, 3)] == [47, 48, 49]
    assert [one.seq for one in handle.earlier(3, 9)] == [1, 2]
    handle.close()


def test_a_fault_of_the_thread_is_kept() -> None:
    told: list[str] = []
    faulty = ReplayHandle(
        buffer_of(small()), ManualClock(0.0), playing=False, log_fault=told.append
    )
    faulty.subscribe(lambda _snapshot: [][0])
    faulty.play("step", 1)
    faulty._thread.join(10.0)
    assert "IndexError" in told[0]
