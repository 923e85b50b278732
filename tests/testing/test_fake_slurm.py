"""The made-up Slurm says what a real one says: texts here are copied from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_script import RunScript
from tests.support.fake_slurm import FakeSlurm

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
