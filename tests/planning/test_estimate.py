"""What running a plan may cost, and above what it is asked about."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan, Resources, Scalar
from autoexp_tui.planning import estimate as costs
from autoexp_tui.planning.estimate import Bounds, describe_estimate, estimate
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan


def spender(
    name: str, seconds: float | None = 3600.0, gpus: int = 0, **more: Any
) -> JobSpec:
    options: dict[str, Scalar] = more.pop("options", {})
    asked = Resources(time_limit_seconds=seconds, gpus=gpus, options=options)
    return job(name, resources=asked, **more)


def bounded(*jobs: JobSpec, **settings: Scalar) -> Plan:
    return plan(*jobs, executor=ExecutorSpec(settings=settings))


def test_every_stage_has_its_own_estimate_and_jobs_without_a_limit_are_named() -> None:
    jobs = [spender(f"s{n}", gpus=4, stage="stable") for n in range(3)]
    found = estimate([*jobs, spender("c", 1800, 2, stage="cooldown")])
    assert describe_estimate(found, cluster=True) == (
        "4 jobs: at most 13 GPU h, 3.5 node h, 3.5 CPU h an attempt each",
        "stable 3 jobs, 12 GPU h; cooldown 1 job, 1 GPU h",
    )
    endless = [spender(f"e{n}", None, 1) for n in range(5)]
    found = estimate([spender("a", gpus=2), *endless])
    assert describe_estimate(found, cluster=True) == (
        "6 jobs: at least 2 GPU h, 1 node h, 1 CPU h an attempt each",
        "5 jobs have no time limit: e0, e1, e2 and 2 more",
    )
    assert "node h" not in describe_estimate(estimate([spender("a")]), cluster=False)[0]
    free = estimate([spender(f"a{n}", None) for n in range(3)])
    assert describe_estimate(free, cluster=False) == ("3 jobs: no GPUs",)


@pytest.mark.parametrize(("jobs", "words"), [
    ([spender("a")], "no GPUs"), ([spender("a", gpus=12)], "at most 12 GPU h"),
    ([spender("a", None, 1)], "GPU hours without a bound: no time limit"),
    ([spender("a", None, 1), spender("b", gpus=1)], "at least 1 GPU h"),
    ([spender("a", None), spender("b", gpus=1)], "at most 1 GPU h"),
])  # fmt: skip
def test_gpu_hours_are_told_with_what_bounds_them(jobs: Any, words: str) -> None:
    assert costs.format_gpu_hours(estimate(jobs)) == words


def test_above_a_bound_the_words_name_the_key() -> None:
    found = estimate([spender(f"j{n}", gpus=3) for n in range(4)])
    assert [*Bounds(10, 3).find_excess(found).items()] == [
        ("slurm.confirm.gpu_hours", "12 GPU h, above the bound of 10"),
        ("slurm.confirm.jobs", "4 jobs, above the bound of 3"),
    ]
    assert not Bounds(12, 4).find_excess(found)
    assert not Bounds(None, None).find_excess(found)
    assert costs.read_bounds(plan()) == Bounds(1000.0, 1000)
    own = bounded(confirm_gpu_hours=None, confirm_jobs=7)
    assert costs.read_bounds(own) == Bounds(None, 7)
    big = plan(spender("a", 3600 * 100, 16))
    two = bounded(spender("a"), spender("b"), confirm_jobs=1)
    hours = "gpu_hours: may take 1,600 GPU h, above the bound of 1,000"
    mend = "submitting it needs a yes, or --yes; null here asks for none"
    for made, said in ((big, hours), (two, "jobs: has 2 jobs, above the bound of 1")):
        (warning,) = map(str, validate_execution_plan(made).warnings)
        assert warning == f"slurm.confirm.{said}\n    {mend}"


def test_the_json_has_the_hours_of_each_stage_and_what_is_confirmed() -> None:
    found = estimate([spender("a", gpus=2, stage="s"), spender("b", None, stage="t")])
    assert costs.estimate_to_json(found, Bounds(1, 9)) == {
        "jobs": 2, "gpu_hours": 2.0, "node_hours": 1.0, "cpu_hours": 1.0,
        "without_time_limit": ["b"],
        "stages": [{"stage": "s", "jobs": 1, "gpu_hours": 2.0, "node_hours": 1.0,
                    "cpu_hours": 1.0, "without_time_limit": 0},
                   {"stage": "t", "jobs": 1, "gpu_hours": 0, "node_hours": 0,
                    "cpu_hours": 0, "without_time_limit": 1}],
        "bounds": {"gpu_hours": 1, "jobs": 9},
        "confirm": ["2 GPU h, above the bound of 1 (slurm.confirm.gpu_hours)"],
    }  # fmt: skip
