"""Disks that refuse amid a campaign: nothing is sent unwritten, and all goes on."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import Ground
from autoexp_tui.conditions.jobs import JobStateIs
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.loop import HOLD_SECONDS, Engine
from autoexp_tui.engine.ports import Parts
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Pause, Submit
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.event import fold
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.inbox import FileInbox, leave
from autoexp_tui.storage.journal import StoredPlans, load_state, read_session
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease, take_lease
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import create_session
from autoexp_tui.testing.clock import ManualClock
from tests.storage.breakable_disk import BreakableDisk
from tests.storage.disk_session import Died
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import by_job
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import MemoryLease
from tests.support.sim_world import Files, World

REFUSALS = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO]


def spec(root: Path, name: str, *, after: str = "") -> JobSpec:
    return JobSpec(
        name=name,
        index=0,
        stage=name,
        command=("true",),
        output_dir=str(root / "out" / name),
        log_dir=str(root / "log" / name),
        start_conditions=(
            (JobStateIs(jobs=(after,), state="COMPLETED"),) if after else ()
        ),
        depends_on=(after,) if after else (),
    )


class Disks:
    """A campaign of two jobs, one after the other, on a real disk."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        files = Files(self.clock)
        self.executor = FakeExecutor(self.clock, by_job({}), write=files.append)
        world = World(clock=self.clock, executor=self.executor, files=files)
        self.world = world
        self.session: SessionDir = create_session(root / "state", lambda _n: "k7f2")
        self.plan = Plan(
            plan_id="p",
            name="disks",
            state_dir=str(root / "state"),
            jobs=(spec(root, "first"), spec(root, "second", after="first")),
        )
        self.faults: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.lease: FileLease
        self.journal: FileJournal
        self.start()

    def start(self) -> None:
        """An engine, the first one or after a kill."""
        self.pool = InlinePool()
        # Of a process that does not live: the next engine need not wait.
        me = replace(Identity.get_own(), started="1")
        self.lease = take_lease(self.session, self.clock, me=me)
        self.journal = FileJournal(self.session, self.lease)
        world = self.world
        parts = world.parts(MemoryLease(world.session, self.lease.epoch), self.pool)
        self.engine = self._engine(parts)

    def _engine(self, parts: Parts) -> Engine:
        real = replace(
            parts,
            journal=self.journal,
            lease=self.lease,
            inbox=FileInbox(self.session),
            preparation=Ground(self.session),
            store_plan=self.journal.add_plan,
            attempt_dir=self.session.get_attempt,
            log_fault=self.faults.append,
        )
        state = self.journal.load().state
        seal = self.journal.seal
        if state.session:
            engine = Engine(state, real, self.snapshots.append)
            started = events.EngineStarted(
                host="h", pid=1, sealed_part=seal.part, sealed_bytes=seal.bytes
            )
            engine.begin([started])
            # Whoever gave the command had no answer, and gives it again.
            engine.order(Order(command_id="c1", command=Submit()))
            return engine
        sha = self.journal.add_plan(self.plan)
        engine = Engine(
            replace(state, plans={sha: self.plan}), real, self.snapshots.append
        )
        engine.begin(
            [
                events.SessionStarted(
                    session="k7f2",
                    name="disks",
                    engine_version="0",
                    wrapper_version="0",
                    plan_sha=sha,
                ),
                events.EngineStarted(host="h", pid=1),
                events.PlanAdded(sha=sha),
            ]
        )
        engine.order(Order(command_id="c1", command=Submit()))
        return engine

    # ------------------------------------------------------------------------ time
    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.step()
            self.clock.advance(0.5)
            self.executor.settle()

    def step(self) -> None:
        for _ in range(200):
            self.engine.commit()
            if not self.pool.step():
                return

    def until_done(self) -> None:
        for _ in range(400):
            if self.done():
                return
            self.run(1.0)
        raise AssertionError(f"it never came to its end: {self.states()}")

    def done(self) -> bool:
        return set(self.states().values()) == {JobState.COMPLETED}

    def states(self) -> dict[str, JobState]:
        return {name: job.state for name, job in self.engine.state.jobs.items()}

    @property
    def shown(self) -> Snapshot:
        return self.snapshots[-1]

    def begun(self) -> list[tuple[str, int]]:
        """Each attempt that the executor began."""
        return [begun.task for begun in self.executor.begun]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BreakableDisk:
    return BreakableDisk(tmp_path, monkeypatch)


def check_sound(campaign: Disks) -> None:
    """What is on disk is what the engine knows, and nothing ran twice."""
    loaded = load_state(campaign.session)
    assert loaded.state.jobs == campaign.engine.state.jobs
    assert campaign.begun() == [("first", 1), ("second", 1)]
    seqs = [record.seq for record in read_session(campaign.session)]
    assert seqs == list(range(1, len(seqs) + 1))


