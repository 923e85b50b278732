"""Disks that refuse amid a campaign: nothing is sent unwritten, and all goes on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.assemble import Ground
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.loop import Engine
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Submit
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.inbox import FileInbox
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import create_session
from tests.engine.bench import Bench
from tests.engine.parts import done
from tests.model.builders import job, plan
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import MemoryLease

_BY_PATH = ("replace", "link", "mkdir", "symlink")
_BY_DESCRIPTOR = ("pwrite", "write", "fsync")


class BreakableDisk:
    """A layer under the files of a test: writes below `root` are counted, and raise
    the chosen error while it is broken; what reads goes on."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = str(root)
        self.code = 0
        """The error that writes raise; 0: the disk is well."""
        self.writes = 0
        """So many were tried."""
        self.break_at: tuple[int, int] | None = None
        """(number of a write, error): the disk breaks there."""
        self._real_open = os.open
        monkeypatch.setattr(os, "open", self._open)
        for name in _BY_PATH:
            monkeypatch.setattr(os, name, self._by_path(getattr(os, name)))
        for name in _BY_DESCRIPTOR:
            monkeypatch.setattr(os, name, self._by_descriptor(getattr(os, name)))
        sync = "autoexp_tui.storage.journal_writer.sync_data"
        monkeypatch.setattr(sync, self._by_descriptor(os.fsync))

    def _strike(self, path: str) -> None:
        if not path.startswith(self.root):
            return
        if self.break_at is not None and self.writes >= self.break_at[0]:
            self.code, self.break_at = self.break_at[1], None
        self.writes += 1
        if self.code:
            raise OSError(self.code, os.strerror(self.code), path)

    def _open(self, path: Any, flags: int, *args: Any, **named: Any) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            self._strike(os.fspath(path))
        return self._real_open(path, flags, *args, **named)

    def _by_path(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **named: Any) -> Any:
            self._strike(os.fspath(path))
            return real(path, *args, **named)

        return call

    def _by_descriptor(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *args: Any, **named: Any) -> Any:
            self._strike(os.readlink(f"/proc/self/fd/{descriptor}"))
            return real(descriptor, *args, **named)

        return call


class Disks(Bench):
    """A campaign of two jobs, one after the other, on a real disk."""

    def __init__(self, root: Path) -> None:
        def spec(name: str, **fields: Any) -> JobSpec:
            places = (str(root / "out" / name), str(root / "log" / name))
            return job(name, output_dir=places[0], log_dir=places[1], **fields)

        self.session: SessionDir = create_session(root / "state", lambda _n: "k7f2")
        after = {"start_conditions": (done("first"),), "depends_on": ("first",)}
        both = (spec("first"), spec("second", **after))
        super().__init__(plan(*both, state_dir=str(root / "state")), submit=False)

    def start(self) -> None:
        """An engine, the first one or after a kill."""
        self.pool = InlinePool()
        # Of a process that does not live: the next engine need not wait.
        me = replace(Identity.get_own(), started="1")
        lease = take_lease(self.session, self.clock, me=me)
        self.journal = FileJournal(self.session, lease)
        in_memory = MemoryLease(self.world.session, lease.epoch)
        real = replace(
            self.world.parts(in_memory, self.pool),
            journal=self.journal,
            lease=lease,
            inbox=FileInbox(self.session),
            preparation=Ground(self.session),
            store_plan=self.journal.add_plan,
            load_plan=self.session.load_plan,
            attempt_dir=self.session.get_attempt,
        )
        state, sha = self.journal.load().state, self.journal.add_plan(self._plan)
        plans = state.plans if state.session else {sha: self._plan}
        self.engine = Engine(replace(state, plans=plans), real, self.snapshots.append)
        self.engine.begin(self.make_first(state, sha, self.journal.seal))
        # Whoever gave the command had no answer, and gives it again.
        self.engine.order(Order(command_id="c1", command=Submit()))

    def is_done(self) -> bool:
        return set(self.states().values()) == {"COMPLETED"}

    def begun(self) -> list[tuple[str, int]]:
        """Each attempt that the executor began."""
        return [begun.task for begun in self.executor.begun]

    def recorded(self) -> list[events.Event]:
        return [record.event for record in read_session(self.session)]

    def come_to_end(self) -> None:
        """What is on disk is what the engine knows, and nothing ran twice."""
        self.until(self.is_done, 400)
        loaded = load_state(self.session)
        assert loaded.state.jobs == self.engine.state.jobs
        assert self.begun() == [("first", 1), ("second", 1)]
        seqs = [record.seq for record in read_session(self.session)]
        assert seqs == list(range(1, len(seqs) + 1))


def break_at_writes(root: Path, code: int, step: int) -> None:
    """A campaign for every `step`-th write of one, at which its disk will break; the
    harness's own start is not counted."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = BreakableDisk(root, monkeypatch)
        campaign = Disks(root / "reference")
        disk.writes = 0
        campaign.until(campaign.is_done, 400)
        writes = disk.writes
    for number in range(0, writes, step):
        place = root / str(number)
        place.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = BreakableDisk(place, monkeypatch)
            campaign = Disks(place)
            disk.writes, disk.break_at = 0, (number, code)
            campaign.run(15.0)
            ordered = {
                task
                for event in campaign.recorded()
                if isinstance(event, events.EffectOrdered)
                and isinstance(event.effect, SubmitTasks)
                for task in event.effect.tasks
            }
            assert set(campaign.begun()) <= ordered
            disk.code, disk.break_at = 0, None
            campaign.come_to_end()


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


@pytest.mark.parametrize("code", [errno.EDQUOT, errno.EACCES])
def test_a_job_whose_own_disk_is_full_waits_for_room_and_fails_where_it_may_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "out").mkdir()
    disk = BreakableDisk(tmp_path / "out", monkeypatch)
    campaign = Disks(tmp_path)
    disk.code = code
    campaign.run(30.0)
    if code == errno.EACCES:
        assert campaign.state("first") == "FAILED"
        return
    why = campaign.why("first")
    assert (campaign.state("first"), why.code) == ("SUBMITTING", "disk_refuses")
    assert "quota" in str(why.arg("message")).lower()
    disk.code = 0
    campaign.come_to_end()


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
    faults = (e for e in campaign.recorded() if isinstance(e, events.EngineFaulted))
    assert [event.where for event in faults] == ["inbox"]
    assert campaign.is_done()


def test_an_engine_goes_on_when_its_session_directory_is_back(tmp_path: Path) -> None:
    campaign = Disks(tmp_path)
    campaign.run(1.0)
    campaign.session.path.rename(tmp_path / "away")
    campaign.run(30.0)
    assert "is gone" in campaign.snapshots[-1].engine.holding
    (tmp_path / "away").rename(campaign.session.path)
    campaign.come_to_end()
    assert not campaign.snapshots[-1].engine.holding
