"""Real engines whose wall clock is set under a cooldown and a time-out, over a restart.

Only the engines' own clock is set: a module that Python reads at its start adds the
number in a file to what `time.time` says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import encode_plan
from autoexp_tui.storage.session_dir import SessionDir

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
class World:
    """A session of two jobs, and the clock of its engines."""

    root: Path
    stack: ExitStack

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
        jobs = (
            self._job("crashes", 0, "exit 1"),
            self._job(
                "waits",
                1,
                "true",
                start_conditions=(FileExists(path="/never", timeout_seconds=20.0),),
            ),
        )
        rule = StateEvent(name="again", state="crash", actions=(restart,))
        plan = Plan(
            plan_id="p",
            name="clock",
            state_dir=str(self.root / "state"),
            jobs=jobs,
            executor=ExecutorSpec(settings={"slots": 4}),
            monitoring=Monitoring(poll_seconds=0.3, state_events=(rule,)),
        )
        (self.root / "plan.json").write_bytes(encode_plan(plan))

    def _job(self, name: str, index: int, script: str, **fields: object) -> JobSpec:
        out = self.root / "out" / name
        out.mkdir(parents=True)
        return JobSpec(
            name=name,
            index=index,
            command=("sh", "-c", script),
            output_dir=str(out),
            log_dir=str(self.root / "logs" / name),
            **fields,  # type: ignore[arg-type]
        )

    def start(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start an engine with the clock that is set."""
        words = [sys.executable, "-m", f"autoexp_tui.cli.{command}"]
        words += ["--state-dir", str(self.root / "state"), *arguments]
        process = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.root,
            env={
                **os.environ,
                "PYTHONPATH": str(self.root),
                "CLOCK_OFFSET": str(self.root / "offset"),
            },
        )
        self.stack.callback(process.communicate)
        self.stack.callback(process.kill)
        return process

    @property
    def session(self) -> SessionDir | None:
        found = list((self.root / "state").glob("*/journal.*.jsonl"))
        return SessionDir(found[0].parent) if found else None

    def state(self) -> SessionState | None:
        session = self.session
        return load_state(session, tail=1).state if session else None

    def until(self, holds: Callable[[SessionState], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (state := self.state()) is None or not holds(state):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.3)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        made = World(tmp_path, stack)
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
    world: World, step: float
) -> None:
    engine = world.start("run", "--manifest", str(world.root / "plan.json"), "--yes")
    world.until(retries(2), 60)
    world.set_clock(step)
    world.until(lambda state: "clock" in state.warnings, 30)
    session = world.session
    assert session is not None
    engine.kill()
    engine.wait()
    world.start("monitor", "--session", session.id)
    world.until(all_ended, 90)
    state = world.state()
    assert state is not None
    assert len(state.jobs["crashes"].attempts) == 3
    assert state.jobs["waits"].state is JobState.SKIPPED
    assert state.lived < 180
