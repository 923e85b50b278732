"""Looks by file system: what hangs holds up nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from autoexp_tui.engine.mount_workers import (
    FAULT_SECONDS,
    MOST_BATCHES,
    SILENT_SECONDS,
    MountWorkers,
)
from autoexp_tui.engine.observations import CallFailed, Observation, PlaceHeard
from autoexp_tui.engine.ports import Pool
from autoexp_tui.model.facts import Silence
from autoexp_tui.probes.pools import ThreadPool
from tests.support.inline_pool import InlinePool

WAIT = 20.0
"""Seconds that a thread of a test may take at most."""


def place_of(path: str) -> str:
    return "/" + path.split("/")[1]


@dataclass
class Disk:
    """Answers with the path; paths that begin with one of `hanging` do not return."""

    hanging: set[str] = field(default_factory=set)
    back: threading.Event = field(default_factory=threading.Event)
    told: list[str] = field(default_factory=list)
    silent: dict[str, float] = field(default_factory=dict)
    """Path -> since when nothing is known of it."""
    places: list[tuple[str, bool]] = field(default_factory=list)
    """Mount points and whether they answer, as it was posted."""
    asked: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    heard: threading.Condition = field(default_factory=threading.Condition)

    def read(self, items: Sequence[str]) -> Iterator[str]:
        for item in items:
            with self.heard:
                self.asked.append(item)
                self.heard.notify_all()
            if any(item.startswith(prefix) for prefix in self.hanging):
                self.back.wait(WAIT)
            yield item

    def report(self, answers: Sequence[str]) -> Observation:
        with self.heard:
            self.told += answers
            self.heard.notify_all()
        return CallFailed(what="", problem="", trace="")

    def silence(self, items: Sequence[str], silence: Silence, t: float) -> None:
        self.silent |= dict.fromkeys(items, silence.since)

    def workers(self, pool: Pool, kind: str = "t") -> MountWorkers[str, str]:
        looks = (self.read, self.report, self.post, self.silence)
        return MountWorkers(kind, pool, place_of, *looks)

    def post(self, observation: Observation) -> None:
        if isinstance(observation, PlaceHeard):
            self.places.append((observation.place, observation.silence is None))
        if isinstance(observation, CallFailed) and observation.what:
            self.faults.append(f"{observation.what}: {observation.problem}")

    def until(self, what: str, *paths: str) -> None:
        """Wait until these were `asked` or `told`."""
        with self.heard:
            assert self.heard.wait_for(
                lambda: set(paths) <= set(getattr(self, what)), WAIT
            ), f"{getattr(self, what)}"


@dataclass
class Bench:
    disk: Disk
    workers: MountWorkers[str, str]
    now: float = 0.0

    def send(self, paths: Sequence[str]) -> None:
        self.workers.send((path, path, path) for path in paths)

    def pass_(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.workers.tend(self.now, 1_000.0 + self.now)

    def silence(self) -> None:
        """Let so much time pass that a look is stuck."""
        for _ in range(3):
            self.pass_(SILENT_SECONDS / 2)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.back.set()


@pytest.fixture
def bench(disk: Disk) -> Iterator[Bench]:
    pool = ThreadPool("test", 32)
    yield Bench(disk, disk.workers(pool))
    disk.back.set()
    pool.close()


def test_other_file_systems_go_on_beside_one_that_hangs(bench: Bench) -> None:
    bench.disk.hanging = {"/hung"}
    bench.send(["/hung/1", "/fine/1"])
    bench.pass_()
    bench.disk.until("told", "/fine/1")
    bench.disk.until("asked", "/hung/1")
    bench.send(["/fine/2"])
    bench.pass_(1.0)
    bench.disk.until("told", "/fine/2")
    assert "/hung/1" not in bench.disk.told


def test_what_does_not_answer_is_silent_since_it_was_asked(bench: Bench) -> None:
    bench.disk.hanging = {"/hung"}
    bench.send(["/hung/a/b/c/1", "/hung/a/b/c/2"])
    bench.pass_()
    bench.disk.until("asked", "/hung/a/b/c/1")
    assert bench.disk.silent == {}
    bench.silence()
    assert bench.disk.silent == {"/hung/a/b/c/1": 1_000.0, "/hung/a/b/c/2": 1_000.0}


def test_what_was_found_before_the_hang_is_told(bench: Bench) -> None:
    bench.disk.hanging = {"/d/2"}
    bench.send(["/d/1", "/d/2"])
    bench.pass_()
    bench.disk.until("asked", "/d/2")
    bench.silence()
    assert bench.disk.told == ["/d/1"]
    assert list(bench.disk.silent) == ["/d/2"]


def test_a_link_to_what_hangs_uses_up_the_share_of_its_own_mount(
    bench: Bench,
) -> None:
    bench.disk.hanging = {"/home/u/link"}
    links = [f"/home/u/link/run{n}/done" for n in range(MOST_BATCHES)]
    other = "/home/u/other/done"
    bench.send([links[0], other])
    bench.pass_()
    bench.disk.until("asked", links[0])
    bench.silence()
    bench.disk.until("told", other)
    for link in links[1:]:
        bench.pass_()
        bench.send([link])
        bench.pass_()
        bench.disk.until("asked", link)
        bench.silence()
    bench.send([other])
    bench.pass_()
    assert other in bench.disk.silent
    assert bench.disk.places == [("/home", False)]


def test_a_place_that_hangs_for_good_costs_a_few_threads(bench: Bench) -> None:
    bench.disk.hanging = {"/hung"}
    paths = [f"/hung/u{n}/x/y/done" for n in range(20)]
    bench.send(paths)
    for n in range(MOST_BATCHES + 3):
        bench.pass_()
        bench.disk.until("asked", *paths[: min(n + 1, MOST_BATCHES)])
        bench.silence()
    assert len(bench.disk.asked) == MOST_BATCHES
    assert set(bench.disk.silent) == set(paths)
    late = "/hung/z/x/y/late"
    bench.send([late])
    bench.pass_()
    assert late in bench.disk.silent
    bench.disk.silent.clear()
    bench.silence()
    assert bench.disk.silent == {}


def test_when_it_answers_again_everything_is_asked_anew(bench: Bench) -> None:
    bench.disk.hanging = {"/hung"}
    paths = ["/hung/a/b/c/1", "/hung/a/b/c/2"]
    bench.send(paths)
    bench.pass_()
    bench.disk.until("asked", paths[0])
    bench.silence()
    bench.disk.hanging = set()
    bench.disk.back.set()
    bench.disk.until("told", paths[0])
    bench.pass_()
    bench.disk.until("told", *paths)
    bench.pass_()
    assert bench.disk.places == [("/hung", False), ("/hung", True)]
    assert not any(map(bench.workers.holds, paths))


def test_an_engine_that_slept_calls_nobody_silent(bench: Bench) -> None:
    bench.disk.hanging = {"/hung"}
    bench.send(["/hung/1"])
    bench.pass_()
    bench.disk.until("asked", "/hung/1")
    bench.pass_(3_600.0)
    assert bench.disk.silent == {}


def test_a_slow_look_that_moves_on_is_not_silent() -> None:
    disk = Disk()
    pool = InlinePool()
    bench = Bench(disk, disk.workers(pool))
    bench.send(["/slow/1"])
    bench.pass_()
    pool.call(pool.pending[0])
    for _ in range(4):
        bench.pass_(SILENT_SECONDS / 2)
    assert bench.disk.silent == {}  # the answer is there, and on its way
    pool.deliver(pool.pending[0])
    bench.pass_()
    assert not bench.workers.holds("/slow/1")


def test_what_is_under_way_is_not_sent_twice() -> None:
    disk = Disk()
    pool = InlinePool()
    bench = Bench(disk, disk.workers(pool))
    bench.send(["/a/1"])
    bench.pass_()
    bench.send(["/a/1"])
    bench.pass_()
    pool.drain()
    bench.pass_()
    pool.drain()
    assert disk.asked == ["/a/1"]


def test_what_was_answered_may_be_sent_again_at_once() -> None:
    pool, disk = InlinePool(), Disk()
    workers = disk.workers(pool)
    for _ in range(3):
        workers.send([("/home/a", "/home/a", "/home/a")])
        workers.tend(0.0, 0.0)
        pool.drain()
    assert disk.told == ["/home/a"] * 3


def test_what_raises_is_reported_and_rests_while_the_others_are_looked_at() -> None:
    class Broken(Disk):
        def read(self, items: Sequence[str]) -> Iterator[str]:
            for item in items:
                self.asked.append(item)
                if item == "/a/2":
                    raise ValueError("a bug")
                yield item

    disk = Broken()
    pool = InlinePool()
    bench = Bench(disk, disk.workers(pool))
    bench.send(["/a/1", "/a/2", "/a/3"])
    for _ in range(3):
        bench.pass_(1.0)
        pool.drain()
    assert disk.faults == ["t /a #1: ValueError: a bug"]
    assert disk.told == ["/a/1", "/a/3"]
    assert bench.workers.holds("/a/2")
    bench.pass_(FAULT_SECONDS)
    pool.drain()
    assert disk.asked == ["/a/1", "/a/2", "/a/3", "/a/2"]
