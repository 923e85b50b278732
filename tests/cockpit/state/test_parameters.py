"""Only what varies is shown, by its shortest name that is its own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.cockpit.state.parameters import (
    Parameter,
    PlanWords,
    describe_job,
    find_common,
    format_value,
)
from autoexp_tui.model.specs import JobSpec, Plan


def plan(*parameters: Mapping[str, object], stages: tuple[str, ...] = ()) -> Plan:
    jobs = tuple(
        JobSpec(
            name=f"j{n}",
            index=n,
            stage=stages[n] if stages else "",
            parameters=values,
            command=("x",),
            output_dir="/o",
            log_dir="/l",
        )
        for n, values in enumerate(parameters)
    )
    return Plan(plan_id="p", name="p", state_dir="/s", jobs=jobs)


def find_varying(of: Plan) -> tuple[Parameter, ...]:
    return PlanWords(of).of_families


def test_what_is_the_same_everywhere_is_left_out() -> None:
    found = find_varying(plan({"a.lr": 1, "seed": 7}, {"a.lr": 2, "seed": 7}))
    assert [one.label for one in found] == ["lr"]


def test_equal_tails_are_told_apart() -> None:
    found = find_varying(plan({"a.lr": 1, "b.lr": 3}, {"a.lr": 2, "b.lr": 4}))
    assert [one.label for one in found] == ["a.lr", "b.lr"]


def test_the_stage_is_no_parameter() -> None:
    assert find_varying(plan({"stage": "a"}, {"stage": "b"}, stages=("a", "b"))) == ()


def test_what_only_one_stage_has_tells_no_families_apart() -> None:
    points = plan({"x": 1}, {"x": 1, "decay": 2}, {"x": 2}, {"x": 2, "decay": 3},
                  stages=("a", "b", "a", "b"))  # fmt: skip
    assert [one.key for one in find_varying(points)] == ["x"]


def test_what_only_one_stage_has_tells_its_jobs_apart_after_the_rest() -> None:
    points = plan({}, {"decay": 2, "x": 1}, {"decay": 3, "x": 1}, {"x": 2},
                  stages=("a", "b", "b", "c"))  # fmt: skip
    assert [one.key for one in PlanWords(points).parameters] == ["decay"]
    wider = plan({"x": 1}, {"decay": 2, "x": 1}, {"x": 2}, {"decay": 3, "x": 2},
                 stages=("a", "b", "a", "b"))  # fmt: skip
    assert [one.key for one in PlanWords(wider).parameters] == ["x", "decay"]


def test_one_and_true_are_different_values() -> None:
    assert len(find_varying(plan({"x": 1}, {"x": True}))) == 1


def test_unhashable_values_are_fine() -> None:
    assert find_varying(plan({"x": [1, 2]}, {"x": {"a": 1}}))[0].label == "x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-4, "1e-4"),
        (0.01, "0.01"),
        (50, "50"),
        (True, "true"),
        (None, "null"),
        ("a\x1b[31mb", "ab"),
        ("", '""'),
    ],
)
def test_values_are_spelled_as_a_person_writes_them(value: object, text: str) -> None:
    assert format_value(value) == text


def test_a_parameter_that_all_share_is_named() -> None:
    points = plan({"lr": 1, "bsz": 8}, {"lr": 2, "bsz": 8}, {"lr": 3, "bsz": 9})
    assert find_common(points.jobs[:2], find_varying(points)) == "bsz=8"


def test_nothing_shared_is_nothing_named() -> None:
    points = plan({"lr": 1, "bsz": 8}, {"lr": 2, "bsz": 9})
    assert find_common(points.jobs, find_varying(points)) == ""


def test_one_job_is_described_whole() -> None:
    points = plan({"lr": 1, "bsz": 8}, {"lr": 2, "bsz": 9})
    assert describe_job(points.jobs[0], find_varying(points)) == "lr=1 bsz=8"


def test_what_only_names_a_path_of_a_job_is_no_swept_value() -> None:
    save, load = "{output_dir}/checkpoints", "{sibling.stable.output_dir}/iter_8"
    points = plan({"lr": 1, "save": save}, {"lr": 1, "save": save, "load": load},
                  {"lr": 2, "save": save}, {"lr": 2, "save": save, "load": load},
                  stages=("a", "b", "a", "b"))  # fmt: skip
    assert PlanWords(points).paths == {"save", "load"}


def test_a_path_that_is_swept_within_a_stage_stays_a_value() -> None:
    points = plan({"load": "{sibling.a.output_dir}/iter_8"},
                  {"load": "{sibling.a.output_dir}/iter_9"})  # fmt: skip
    assert PlanWords(points).paths == frozenset()
