"""A job's attempt, as executors are given it, holds all that its plan says of it."""

from __future__ import annotations

import dataclasses

import pytest

from autoexp_tui.engine.executor_port import Task, task_of
from autoexp_tui.model.specs import Resources
from tests.model.builders import job

SPEC = job(
    "a",
    command=("train", "--lr=1"),
    env={"SEED": "3"},
    cwd="/code",
    output_dir="/out/a",
    log_dir="/logs/a",
    resources=Resources(gpus=2),
)
TOLD = {
    "job": "a",
    "attempt": 2,
    "command": ("train", "--lr=1"),
    "env": {"SEED": "3"},
    "cwd": "/code",
    "output_dir": "/out/a",
    "log_dir": "/logs/a",
    "attempt_dir": "/state/a/2",
    "resources": Resources(gpus=2),
    "resume": True,
    "token": "t7",
    "executor_id": "41",
    "ordered_at": 12.5,
}
"""Each differs from what a task says when nobody does."""
WHEN_SENT = {"metric_places"}


@pytest.mark.parametrize("field", TOLD)
def test_a_field_of_the_job_reaches_its_task(field: str) -> None:
    task = task_of(
        SPEC,
        2,
        "/state/a/2",
        resume=True,
        token="t7",
        executor_id="41",
        ordered_at=12.5,
    )
    assert getattr(task, field) == TOLD[field]


def test_no_field_of_a_task_is_left_out() -> None:
    fields = {field.name for field in dataclasses.fields(Task)}
    assert fields == TOLD.keys() | WHEN_SENT
