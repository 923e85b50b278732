"""A trainer small enough for tests, in this process or in one of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from autoexp_tui.demo.command_line import main

SMALL = (
    "train",
    *("--context", "4", "--hidden", "8", "--batch-size", "8"),
    *("--train-iters", "40", "--warmup-iters", "5", "--lr", "0.01"),
    *("--log-interval", "10", "--save-interval", "10", "--eval-interval", "0"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a caller of the trainer sees."""

    status: int
    out: str
    err: str

    def lines(self, word: str) -> list[str]:
        """The printed lines that hold a word."""
        return [line for line in self.out.splitlines() if word in line]


Run = Callable[..., Outcome]


@pytest.fixture
def demo(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def small_train(demo: Run) -> Run:
    """Train a small model in this process; arguments are added to the small ones."""
    return lambda *arguments: demo(*SMALL, *arguments)


@pytest.fixture
def small_process() -> Run:
    """Train a small model in a process of its own."""

    def run(*arguments: object) -> Outcome:
        done = subprocess.run(
            small_command(*arguments), capture_output=True, text=True, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def small_process_command() -> Callable[..., list[str]]:
    """The command of such a process, for a test that starts it itself."""
    return small_command


def small_command(*arguments: object) -> list[str]:
    """How a supervisor would start a small run."""
    given = [str(argument) for argument in arguments]
    return [sys.executable, "-m", "autoexp_tui.demo", *SMALL, *given]
