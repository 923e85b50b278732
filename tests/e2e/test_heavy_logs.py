"""A real engine over logs that are made to be slow to search.

What it does in each commit is noted by a module that Python reads at its start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import LogPattern
from autoexp_tui.engine.handle import make_command_id
from autoexp_tui.model.commands import Command, Kill, Order, Pause
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.inbox import leave
from tests.e2e.campaign import Place, build_job, save_plan, wait_until

NOTES = """
import os, sys, time
if "autoexp_tui.cli" in " ".join(sys.orig_argv):
    notes = os.open("notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    from autoexp_tui.engine.loop import Engine
    commit = Engine.commit

    def noted(self):
        cpu = time.thread_time()
        commit(self)
        used = time.thread_time() - cpu
        known = ",".join(self.state.commands)
        os.write(notes, f"commit {used:.3f} {known}\\n".encode())

    Engine.commit = noted
"""
EXPLODING = "[ab]*a[ab]{300}#"
"""Has RE2 forget what it learned of it, all the time."""
UNTIL_STOPPED = """
import os, random, sys, time
line = bytes(random.Random(1).choices(b"ab", k=60_000)) + b"\\n"
def write(text):
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
{first}
while not os.path.exists("{stop}"):
    {each}
    time.sleep(0.1)
"""
SLOW = {"each": "write(line * 8)"}
FLOOD = {"each": 'write(b"match me 17\\n" * 6_000)'}
RUNNING = JobState.RUNNING
ENDLESS = {"first": 'for _ in range(500): write(b"ab" * (1 << 19))'}


@dataclass(frozen=True)
class Noted(Place):
    """One session of a real engine, its commits noted."""

    def engine(self, *words: str) -> subprocess.Popen[str]:
        env = {"PYTHONPATH": str(self.root)}
        return self.start("--yes", *words, out=subprocess.DEVNULL, **env)

    def job(self, index: int, name: str, first: str = "", each: str = "") -> JobSpec:
        """A job that runs a program of Python's."""
        text = UNTIL_STOPPED.format(stop=self.stop, first=first, each=each)
        return build_job(self.root, name, index, sys.executable, "-c", text)

    @property
    def stop(self) -> Path:
        """The jobs end once it is there, whatever became of the engine."""
        return self.root / "stop"

    def commits(self) -> list[str]:
        return (self.root / "notes").read_text().splitlines()

    def give(self, command: Command) -> str:
        """Leave a command in the inbox."""
        order = Order(command_id=make_command_id(), command=command, by="script")
        leave(self.session_dir, order, time.time())
        return order.command_id

    def seconds_until_known(self, command: str) -> float:
        """Until some commit knows the command."""
        begun = time.monotonic()
        wait_until(
            lambda: any(command in line for line in self.commits()[-50:]),
            seconds=120,
        )
        return time.monotonic() - begun


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Noted]:
    made = Noted(tmp_path)
    yield made
    made.stop.touch()
    made.end()


def heavy(world: Noted) -> subprocess.Popen[str]:
    """An engine amid logs that are slow to search."""
    log = str(world.root / "logs" / "slow" / "current.log")
    waits = (LogPattern(log_path=log, pattern=EXPLODING),)
    jobs = (
        world.job(0, "slow", **SLOW),
        world.job(1, "flood", **FLOOD),
        world.job(2, "endless", **ENDLESS),
        build_job(world.root, "waits", 3, "true", start_conditions=waits),
    )
    rules = (
        LogEvent(name="slow", pattern=EXPLODING, pattern_type="regex"),
        LogEvent(name="flood", pattern="match me"),
    )
    (world.root / "sitecustomize.py").write_text(NOTES)
    save_plan(world.root, jobs, Monitoring(poll_seconds=0.5, log_events=rules))
    engine = world.engine("--manifest", "plan.json")
    world.until(
        lambda state: [job.state for job in state.jobs.values()][:3] == [RUNNING] * 3,
        90,
    )
    world.until(lambda state: bool(state.warnings), 60)  # it matches too often
    return engine


def test_commands_wait_for_few_short_commits_and_a_signal_or_a_kill_ends_it(
    world: Noted,
) -> None:
    engine = heavy(world)
    before = len(world.commits())
    known = world.give(Pause())
    took = world.seconds_until_known(known)
    commits = world.commits()
    taken = next(at for at, line in enumerate(commits) if known in line)
    used = [float(line.split()[1]) for line in commits]
    assert sum(used[before : taken + 1]) < 3.0
    assert max(used) < 2.0
    assert took < 3.0 or os.getloadavg()[0] > (os.cpu_count() or 1)
    engine.send_signal(signal.SIGTERM)
    assert engine.wait(20) == 130
    before = len(world.commits())
    engine = world.engine("--session", world.session())
    wait_until(lambda: len(world.commits()) >= before + 15, "the next engine")
    world.give(Kill(jobs=("slow", "flood", "endless", "waits")))
    world.until(lambda state: all(job.ended for job in state.jobs.values()), 120)
    assert engine.wait(60) == 1
