"""The session in memory keeps the journal's contract; the manual clock; what the
simulator finds wrong with files of old attempts; the made-up Slurm says what a real
one says: texts here are copied from one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists
from autoexp_tui.events import events
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.storage.journal import decode_record, encode_record
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import ended, happen, job, plan, run, started
from tests.support.fake_script import RunScript
from tests.support.fake_slurm import FakeSlurm
from tests.support.journal_contract import JournalContract, Store
from tests.support.memory_journal import (
    Fault,
    MemoryJournal,
    MemoryLease,
    MemorySession,
)
from tests.support.sim_checks import unsure_files


def round_trip(record: Recorded) -> None:
    """What the journal on disk would do to a record."""
    assert decode_record(encode_record(record)) == record


class MemoryStore:
    """`journal_contract.Store` in memory."""

    def __init__(self) -> None:
        self.session = MemorySession(check=round_trip)

    def acquire(self) -> tuple[MemoryLease, MemoryJournal]:
        lease = self.session.acquire(holder_is_dead=True)
        return lease, self.session.open(lease)

    def load(self) -> SessionState:
        return self.session.load()

    def records(self) -> Sequence[Recorded]:
        return self.session.records

    def refuse(self) -> None:
        self.session.faults[self.session.appends] = Fault(kind="refused")


class TestMemoryJournal(JournalContract):
    def new_store(self) -> Store:
        return MemoryStore()


def test_time_passes_as_told_and_never_goes_back() -> None:
    clock = ManualClock(utc=100.0, monotonic=5.0)
    clock.set_utc(40.0)
    assert (clock.utc(), clock.monotonic()) == (40.0, 5.0)
    clock.advance(1.0)
    assert (clock.utc(), clock.monotonic()) == (41.0, 6.0)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


FILE = FileExists(path="/out/a/done", writer="a")
TEXT = FileContent(path="/out/a/done", pattern="done", writer="a")


def unsure(state: SessionState) -> dict[str, list[str]]:
    return {name: list(unsure_files(state, job)) for name, job in state.jobs.items()}


@pytest.mark.parametrize("file", [FILE, TEXT])
def test_writer_and_follower_wait_until_old_files_are_known(
    file: FileExists | FileContent,
) -> None:
    state = started(plan(job("a"), job("b", 1, start_conditions=(file,))))
    happen(state, events.JobsReleased(jobs=("b",)))
    run(state, "a")
    over = events.JobEnded(job="a", state=JobState.FAILED, cause=Cause.EXIT_CODE)
    again = events.JobRevived(job="a", from_checkpoint=False, why=why("resubmitted"))
    happen(state, ended("a"), over, again)
    assert unsure(state) == {
        "a": ["a begins anew, and nobody has looked at what lies there"],
        "b": ["b begins from /out/a/done, and a begins anew"],
    }
    happen(state, events.FilesSetAside(job="a", attempt=2))
    assert unsure(state) == {"a": [], "b": []}


SQUEUE = ("squeue", "-r", "-t", "all", "-u", "ann", "-o")
FIELDS = "%i|%A|%T|%r|%N|%P|%S|%V|%j"
SACCT = ("sacct", "-X", "-P", "-u", "ann", "-S", "uts1699999000", "-o")
ACCOUNT = "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,JobName"
NOW = 1_700_000_000


class Site:
    """A made-up cluster, and scripts to submit to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.slurm = FakeSlurm(self.clock, Ran, lambda _: (RunScript(seconds=10),))

    def run(self, *words: str, timeout: float = 30.0) -> Ran:
        return self.slurm.run(words, timeout)

    def sbatch(self, *options: str) -> None:
        script = self.root / "job.sh"
        script.write_text("#!/bin/bash\ntrue\n")
        fixed = ("sbatch", "--parsable", f"--output={self.root}/slurm-%j.out")
        self.run(*fixed, *options, str(script))

    def after(self, seconds: float) -> str:
        self.clock.advance(seconds)
        return self.run(*SQUEUE, FIELDS).stdout.partition("\n")[2]

    def accounts(self) -> str:
        self.clock.advance(1)
        return self.run(*SACCT, ACCOUNT).stdout.partition("\n")[2]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_queue_and_accounting_show_each_state_as_really(site: Site) -> None:
    site.sbatch("--job-name=over")
    site.sbatch("--job-name=waits", "--hold")
    site.after(1)
    assert site.accounts() == (
        f"1|1|COMPLETED|0:0|{NOW}|{NOW}|{NOW}|n1|over\n"
        f"2|2|PENDING|0:0|{NOW}|Unknown|Unknown|None assigned|waits\n"
    )
    site.run("scancel", "2")  # it never started and had no node
    assert f"2|2|CANCELLED by 0|0:0|{NOW}|None|{NOW + 2}|None assigned|waits\n" in (
        site.accounts()
    )
    site.sbatch("--job-name=wr|ap", "--hold")
    assert site.after(0).splitlines()[2:] == [
        f"3|3|PENDING|JobHeldUser||main|N/A|{NOW + 3}|wr|ap"
    ]


@pytest.mark.parametrize("words", [("1_[0-3]",), ("--state=PENDING", "1_2")])
def test_a_cancelled_array_leaves_one_row_without_an_index(
    site: Site, words: tuple[str, ...]
) -> None:
    """With a state, scancel takes all waiting tasks of an array."""
    site.sbatch("--array=0-3", "--hold")
    site.run("scancel", *words)
    (row,) = site.after(0).splitlines()
    assert row.startswith("1|1|CANCELLED|")
