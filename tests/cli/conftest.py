"""What tests of the commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from tests.cli.session_places import Place
from tests.config.planned_here import planning_here


@pytest.fixture
def planned_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands plan in this process: for tests of what they make of the answer.

    What a process of its own is to a command, `test_plan.py` sees, which has one.
    """
    with planning_here(monkeypatch):
        yield


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command's `main`: its exit code, what it printed, what it said."""

    def run(main: Callable[[Sequence[str]], int], *argv: str) -> tuple[int, str, str]:
        code = run_guarded(main, list(argv))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    """A state directory of small sessions, and autoexp-sessions over it."""
    return Place(tmp_path, capsys)
