"""Looks by file system: what hangs holds up nobody else, and what waits says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.dispatcher import MOST_SENDING
from autoexp_tui.engine.looks import (
    MOST_BATCHES,
    SILENT_SECONDS,
    UNDER_WAY,
    Looks,
)
from autoexp_tui.engine.observations import CallFailed, Observation
from autoexp_tui.engine.ports import Pool
from autoexp_tui.events import events
from autoexp_tui.model.facts import Silence
from autoexp_tui.probes.pools import ThreadPool
from tests.engine.bench import Bench
from tests.engine.parts import says, writes
from tests.model.builders import job, plan
from tests.support.inline_pool import InlinePool

WAIT = 20.0
"""Seconds that a thread of a test may take at most."""


def place_of(path: str) -> str:
    return "/" + path.split("/")[1]


class Disk:
    """Answers with the path; paths that begin with one of `hanging` do not return."""

    def __init__(self, pool: Pool, *hanging: str) -> None:
        self.hanging = set(hanging)
        self.back = threading.Event()
        self.heard = threading.Condition()
        self.asked: list[str] = []
        self.told: list[str] = []
        self.silent: dict[str, float] = {}
        """Path -> since when nothing is known of it."""
        self.now = 0.0
        self.settled = 0
        looks = (self.read, self.report, lambda _: None, self.silence)
        self.looks: Looks[str, str, str] = Looks(
            "t", pool, lambda path: (place_of(path), path), *looks
        )

    def read(self, items: Sequence[str]) -> Iterator[str]:
        for item in items:
            with self.heard:
                self.asked.append(item)
                self.heard.notify_all()
            if item.startswith(tuple(self.hanging)):
                self.back.wait(WAIT)
            yield item

    def report(self, answers: Sequence[str]) -> Observation:
        with self.heard:
            self.told += answers
            self.heard.notify_all()
        return CallFailed(what="", problem="", trace="")

    def silence(self, items: Sequence[str], silence: Silence, t: float) -> None:
        self.silent |= dict.fromkeys(items, silence.since)

    def until(self, what: str, *paths: str) -> None:
        """Wait until these were `asked` or `told`."""
        with self.heard:
            found: list[str] = getattr(self, what)
            assert self.heard.wait_for(lambda: set(paths) <= set(found), WAIT), found

    def send(self, *paths: str, after: float = 0.0) -> None:
        self.settle()
        for path in paths:
            self.looks.want(path, self.now, 0.0)
        self.pass_(after)

    def settle(self) -> None:
        """Take the answers, as the engine does; nothing is due again by itself."""
        with self.heard:
            told, self.settled = self.told[self.settled :], len(self.told)
        for path in told:
            self.looks.settle(path, self.now, changed=True, shortest=1e9, longest=1e9)

    def pass_(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.settle()
        self.looks.look(self.now, 1_000.0 + self.now, lambda _: True)

    def hang(self, *asked: str) -> None:
        """These were asked, and so much time passes that a look is stuck."""
        self.until("asked", *asked)
        for _ in range(3):
            self.pass_(SILENT_SECONDS / 2)


@pytest.fixture
def disk() -> Iterator[Disk]:
    """On threads; `/hung` hangs."""
    pool = ThreadPool("test", 32)
    made = Disk(pool, "/hung")
    yield made
    made.back.set()
    pool.close()


def test_what_does_not_answer_is_silent_and_what_was_found_before_it_told(
    disk: Disk,
) -> None:
    disk.hanging = {"/d/2"}
    disk.send("/d/1", "/d/2", "/d/3")
    disk.until("asked", "/d/2")
    disk.pass_()
    assert (disk.silent, disk.told) == ({}, [])
    disk.hang()
    assert disk.told[:1] == ["/d/1"]
    assert disk.silent == {"/d/2": 1_000.0, "/d/3": 1_000.0}


def test_a_place_that_hangs_for_good_costs_a_few_threads(disk: Disk) -> None:
    paths = [f"/hung/u{n}/x/y/done" for n in range(20)]
    disk.send(*paths)
    for n in range(MOST_BATCHES + 3):
        disk.pass_()
        disk.hang(*paths[: min(n + 1, MOST_BATCHES)])
    assert len(disk.asked) == MOST_BATCHES
    assert set(disk.silent) == set(paths)
    disk.send("/hung/z/x/y/late")
    assert "/hung/z/x/y/late" in disk.silent
    disk.silent.clear()
    disk.hang()
    assert disk.silent == {}


def test_a_look_is_under_way_until_its_answer_came_however_slow() -> None:
    pool = InlinePool()
    disk = Disk(pool, "/nowhere")
    disk.send("/a/1")
    disk.send("/a/1")
    pool.call(pool.pending[0])
    disk.hang("/a/1")
    assert disk.silent == {}  # the answer is there, and on its way
    pool.deliver(pool.pending[0])
    disk.pass_()
    assert disk.looks.entries["/a/1"].due != UNDER_WAY
    assert (disk.asked, disk.told) == (["/a/1"], ["/a/1"])
    disk.send("/a/1")
    for _ in range(2):  # what was answered may be sent again at once
        pool.drain()
        disk.send("/a/1")
    assert disk.told == ["/a/1"] * 3


HUNG = FileExists(path="/scratch/done", timeout_seconds=60.0)
FINE = FileExists(path="/home/done")


@pytest.fixture
def hung() -> Bench:
    """A job waits for each file system, and one does not answer, for 30 s."""
    waits = (job("h", start_conditions=(HUNG,)), job("f", 1, start_conditions=(FINE,)))
    bench = Bench(plan(*waits), place_of=place_of)
    bench.pool.held = {"facts /scratch"}
    bench.run(30)
    return bench


def test_a_wait_says_who_does_not_answer_and_no_timeout_ends_it_meanwhile(
    hung: Bench,
) -> None:
    before = len(hung.world.session.records)
    hung.run(12)
    why = hung.wait("h").why
    assert why.code == "no_answer"
    assert hung.words(why).startswith("no answer from /scratch for 42 s")
    hung.run(158)
    assert hung.state("h") == "WAITING"
    assert len(hung.world.session.records) == before  # and it is not looked at again
    hung.files.append("/home/done", b"x")
    hung.reach(5, f="RUNNING")


@pytest.mark.parametrize("anew", [False, True])
def test_a_person_is_told_once_and_no_longer_than_it_lasts(
    hung: Bench, *, anew: bool
) -> None:
    assert hung.codes(events.WarningRaised) == hung.warned() == ["place_silent"]
    hung.files.append("/scratch/done", b"x")
    hung.pool.held.clear()
    if anew:
        hung.start()
    hung.run(2)
    assert not hung.warned()
    hung.reach(5, h="COMPLETED")


def test_logs_elsewhere_are_read_beside_one_that_hangs() -> None:
    places = ("/scratch", "/home")
    jobs = [job(name, log_dir=f"{at}/l") for name, at in zip("ab", places, strict=True)]
    script = writes(says(20.0, "iteration 10/100 | lm loss: 2.5"))
    bench = Bench(plan(*jobs), {"a": [[script]], "b": [[script]]}, place_of=place_of)
    bench.run(5)
    bench.pool.held = {"logs /scratch"}
    bench.run(40)
    assert [bench.job(name).noted is None for name in "ab"] == [True, False]
    assert bench.warned() == ["place_silent"]


def test_submissions_that_hang_on_their_directories_hold_up_no_others() -> None:
    slow = [job(f"h{n}", n, output_dir=f"/scratch/h{n}") for n in range(10)]
    fine = [job(f"f{n}", 10 + n, output_dir=f"/home/f{n}") for n in range(3)]
    bench = Bench(plan(*slow, *fine), place_of=place_of)
    bench.engine.commit()
    bench.pool.held = {
        effect_id
        for effect_id, pending in bench.engine.state.pending.items()
        if isinstance(pending.effect, SubmitTasks)
        and pending.effect.tasks[0][0].startswith("h")
    }
    assert len(bench.pool.held & set(bench.pool.pending)) == MOST_SENDING
    bench.run(20)
    assert {bench.state(spec.name) for spec in fine} == {"COMPLETED"}
    bench.pool.held = set()
    bench.until(lambda: set(bench.states().values()) == {"COMPLETED"}, 60)
