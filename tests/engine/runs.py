"""Runs that tests of the engine are made of."""

from __future__ import annotations

from typing import Any

from tests.support.fake_script import RunScript, Write

OK = RunScript(seconds=5.0)
CRASH = RunScript(seconds=2.0, exit_code=1)
LONG = RunScript(seconds=5_000.0)


def says(at: float, *lines: str) -> Write:
    return Write(at=at, data="".join(f"{line}\n" for line in lines).encode())


def writes(*parts: Write, seconds: float = 5_000.0, **ends: Any) -> RunScript:
    return RunScript(seconds=seconds, writes=parts, **ends)


def saving(*iterations: int, seconds: float = 300.0) -> RunScript:
    """A run that saves checkpoints, one every two seconds."""
    lines = enumerate(iterations, 1)
    parts = (says(at * 2.0, f"saved {n} to /ckpt/{n}") for at, n in lines)
    return writes(*parts, seconds=seconds)
