"""Runs, rules and conditions that tests of the engine are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.kinds import JobStateIs, MaxAttempts
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.model.rules import Action, LogEvent, Monitoring, StateEvent
from tests.engine.bench import Bench
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs

OK = RunScript(seconds=5.0)
CRASH = RunScript(seconds=2.0, exit_code=1)
LONG = RunScript(seconds=5_000.0)


def says(at: float, *lines: str) -> Write:
    return Write(at=at, data="".join(f"{line}\n" for line in lines).encode())


def sample(at: float, busy: float) -> Write:
    """The wrapper notes a sample of the GPU of the first attempt of `a`."""
    gpus = [{"util_percent": busy, "used_mib": 40.0, "total_mib": 80.0, "watts": 300.0}]
    data = json.dumps({"t": 1000.0 + at, "gpus": gpus}).encode()
    return Write(at=at, data=data + b"\n", path="/attempts/a/1/gpu.jsonl")


def writes(*parts: Write, seconds: float = 5_000.0, **ends: Any) -> RunScript:
    return RunScript(seconds=seconds, writes=parts, **ends)


def saving(*iterations: int, seconds: float = 300.0) -> RunScript:
    """A run that saves checkpoints, one every two seconds."""
    lines = enumerate(iterations, 1)
    parts = (says(at * 2.0, f"saved {n} to /ckpt/{n}") for at, n in lines)
    return writes(*parts, seconds=seconds)


def done(name: str, state: str = "COMPLETED", **fields: Any) -> JobStateIs:
    return JobStateIs(jobs=(name,), state=state, **fields)


def finds(name: str, pattern: str, *actions: Action, **groups: str) -> LogEvent:
    """A rule over lines; `groups`: key of the metadata -> group of the pattern."""
    kind: Any = "regex"
    return LogEvent(
        name=name,
        pattern=pattern,
        pattern_type=kind,
        extract_groups=groups,
        actions=actions,
    )


def on_end(state: Any, *actions: Action, name: str = "again") -> StateEvent:
    return StateEvent(name=name, state=state, actions=actions)


def again(most: int = 9, **fields: Any) -> Restart:
    return Restart(conditions=(MaxAttempts(max_attempts=most),), **fields)


def on_save(*actions: Action, once: bool = False) -> Monitoring:
    """Rules that act on each checkpoint."""
    pattern = r"saved (?P<n>\d+) to (?P<path>\S+)"
    saved = finds("saved", pattern, *actions, iteration="n", checkpoint_path="path")
    return Monitoring(log_events=(replace(saved, match_once=once),))


def replace_text(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, path: str, data: bytes
) -> None:
    """A file begins anew with another text, as the next look at it finds out."""
    original, is_found = Logs.read, list[bool]()

    def read(logs: Logs, at: LogCursor) -> LogChunk | None:
        if at.path != path or is_found:
            return original(logs, at)
        is_found.append(True)
        chunk = original(logs, replace(at, offset=0))
        assert chunk is not None
        return replace(chunk, reset=True)

    monkeypatch.setattr(Logs, "read", read)
    bench.files.data[path] = data
    bench.files.watcher((path,))
    bench.run(5)
    assert is_found