def ordered_on_disk(session: SessionDir) -> set[tuple[str, int]]:
    """The tasks whose submission the journal holds."""
    ordered = (record.event for record in read_session(session))
    return {
        task
        for event in ordered
        if isinstance(event, events.EffectOrdered)
        and isinstance(event.effect, SubmitTasks)
        for task in event.effect.tasks
    }


def writes_of_a_campaign(root: Path) -> int:
    """How many writes a campaign takes; the harness's own start is not counted."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = BreakableDisk(root, monkeypatch)
        campaign = Disks(root)
        disk.writes = 0
        campaign.until_done()
        return disk.writes


# -------------------------------------------------------------------- at every write


def break_at_writes(root: Path, code: int, step: int) -> None:
    """Break the disk at every `step`-th write of a campaign, for a while each time."""
    for number in range(0, writes_of_a_campaign(root / "reference"), step):
        with pytest.MonkeyPatch.context() as monkeypatch:
            place = root / str(number)
            place.mkdir()
            disk = BreakableDisk(place, monkeypatch)
            campaign = Disks(place)
            disk.writes, disk.break_at = 0, (number, code)
            campaign.run(15.0)
            assert set(campaign.begun()) <= ordered_on_disk(campaign.session)
            disk.code, disk.break_at = 0, None
            campaign.until_done()
            check_sound(campaign)


@pytest.mark.parametrize(
    ("code", "step"),
    [(errno.ENOSPC, 7), (errno.EIO, 13), (errno.EDQUOT, 31), (errno.EROFS, 31)],
)
def test_a_disk_that_refuses_at_some_write_costs_time_alone(
    tmp_path: Path, code: int, step: int
) -> None:
    break_at_writes(tmp_path, code, step)


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_write_costs_time_alone(tmp_path: Path) -> None:
    break_at_writes(tmp_path, errno.ENOSPC, 1)


# ------------------------------------------------------------------------------ kills
def kill_at_writes(root: Path, step: int) -> int:
    """Kill the engine at every `step`-th write of a campaign; how many kills."""
    kills = 0
    for number in range(0, writes_of_a_campaign(root / "reference"), step):
        place = root / str(number)
        place.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = BreakableDisk(place, monkeypatch, death=Died)
            campaign = Disks(place)
            disk.writes, disk.break_at = 0, (number, errno.EIO)
            with suppress(Died):
                while not campaign.done() and not disk.code:
                    campaign.run(0.5)
        kills += disk.code != 0
        sealed = load_state(campaign.session).state
        alone = fold(
            SessionState(plans=StoredPlans(campaign.session)),
            read_session(campaign.session),
        )
        assert sealed == alone
        campaign.start()
        campaign.until_done()
        check_sound(campaign)
    return kills


def test_a_kill_at_some_write_loses_nothing_and_runs_nothing_twice(
    tmp_path: Path,
) -> None:
    assert kill_at_writes(tmp_path, 5) > 10


@pytest.mark.slow
def test_a_kill_at_any_write_loses_nothing_and_runs_nothing_twice(
    tmp_path: Path,
) -> None:
    assert kill_at_writes(tmp_path, 1) > 60


# ------------------------------------------------------------------------------ hold
@pytest.mark.parametrize("code", REFUSALS, ids=lambda code: errno.errorcode[code])
def test_an_engine_whose_disk_refuses_sends_nothing_and_says_so(
    tmp_path: Path, disk: BreakableDisk, code: int
) -> None:
    campaign = Disks(tmp_path)
    disk.code = code
    campaign.run(20.0)
    assert campaign.begun() == []
    assert os.strerror(code) in campaign.shown.engine.holding
    assert campaign.states()["first"] is JobState.PLANNED


def test_an_engine_goes_on_within_seconds_when_the_disk_takes_writes_again(
    tmp_path: Path, disk: BreakableDisk
) -> None:
    campaign = Disks(tmp_path)
    disk.code = errno.ENOSPC
    campaign.run(60.0)
    disk.code = 0
    campaign.run(HOLD_SECONDS + 1.0)
    assert campaign.begun()[:1] == [("first", 1)]
    assert not campaign.shown.engine.holding
    campaign.until_done()
    check_sound(campaign)


def test_a_job_whose_own_disk_is_full_waits_for_room_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    disk = BreakableDisk(tmp_path / "out", monkeypatch)
    campaign = Disks(tmp_path)
    disk.code = errno.EDQUOT
    campaign.run(30.0)
    waiting = campaign.engine.state.jobs["first"]
    assert waiting.state is JobState.SUBMITTING
    assert waiting.why is not None
    assert waiting.why.code == "disk_refuses"
    assert "quota" in str(waiting.why.arg("message")).lower()
    disk.code = 0
    campaign.until_done()
    check_sound(campaign)


def test_a_directory_that_may_not_be_written_fails_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    disk = BreakableDisk(tmp_path / "out", monkeypatch)
    campaign = Disks(tmp_path)
    disk.code = errno.EACCES
    campaign.run(5.0)
    assert campaign.states()["first"] is JobState.FAILED


def test_a_command_that_cannot_be_left_is_told_to_who_left_it(
    tmp_path: Path, disk: BreakableDisk
) -> None:
    campaign = Disks(tmp_path)
    disk.code = errno.ENOSPC
    order = Order(command_id="c2", command=Pause())
    with pytest.raises(EnvironmentFailed, match="No space left") as caught:
        leave(campaign.session, order, 1.0)
    assert "free some space" in caught.value.hint
    assert list(campaign.session.inbox.glob("*.json")) == []


def paused(campaign: Disks) -> bool:
    return campaign.engine.state.paused is not None


def test_a_command_that_came_before_the_disk_was_full_is_done_after(
    tmp_path: Path, disk: BreakableDisk
) -> None:
    campaign = Disks(tmp_path)
    leave(campaign.session, Order(command_id="c2", command=Pause()), 1.0)
    disk.code = errno.ENOSPC
    campaign.run(10.0)
    assert not paused(campaign)
    disk.code = 0
    campaign.run(10.0)
    assert paused(campaign)
    assert "c2" in load_state(campaign.session).state.commands
    assert list(campaign.session.inbox.glob("*.json")) == []


def test_an_inbox_that_cannot_be_read_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Disks(tmp_path)
    listing = os.listdir

    def broken(path: str) -> list[str]:
        if str(path) == str(campaign.session.inbox):
            raise OSError(errno.EIO, "Input/output error")
        return listing(path)

    monkeypatch.setattr(os, "listdir", broken)
    campaign.run(60.0)
    told = [
        record.event
        for record in read_session(campaign.session)
        if isinstance(record.event, events.EngineFaulted)
    ]
    assert [event.where for event in told] == ["inbox"]
    assert campaign.done()


def test_an_engine_goes_on_when_its_session_directory_is_back(tmp_path: Path) -> None:
    campaign = Disks(tmp_path)
    campaign.run(1.0)
    campaign.session.path.rename(tmp_path / "away")
    campaign.run(30.0)
    assert "is gone" in campaign.shown.engine.holding
    (tmp_path / "away").rename(campaign.session.path)
    campaign.until_done()
    assert not campaign.shown.engine.holding
    check_sound(campaign)


# ---------------------------------------------------------------- before it has begun
@pytest.mark.parametrize("code", REFUSALS, ids=lambda code: errno.errorcode[code])
def test_a_session_on_a_disk_that_refuses_is_an_error_with_a_remedy(
    tmp_path: Path, disk: BreakableDisk, code: int
) -> None:
    disk.code = code
    with pytest.raises(EnvironmentFailed) as caught:
        Disks(tmp_path)
    assert caught.value.exit_code == 5
    assert caught.value.hint


# -------------------------------------------------------------------- a real small disk
@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, which only root can mount."""
    mount = shutil.which("mount")
    place = tmp_path / "small"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run([mount, *options], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all room."""
    filler = place / "filler"
    free = os.statvfs(place)
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for _ in range(free.f_bavail * free.f_frsize // 1024 + 64):
            file.write(b"x" * 1024)
    assert os.statvfs(place).f_bavail == 0
    return filler


def test_on_a_real_full_disk_the_engine_holds_and_goes_on(small_disk: Path) -> None:
    campaign = Disks(small_disk)
    filler = fill(small_disk)
    campaign.run(60.0)
    assert not campaign.done()
    held = [shot.engine.holding for shot in campaign.snapshots if shot.engine.holding]
    assert any("No space left" in text for text in held) or _waits_for_room(campaign)
    filler.unlink()
    campaign.until_done()
    check_sound(campaign)


def _waits_for_room(campaign: Disks) -> bool:
    codes = [job.why.code for job in campaign.engine.state.jobs.values() if job.why]
    return "disk_refuses" in codes


def test_on_a_real_read_only_disk_nothing_is_taken_or_left(small_disk: Path) -> None:
    campaign = Disks(small_disk)
    campaign.journal.close()  # an open file keeps a file system from read-only
    new = small_disk / "state" / "new"
    new.mkdir(mode=0o700)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        with pytest.raises(EnvironmentFailed, match="Read-only"):
            leave(campaign.session, Order(command_id="c2", command=Pause()), 1.0)
        with pytest.raises(EnvironmentFailed, match="Read-only"):
            take_lease(SessionDir(new), campaign.clock)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
