"""What a step leaves of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.evaluation.requests import Swept, find_record, write_record
from autoexp_tui.evaluation.steps import StepFailed, run_step
from autoexp_tui.model.errors import EnvironmentFailed


def measure() -> Swept:
    return Swept(sha256="new")


def fail() -> Swept:
    raise StepFailed("sweep_failed", "it ended with 1")


def break_down() -> Swept:
    raise EnvironmentFailed("the disk is away", "here")


@pytest.mark.parametrize(
    ("step", "status", "left"),
    [
        (measure, 0, Swept(sha256="new")),
        (fail, 1, Swept(code="sweep_failed")),
        (break_down, EnvironmentFailed.exit_code, Swept(code="environment")),
    ],
)
def test_a_step_leaves_its_own_record_and_none_of_an_earlier_attempt(
    tmp_path: Path, step: object, status: int, left: Swept
) -> None:
    path = tmp_path / "swept.json"
    write_record(path, Swept(sha256="old"))
    assert callable(step)
    assert run_step(path, step, lambda failed: Swept(code=failed.code)) == status
    assert find_record(Swept, path) == left
