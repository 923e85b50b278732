"""What running a plan may cost, and above what it is asked about."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Resources, Scalar
from autoexp_tui.planning.estimate import (
    Bounds,
    describe_estimate,
    estimate,
    estimate_to_json,
    format_gpu_hours,
    format_hours,
    read_bounds,
)
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan


def spender(
    name: str, seconds: float | None = 3600.0, gpus: int = 0, **more: Any
) -> JobSpec:
    options: dict[str, Scalar] = more.pop("options", {})
    asked = Resources(time_limit_seconds=seconds, gpus=gpus, options=options)
    return job(name, resources=asked, **more)


def test_hours_are_the_time_limit_times_what_is_held() -> None:
    found = estimate([spender("a", 7200, 8, options={"nodes": 2, "cpus-per-task": 4})])
    assert (found.gpu_hours, found.node_hours, found.cpu_hours) == (16.0, 4.0, 16.0)


def test_every_stage_has_its_own_estimate() -> None:
    jobs = [spender(f"s{n}", gpus=4, stage="stable") for n in range(3)]
    found = estimate([*jobs, spender("c", 1800, 2, stage="cooldown")])
    assert describe_estimate(found, cluster=True) == (
        "4 jobs: at most 13 GPU h, 3.5 node h, 3.5 CPU h an attempt each",
        "stable 3 jobs, 12 GPU h; cooldown 1 job, 1 GPU h",
    )


def test_a_machine_of_ones_own_has_no_node_hours() -> None:
    assert "node h" not in describe_estimate(estimate([spender("a")]), cluster=False)[0]


def test_jobs_without_a_time_limit_are_named_and_make_it_a_lower_bound() -> None:
    endless = [spender(f"e{n}", None, 1) for n in range(5)]
    lines = describe_estimate(estimate([spender("a", gpus=2), *endless]), cluster=True)
    assert lines == (
        "6 jobs: at least 2 GPU h, 1 node h, 1 CPU h an attempt each",
        "5 jobs have no time limit: e0, e1, e2 and 2 more",
    )


@pytest.mark.parametrize(("jobs", "words"), [
    ([spender("a")], "no GPUs"), ([spender("a", gpus=12)], "at most 12 GPU h"),
    ([spender("a", None, 1)], "GPU hours without a bound: no time limit"),
    ([spender("a", None, 1), spender("b", gpus=1)], "at least 1 GPU h"),
    ([spender("a", None), spender("b", gpus=1)], "at most 1 GPU h"),
])  # fmt: skip
def test_gpu_hours_are_told_with_what_bounds_them(
    jobs: list[JobSpec], words: str
) -> None:
    assert format_gpu_hours(estimate(jobs)) == words


def test_jobs_without_gpus_and_limits_are_counted_alone() -> None:
    jobs = [spender(f"a{n}", None) for n in range(3)]
    assert describe_estimate(estimate(jobs), cluster=False) == ("3 jobs: no GPUs",)


@pytest.mark.parametrize(
    ("number", "text"), [(0.25, "0.25"), (12.4, "12"), (1234.0, "1,234"), (3.0, "3")]
)
def test_hours_have_no_digit_more_than_counts(number: float, text: str) -> None:
    assert format_hours(number) == text


def test_above_a_bound_the_words_name_the_key() -> None:
    found = estimate([spender(f"j{n}", gpus=3) for n in range(4)])
    assert [*Bounds(10, 3).find_excess(found).items()] == [
        ("slurm.confirm.gpu_hours", "12 GPU h, above the bound of 10"),
        ("slurm.confirm.jobs", "4 jobs, above the bound of 3"),
    ]
    assert not Bounds(12, 4).find_excess(found)
    assert not Bounds(None, None).find_excess(found)


def test_bounds_are_those_of_the_config_or_the_usual_ones() -> None:
    assert read_bounds(plan()) == Bounds(1000.0, 1000)
    settings: dict[str, Scalar] = {"confirm_gpu_hours": None, "confirm_jobs": 7}
    own = plan(executor=ExecutorSpec(settings=settings))
    assert read_bounds(own) == Bounds(None, 7)


def test_a_plan_above_a_bound_is_warned_about() -> None:
    big = plan(spender("a", 3600 * 100, 16))
    assert [str(one) for one in validate_execution_plan(big).warnings] == [
        "slurm.confirm.gpu_hours: may take 1,600 GPU h, above the bound of 1,000\n"
        "    submitting it needs a yes, or --yes; null here asks for none"
    ]


def test_a_plan_of_too_many_jobs_has_them_and_takes_nothing() -> None:
    settings: dict[str, Scalar] = {"confirm_jobs": 1}
    many = plan(spender("a"), spender("b"), executor=ExecutorSpec(settings=settings))
    told_of = [one.message for one in validate_execution_plan(many).warnings]
    assert told_of == ["has 2 jobs, above the bound of 1"]


def test_the_json_has_the_hours_of_each_stage_and_what_is_confirmed() -> None:
    found = estimate([spender("a", gpus=2, stage="s"), spender("b", None, stage="t")])
    assert estimate_to_json(found, Bounds(1, 9)) == {
        "jobs": 2, "gpu_hours": 2.0, "node_hours": 1.0, "cpu_hours": 1.0,
        "without_time_limit": ["b"],
        "stages": [{"stage": "s", "jobs": 1, "gpu_hours": 2.0, "node_hours": 1.0,
                    "cpu_hours": 1.0, "without_time_limit": 0},
                   {"stage": "t", "jobs": 1, "gpu_hours": 0, "node_hours": 0,
                    "cpu_hours": 0, "without_time_limit": 1}],
        "bounds": {"gpu_hours": 1, "jobs": 9},
        "confirm": ["2 GPU h, above the bound of 1 (slurm.confirm.gpu_hours)"],
    }  # fmt: skip
