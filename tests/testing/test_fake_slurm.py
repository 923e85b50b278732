"""The made-up Slurm says what a real one says: texts here are copied from one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_script import RunScript
from tests.support.fake_slurm import FakeSlurm

SQUEUE = ("squeue", "-h", "-r", "-t", "all", "-u", "ann", "-o")
FIELDS = "%i|%A|%T|%r|%N|%P|%S|%V|%j"
SACCT = ("sacct", "-X", "-P", "-n", "-u", "ann", "-S", "uts1699999000", "-o")
ACCOUNT = "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,JobName"
NOW = 1_700_000_000


class Site:
    """A made-up cluster, and scripts to submit to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        scripts = (RunScript(seconds=10),)
        self.slurm = FakeSlurm(self.clock, Ran, lambda _: scripts)

    def run(self, *words: str, timeout: float = 30.0) -> Ran:
        return self.slurm.run(words, timeout)

    def script(self, text: str = "") -> str:
        path = self.root / "job.sh"
        path.write_text(text or "#!/bin/bash\ntrue\n")
        return str(path)

    def sbatch(self, *options: str, text: str = "") -> Ran:
        fixed = ("sbatch", "--parsable", f"--output={self.root}/slurm-%j.out")
        return self.run(*fixed, *options, self.script(text))

    def wrapped(self, count: int = 1, **more: object) -> str:
        """A script that starts the wrapper, with its task files; its text."""
        for index in range(count):
            attempt = self.root / "attempts" / str(index)
            attempt.mkdir(parents=True, exist_ok=True)
            fields = {
                "job": f"a{index}",
                "attempt": 1,
                "command": ["true"],
                "output_dir": str(self.root),
                "log_dir": str(self.root / "log" / str(index)),
                "attempt_dir": str(attempt),
                "token": "tok",
                "nonce": "tok",
                "grace_seconds": 5.0,
                **more,
            }
            (self.root / f"{index}.json").write_text(json.dumps(fields))
        end = "/${SLURM_ARRAY_TASK_ID:-0}.json"
        return f"#!/bin/bash\nexec python3 w.py {self.root}{end}\n"

    def queue(self) -> str:
        return self.run(*SQUEUE, FIELDS).stdout

    def accounts(self) -> str:
        return self.run(*SACCT, ACCOUNT).stdout

    def states(self) -> dict[str, str]:
        rows = (line.split("|") for line in self.queue().splitlines())
        return {row[0]: row[2] for row in rows}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_running_and_a_held_job_are_shown_as_really(site: Site) -> None:
    site.sbatch("--job-name=run|s", text=site.wrapped())
    site.sbatch("--job-name=waits", "--hold")
    site.clock.advance(1)
    site.queue()
    assert site.queue() == (
        f"1|1|RUNNING|None|n1|main|{NOW}|{NOW}|run|s\n"
        f"2|2|PENDING|JobHeldUser||main|N/A|{NOW}|waits\n"
    )


def test_accounting_shows_an_ended_and_a_waiting_job_as_really(site: Site) -> None:
    site.sbatch("--job-name=over")
    site.sbatch("--job-name=waits", "--hold")
    site.clock.advance(1)
    site.run(*SQUEUE, FIELDS)
    site.clock.advance(1)
    assert site.accounts() == (
        f"1|1|COMPLETED|0:0|{NOW}|{NOW}|{NOW}|n1|over\n"
        f"2|2|PENDING|0:0|{NOW}|Unknown|Unknown|None assigned|waits\n"
    )


def test_a_cancelled_job_that_never_started_has_no_node_in_accounting(
    site: Site,
) -> None:
    site.sbatch("--hold")
    site.run("scancel", "1")
    site.clock.advance(1)
    assert site.accounts() == (
        f"1|1|CANCELLED by 0|0:0|{NOW}|None|{NOW}|None assigned|wrap\n"
    )


def test_tasks_of_a_waiting_array_are_one_row_unless_asked_apart(site: Site) -> None:
    site.sbatch("--array=0-3", "--hold")
    together = site.run("squeue", "-h", "-t", "all", "-u", "ann", "-o", "%i").stdout
    assert together == "1_[0-3]\n"
    assert list(site.states()) == ["1_0", "1_1", "1_2", "1_3"]


def test_a_started_task_has_an_id_of_its_own_and_the_last_the_array_s(
    site: Site,
) -> None:
    site.sbatch("--array=0-2", text=site.wrapped(3))
    site.clock.advance(1)
    raw = [line.split("|")[1] for line in site.queue().splitlines()]
    assert raw == ["2", "3", "1"]


def test_scancel_by_name_alone_is_silent_about_what_is_over(site: Site) -> None:
    ran = site.run("scancel", "9999")
    assert (ran.status, ran.stderr) == (0, "")


def test_scancel_with_a_filter_tells_what_is_over(site: Site) -> None:
    ran = site.run("scancel", "--state=PENDING", "9999")
    assert (ran.status, ran.stderr) == (
        1,
        "scancel: error: Kill job error on job id 9999: Invalid job id specified\n",
    )


def test_the_last_of_a_cancelled_array_leaves_one_row_without_an_index(
    site: Site,
) -> None:
    site.sbatch("--array=0-1", "--hold")
    site.run("scancel", "1_[0-1]")
    assert site.states() == {"1": "CANCELLED"}


def test_scancel_with_a_state_takes_all_waiting_tasks_of_an_array(site: Site) -> None:
    site.sbatch("--array=0-3", "--hold")
    site.run("scancel", "--state=PENDING", "1_2")
    assert site.states() == {"1": "CANCELLED"}


def test_a_signal_to_a_waiting_job_is_tried_for_long_and_in_vain(site: Site) -> None:
    site.sbatch("--hold")
    began = site.clock.monotonic()
    ran = site.run("scancel", "--batch", "--signal=TERM", "1", timeout=200)
    assert "Job can not be altered now, try again later" in ran.stderr
    assert site.clock.monotonic() - began > 60
    assert site.run("scancel", "--batch", "--signal=TERM", "1", timeout=9).timed_out


def test_accounting_keeps_a_requeued_job_as_requeued_until_it_runs(site: Site) -> None:
    site.sbatch(text=site.wrapped())
    site.clock.advance(1)
    site.queue()
    site.run("scontrol", "requeue", "1")
    site.clock.advance(1)
    assert "1|1|REQUEUED|0:0|" in site.accounts()
