"""How often logs are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoexp_tui.engine.pacing import SLOWEST_SECONDS, Pacing, Stream

POLL = 1.0


@dataclass
class Watched:
    """Logs by name, looked at by a clock that jumps from due time to due time."""

    names: list[str]
    growing: set[str] = field(default_factory=set)
    now: float = 100.0
    looks: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pacing = Pacing()

    @property
    def streams(self) -> list[Stream]:
        return [(name, "") for name in self.names]

    def look(self) -> int:
        due = self.pacing.due(self.streams, self.now, POLL)
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
            at = self.pacing.next_at(self.streams, self.now)
            assert at is not None
            if at > end:
                self.now = end
                return looks
            assert at > self.now
            self.now = at


def test_a_growing_log_is_looked_at_every_poll() -> None:
    watched = Watched(["a"], growing={"a"})
    assert watched.run(60) == 61


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
    at = watched.pacing.next_at(watched.streams, watched.now)
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
    assert watched.pacing.next_at(watched.streams, watched.now) == watched.now
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
    assert watched.pacing.next_at(watched.streams, watched.now) == watched.now


def test_what_waited_longest_is_looked_at_first() -> None:
    pacing = Pacing()
    for name, at in (("a", 2.0), ("b", 1.0), ("c", 1.5)):
        pacing.asked((name, ""), name, at, POLL)
    streams = [("a", ""), ("b", ""), ("c", "")]
    assert [job for job, _ in pacing.due(streams, 3.0, POLL)] == ["b", "c", "a"]


def test_the_log_of_another_run_begins_at_full_pace() -> None:
    watched = Watched(["a"])
    watched.run(120)
    watched.pacing.asked(("a", ""), "/logs/another", watched.now, POLL)
    assert watched.pacing.next_at(watched.streams, watched.now) == watched.now + POLL


def test_what_runs_no_more_is_forgotten() -> None:
    watched = Watched(["a", "b"])
    watched.run(120)
    watched.pacing.keep(["b"])
    assert not watched.pacing.wake(["/logs/a"])
    assert watched.pacing.wake(["/logs/b"])


def test_where_somebody_is_impatient_a_quiet_log_is_looked_at_more_often() -> None:
    pacing, now = Pacing(), 0.0
    for _ in range(20):
        pacing.asked(("a", ""), "a", now, POLL)
        pacing.quiet(("a", ""), POLL, 3.0)
    assert pacing.next_at([("a", "")], now) == now + 3.0
