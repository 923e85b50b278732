"""Real engines whose wall clock is set under a cooldown and a time-out, over a restart.

Only the engines' own clock is set: a module that Python reads at its start adds the
number in a file to what `time.time` says.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from tests.e2e.campaign import World, build_job, save_plan

HOUR = 3600.0
YEAR = 365.25 * 24 * HOUR
CLOCK = """
import os, time
_real, _path = time.time, os.environ["CLOCK_OFFSET"]

def _shown():
    with open(_path) as file:
        return _real() + float(file.read())

time.time = _shown
"""


@dataclass
class Clocked(World):
    """A session of two jobs, and the clock of its engines."""

    def set_clock(self, seconds: float) -> None:
        """By so many the engines' wall clock is ahead of ours."""
        new = self.root / "offset.new"
        new.write_text(str(seconds))
        new.replace(self.root / "offset")

    def begin(self) -> None:
        (self.root / "sitecustomize.py").write_text(CLOCK)
        self.set_clock(0.0)
        restart = Restart(
            conditions=(MaxAttempts(max_attempts=3), Cooldown(cooldown_seconds=6.0))
        )
        never = FileExists(path="/never", timeout_seconds=20.0)
        jobs = (
            build_job(self.root, "crashes", 0, "sh", "-c", "exit 1"),
            build_job(self.root, "waits", 1, "true", start_conditions=(never,)),
        )
        rule = StateEvent(name="again", state="crash", actions=(restart,))
        rules = Monitoring(poll_seconds=0.3, state_events=(rule,))
        save_plan(self.root, jobs, rules, slots=4)

    def run(self, command: str, *words: str) -> subprocess.Popen[bytes]:
        """Start an engine with the clock that is set."""
        offset = str(self.root / "offset")
        return self.start(command, *words, CLOCK_OFFSET=offset)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Clocked]:
    with ExitStack() as stack:
        made = Clocked(tmp_path, stack)
        made.begin()
        yield made


def retries(attempts: int) -> Callable[[SessionState], bool]:
    def holds(state: SessionState) -> bool:
        job = state.jobs.get("crashes")
        waits = job is not None and job.state is JobState.RETRYING
        return waits and job is not None and len(job.attempts) == attempts

    return holds


def all_ended(state: SessionState) -> bool:
    return bool(state.jobs) and all(job.ended for job in state.jobs.values())


@pytest.mark.parametrize("step", [-HOUR, YEAR])
def test_real_engines_hold_nothing_up_when_their_clock_is_set(
    world: Clocked, step: float
) -> None:
    engine = world.run("run", "--manifest", "plan.json", "--yes")
    world.until(retries(2), 60)
    world.set_clock(step)
    world.until(lambda state: "clock" in state.warnings, 30)
    engine.kill()
    engine.wait()
    world.run("monitor", "--session", world.session.id)
    world.until(all_ended, 90)
    state = world.state()
    assert len(state.jobs["crashes"].attempts) == 3
    assert state.jobs["waits"].state is JobState.SKIPPED
    assert state.lived < 180
