"""What is looked at, and how often. What hangs on one file system holds up nobody else,
and what waits says so."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from autoexp_tui.conditions.kinds import CommandPasses, FileExists
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine import poller
from autoexp_tui.engine.dispatcher import MOST_SENDING
from autoexp_tui.engine.observations import CallFailed, Observation
from autoexp_tui.engine.poller import (
    MOST_BATCHES,
    MOST_COMMANDS,
    SILENT_SECONDS,
    UNDER_WAY,
    Looks,
    Schedule,
)
from autoexp_tui.engine.ports import LogChunk, LogCursor, Pool
from autoexp_tui.events import events
from autoexp_tui.model.facts import CommandResult, Fact, OutsideKey, Silence
from autoexp_tui.probes.pools import ThreadPool
from tests.engine.bench import Bench
from tests.engine.parts import says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.inline_pool import InlinePool
from tests.support.sim_world import Files, Logs

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


def settle(poller: Schedule[str], key: str, changed: bool, now: float) -> None:
    poller.settle(key, now, changed=changed, shortest=1.0, longest=16.0, factor=2)


def look(poller: Schedule[str], *changes: bool) -> list[float]:
    """The moments at which `a` is looked at, when it says something else, or not."""
    times: list[float] = []
    for changed in changes:
        times.append(poller.next_at() or 0.0)
        assert list(poller.take_due(times[-1])) == ["a"]
        settle(poller, "a", changed, times[-1])
    return times


def watching(*keys: str, now: float = 0.0) -> Schedule[str]:
    poller: Schedule[str] = Schedule()
    for key in keys:
        poller.want(key, now, 1.0)
    return poller


def test_what_rests_is_looked_at_ever_more_seldom_until_it_changes_or_is_wanted() -> (
    None
):
    poller = watching("a")
    times = look(poller, True, *[False] * 7)
    assert [b - a for a, b in pairwise(times)] == [1.0, 2.0, 4.0, 8.0, *[16.0] * 3]
    (last,) = look(poller, True)
    assert poller.next_at() == last + 1.0
    last = look(poller, *[False] * 8)[-1]
    poller.want("a", last + 0.25, 1.0)
    assert poller.next_at() == last + 1.0
    poller.hurry(last + 0.5, "a")
    poller.hurry(last + 0.5, "unknown")
    assert look(poller, False) == [last + 0.5]


def test_a_look_takes_what_is_wanted_and_due_soon_up_to_so_many() -> None:
    poller = watching("b", now=1.0)
    poller.want("c", 1.2, 1.0)
    poller.want("a", 1.3, 1.0)
    assert list(poller.take_due(0.9, slack=0.25)) == []
    assert list(poller.take_due(1.0, slack=0.25)) == ["b", "c"]
    poller = watching(*"abc")
    assert list(poller.take_due(0.0, most=2)) == ["a", "b"]
    assert list(poller.take_due(0.0, most=2)) == ["c"]
    poller = watching("a", "b")
    assert list(poller.take_due(0.0, lambda key: key == "b")) == ["b"]
    assert list(poller.entries) == ["b"]


def test_a_slow_command_rests_longer_than_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[float] = []

    def observe_all(files: Files, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        for _ in keys:
            began.append(files.clock.monotonic())
            bench.clock.advance(20.0)
            yield Fact(CommandResult(1), began[-1])

    monkeypatch.setattr(Files, "observe_all", observe_all)
    bench = Bench(plan(job("a", start_conditions=(CommandPasses(command=("c",)),))))
    bench.run(300)
    assert min(b - a for a, b in pairwise(began)) >= 20.0 + 60.0


def test_a_few_commands_run_at_a_time_and_those_that_hang_do_not_count() -> None:
    names = [*(f"h{n}" for n in range(MOST_COMMANDS)), "fine"]
    runs = {name: CommandPasses(command=(name,), timeout=5.0) for name in names}
    jobs = (job(x, n, start_conditions=(runs[x],)) for n, x in enumerate(names))
    bench = Bench(plan(*jobs))
    bench.pool.held = {f"command h{n}" for n in range(MOST_COMMANDS)}
    bench.run(10)
    assert len(bench.pool.pending) == MOST_COMMANDS
    assert bench.state("fine") == "WAITING"
    bench.reach(10, fine="RUNNING")
    bench.run(5)
    assert {bench.wait(name).why.code for name in names[:-1]} == {"no_answer"}


LINE = b"iteration 10/100 | lm loss: 2.5\n"
QUIET = RunScript(seconds=1e6, writes=(Write(at=1.0, data=LINE),))
GROWS = RunScript(
    seconds=1e6, writes=tuple(Write(at=float(at), data=LINE) for at in range(1, 130))
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each job's log was asked for."""
    counted: Counter[str] = Counter()
    original = Logs.read

    def read(self: Logs, at: LogCursor) -> LogChunk | None:
        counted[at.job] += 1
        return original(self, at)

    monkeypatch.setattr(Logs, "read", read)
    return counted


def logging(*scripts: RunScript) -> Bench:
    """Jobs `j0`, `j1`, ... of these scripts."""
    jobs = [job(f"j{n}", n) for n in range(len(scripts))]
    return Bench(plan(*jobs), {f"j{n}": [[one]] for n, one in enumerate(scripts)})


def read_in(bench: Bench, seconds: float, reads: Counter[str], after: float) -> None:
    """Count what is read within so many seconds, after some."""
    bench.run(after)
    reads.clear()
    bench.run(seconds)


def test_growing_logs_are_read_at_every_poll_whatever_the_quiet_ones_do(
    reads: Counter[str],
) -> None:
    read_in(logging(GROWS, QUIET), 60, reads, after=60)
    assert reads["j0"] >= 58
    assert reads["j1"] <= 6


def test_very_many_growing_logs_share_their_looks_but_each_is_read_often_enough(
    monkeypatch: pytest.MonkeyPatch, reads: Counter[str]
) -> None:
    monkeypatch.setattr(poller, "BUSY_JOBS", 10)
    bench = logging(*[GROWS] * 40)
    read_in(bench, 40, reads, after=60)
    assert (len(reads), set(reads.values()) <= {9, 10, 11}) == (40, True)
    monkeypatch.setattr(poller, "BUSIEST_SECONDS", 2.0)
    read_in(bench, 20, reads, after=5)
    assert (len(reads), set(reads.values()) <= {9, 10, 11}) == (40, True)


def test_a_log_that_is_seen_to_change_is_read_at_once_while_its_job_runs() -> None:
    later = says(100.2, "iteration 20/100 | lm loss: 2.0")
    bench = logging(RunScript(seconds=120.0, writes=(*QUIET.writes, later)))
    bench.run(99)
    path = bench.job("j0").attempts[-1].log_path
    assert bench.engine._poller.logs.wake([path])
    bench.run(2.5)
    assert bench.live().step == 20
    bench.reach(30, j0="COMPLETED")
    assert not bench.engine._poller.logs.wake([path])


def test_one_look_reads_so_much_and_no_log_is_left_out_for_ever(
    monkeypatch: pytest.MonkeyPatch, reads: Counter[str]
) -> None:
    monkeypatch.setattr(poller, "LOOK_BYTES", 2 * len(LINE))
    bench = logging(*[QUIET] * 5)
    bench.until(
        lambda: all(live and live.step == 10 for live in bench.snapshots[-1].live), 10
    )
    assert max(reads.values()) - min(reads.values()) <= 3
