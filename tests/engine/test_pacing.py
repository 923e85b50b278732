"""How often logs are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.engine.file_poller import (
    BUSIEST_SECONDS,
    BUSY_LOOKS,
    MOST_AT_ONCE,
    SLOWEST_SECONDS,
    TOGETHER,
    Pacing,
)

POLL = 1.0
DEEDS = ("watch", "forget", "hurry", "grew", "more", "quiet", "look", "look")


@dataclass
class Watched:
    """Logs by name, looked at by a clock that jumps from due time to due time."""

    names: list[str]
    growing: set[str] = field(default_factory=set)
    now: float = 100.0
    looks: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pacing = Pacing()
        for name in self.names:
            self.pacing.watch((name, ""), self.now)

    def look(self) -> int:
        due = self.pacing.due(self.now, POLL)
        for stream in due:
            self.pacing.asked(stream, f"/logs/{stream[0]}", self.now, POLL)
            self.looks.setdefault(stream[0], []).append(self.now)
        for stream in due:
            if stream[0] in self.growing:
                self.pacing.grew(stream, self.now, POLL, more=False)
            else:
                self.pacing.quiet(stream, POLL)
        return len(due)

    def run(self, seconds: float) -> int:
        """How many looks that was."""
        end, looks = self.now + seconds, 0
        while True:
            looks += self.look()
            at = self.pacing.next_at(self.now)
            assert at is not None
            if at > end:
                self.now = end
                return looks
            self.now = max(self.now, at)


def test_a_growing_log_is_looked_at_every_poll() -> None:
    watched = Watched(["a"], growing={"a"})
    assert watched.run(60) == 61


def test_very_many_growing_logs_share_some_hundred_looks_a_second() -> None:
    names = [f"job{n}" for n in range(1500)]
    watched = Watched(names, growing=set(names))
    watched.run(30)
    assert watched.run(60) <= 60 * BUSY_LOOKS * 1.1


def test_however_many_grow_each_is_looked_at_every_few_seconds() -> None:
    names = [f"job{n}" for n in range(4000)]
    watched = Watched(names, growing=set(names))
    watched.run(60)
    for looks in watched.looks.values():
        gaps = [b - a for a, b in pairwise(looks)]
        assert max(gaps) <= BUSIEST_SECONDS + POLL


def test_when_the_others_fall_silent_a_growing_log_is_looked_at_every_poll() -> None:
    names = [f"job{n}" for n in range(1500)]
    watched = Watched(names, growing=set(names))
    watched.run(30)
    watched.growing = {"job7"}
    watched.run(30)
    watched.looks.clear()
    watched.run(20)
    assert len(watched.looks["job7"]) >= 20


def test_what_is_due_at_once_comes_in_portions() -> None:
    watched = Watched([f"job{n}" for n in range(MOST_AT_ONCE + 1)])
    assert [watched.look(), watched.look(), watched.look()] == [MOST_AT_ONCE, 1, 0]


def test_a_quiet_log_is_looked_at_less_and_less_but_never_forgotten() -> None:
    watched = Watched(["a"])
    watched.run(120)
    waits = [
        b - a for a, b in zip(watched.looks["a"], watched.looks["a"][1:], strict=False)
    ]
    assert waits[:3] == [1.5, 2.25, 3.375]
    assert waits == sorted(waits)
    assert waits[-1] == SLOWEST_SECONDS


def test_a_thousand_quiet_logs_cost_some_67_looks_a_second() -> None:
    watched = Watched([f"job{n}" for n in range(1000)])
    watched.run(120)
    assert watched.run(300) <= 1000 * (300 / SLOWEST_SECONDS + 1)


def test_quiet_logs_cost_nothing_between_their_looks() -> None:
    watched = Watched([f"job{n}" for n in range(1000)])
    watched.run(120)
    at = watched.pacing.next_at(watched.now)
    assert at is not None
    watched.now = at - POLL / 2
    assert watched.look() == 0


def test_a_log_that_grows_again_is_looked_at_every_poll_again() -> None:
    watched = Watched(["a"])
    watched.run(120)
    watched.growing.add("a")
    watched.run(SLOWEST_SECONDS)
    assert watched.run(10) >= 10


def test_a_quiet_log_that_was_seen_to_change_is_looked_at_now() -> None:
    watched = Watched(["a", "b"])
    watched.run(120)
    assert watched.pacing.wake(["/logs/b", "/logs/c"])
    assert watched.pacing.next_at(watched.now) == watched.now
    watched.looks.clear()
    watched.look()
    assert list(watched.looks) == ["b"]


def test_a_busy_log_that_is_seen_to_change_wakes_nobody() -> None:
    watched = Watched(["a"], growing={"a"})
    watched.run(10)
    assert not watched.pacing.wake(["/logs/a"])


def test_a_log_with_more_than_was_read_is_looked_at_at_once() -> None:
    watched = Watched(["a"])
    watched.look()
    watched.pacing.grew(("a", ""), watched.now, POLL, more=True)
    assert watched.pacing.next_at(watched.now) == watched.now


def test_what_waited_longest_is_looked_at_first() -> None:
    pacing = Pacing()
    for name, at in (("a", 2.0), ("b", 1.0), ("c", 1.5)):
        pacing.watch((name, ""), at)
    assert [job for job, _ in pacing.due(3.0, POLL)] == ["b", "c", "a"]


def test_the_log_of_another_run_begins_at_full_pace() -> None:
    watched = Watched(["a"])
    watched.run(120)
    watched.pacing.asked(("a", ""), "/logs/another", watched.now, POLL)
    assert watched.pacing.next_at(watched.now) == watched.now + POLL


def test_what_runs_no_more_is_forgotten() -> None:
    watched = Watched(["a", "b"])
    watched.run(120)
    watched.pacing.forget(("a", ""))
    assert not watched.pacing.wake(["/logs/a"])
    assert watched.pacing.wake(["/logs/b"])


def test_where_somebody_is_impatient_a_quiet_log_is_looked_at_more_often() -> None:
    pacing, now = Pacing(), 0.0
    pacing.watch(("a", ""), now)
    for _ in range(20):
        pacing.due(now, POLL)
        pacing.asked(("a", ""), "a", now, POLL)
        pacing.quiet(("a", ""), POLL, 3.0)
    assert pacing.next_at(now) == now + 3.0


def test_what_is_forgotten_is_never_due() -> None:
    watched = Watched(["a", "b"])
    watched.pacing.forget(("a", ""))
    assert watched.pacing.due(watched.now, POLL) == [("b", "")]
    watched.pacing.forget(("b", ""))
    assert watched.pacing.next_at(watched.now) is None


def test_a_file_whose_look_is_under_way_has_to_wait_for_another_beat() -> None:
    watched = Watched(["a", "b"])
    due = watched.pacing.due(watched.now, POLL, lambda stream: stream[0] == "a")
    assert due == [("b", "")]
    assert watched.pacing.due(watched.now + POLL, POLL) == [("a", "")]


def test_an_answer_that_never_comes_is_asked_for_again_in_its_time() -> None:
    watched = Watched(["a"])
    stream = watched.pacing.due(watched.now, POLL)[0]
    watched.pacing.asked(stream, "/logs/a", watched.now, POLL)
    assert watched.pacing.due(watched.now + POLL / 2, POLL) == []
    assert watched.pacing.due(watched.now + POLL, POLL) == [stream]


def test_a_file_is_never_due_twice_at_once_however_often_it_is_hurried() -> None:
    watched = Watched(["a"])
    watched.run(120)
    for back in (3.0, 2.0, 1.0):
        watched.pacing.hurry(("a", ""), watched.now - back)
    assert watched.pacing.due(watched.now, POLL) == [("a", "")]
    assert watched.pacing.next_at(watched.now) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(DEEDS)), max_size=60))
def test_what_is_due_is_what_a_look_at_every_beat_would_find(
    deeds: list[tuple[str, str]],
) -> None:
    pacing, now = Pacing(), 100.0
    for name, deed in deeds:
        stream, now = (name, ""), now + 0.4
        match deed:
            case "watch":
                pacing.watch(stream, now)
            case "forget":
                pacing.forget(stream)
            case "hurry":
                pacing.hurry(stream, now)
            case "grew" | "more":
                pacing.grew(stream, now, POLL, more=deed == "more")
            case "quiet":
                pacing.quiet(stream, POLL)
            case "look":
                plain = {one: beat.due for one, beat in pacing._beats.items()}
                assert pacing.next_at(now) == min(plain.values(), default=None)
                ripe = min(plain.values(), default=now + 1) <= now
                soon = now + POLL * TOGETHER
                found = [one for one, at in plain.items() if ripe and at <= soon]
                assert sorted(pacing.due(now, POLL)) == sorted(found)
                for one in found:
                    pacing.asked(one, one[0], now, POLL)
