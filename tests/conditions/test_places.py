"""Whose directory a path lies in, and whom a condition waits for."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.files import Places
from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MetadataIs,
    MetricIs,
    Not,
)
from autoexp_tui.model.condition import Condition

PLACES = Places([
    ("a.1", "/out/a.1", "/logs/a.1"), ("a", "out/a", "/logs/a"), ("b", "/out/b", "l/b"),
])  # fmt: skip


@pytest.mark.parametrize(("path", "owner"), [
    ("/out/a.1/checkpoints/done.txt", "a.1"), ("/out/a.1", "a.1"),
    ("/out/./b//x/*", "b"), ("/out/b/../a.1/x", "a.1"), ("out/a/x", "a"),
    ("/logs/a/current.log", "a"), ("/out/a.12/x", ""), ("/out", ""), ("", ""),
    ("..", ""),
])  # fmt: skip
def test_a_path_belongs_to_the_job_whose_directory_holds_it(
    path: str, owner: str
) -> None:
    assert PLACES.owner(path) == owner


def test_files_know_their_writers_wherever_they_are_named() -> None:
    condition = Composite(
        conditions=(FileExists(path="/out/b/x"),
                    Not(condition=FileContent(path="/out/a.1/y", pattern="z")),
                    FileExists(path="/elsewhere"),
                    LogPattern(log_path="/logs/a/current.log", pattern="z")),
    )  # fmt: skip
    assert PLACES.with_writers(condition) == Composite(
        conditions=(
            FileExists(path="/out/b/x", writer="b"),
            Not(condition=FileContent(path="/out/a.1/y", pattern="z", writer="a.1")),
            FileExists(path="/elsewhere"),
            LogPattern(log_path="/logs/a/current.log", pattern="z", writer="a"),
        )
    )


@pytest.mark.parametrize(("condition", "names"), [
    (JobStateIs(jobs=("a", "b"), state="COMPLETED"), {"a", "b"}),
    (MetadataIs(key="k", job="a"), {"a"}),
    (MetricIs(name="loss", value=1, job="b"), {"b"}),
    (FileExists(path="/out/b/x"), {"b"}),
    (LogPattern(log_path="/logs/a/current.log", pattern="{runtime.b.k}"), {"a"}),
    (FileExists(path="/x/{runtime.a.1.iteration}"), {"a.1"}),
    (FileExists(path="/x/{runtime.a.x.y.z}"), {"a"}),
    (CommandPasses(command=("test", "{runtime.a.iteration}")), {"a"}),
    (CommandPasses(command=("true",)), set()),
    (Not(condition=MetadataIs(key="k", job="a")), {"a"}),
    (Composite(conditions=(MetadataIs(key="k", job="a"), Approval())), {"a"}),
    (Composite(conditions=(FileExists(path="/x/{runtime.b.k}"), Approval())), {"b"}),
])  # fmt: skip
def test_a_condition_tells_whom_it_waits_for(
    condition: Condition, names: set[str]
) -> None:
    known = PLACES.with_writers(condition)
    assert {name for name in PLACES.list_awaited(known) if name} == names
