"""Only what varies is shown, by its shortest name that is its own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.cockpit.state.parameters import (
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


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (plan({"a.lr": 1, "seed": 7}, {"a.lr": 2, "seed": 7}), ["lr"]),
        (plan({"a.lr": 1, "b.lr": 3}, {"a.lr": 2, "b.lr": 4}), ["a.lr", "b.lr"]),
        (plan({"stage": "a"}, {"stage": "b"}, stages=("a", "b")), []),
        (plan({"x": 1}, {"x": True}), ["x"]),
        (plan({"x": [1, 2]}, {"x": {"a": 1}}), ["x"]),
    ],
    ids=["what is the same", "equal tails", "the stage", "1 and true", "no hash"],
)
def test_what_varies_is_shown_by_a_name_of_its_own(
    made: Plan, labels: list[str]
) -> None:
    assert [one.label for one in PlanWords(made).of_families] == labels


def test_what_only_one_stage_has_tells_its_jobs_apart_and_no_families() -> None:
    alone = plan({}, {"decay": 2, "x": 1}, {"decay": 3, "x": 1}, {"x": 2},
                 stages=("a", "b", "b", "c"))  # fmt: skip
    assert [one.key for one in PlanWords(alone).parameters] == ["decay"]
    both = plan({"x": 1}, {"decay": 2, "x": 1}, {"x": 2}, {"decay": 3, "x": 2},
                stages=("a", "b", "a", "b"))  # fmt: skip
    assert [one.key for one in PlanWords(both).parameters] == ["x", "decay"]
    assert [one.key for one in PlanWords(both).of_families] == ["x"]


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


def test_jobs_are_named_by_what_they_share_and_one_by_all_of_it() -> None:
    points = plan({"lr": 1, "bsz": 8}, {"lr": 2, "bsz": 8}, {"lr": 3, "bsz": 9})
    varying = PlanWords(points).of_families
    assert find_common(points.jobs[:2], varying) == "bsz=8"
    assert find_common(points.jobs, varying) == ""
    assert describe_job(points.jobs[0], varying) == "lr=1 bsz=8"
