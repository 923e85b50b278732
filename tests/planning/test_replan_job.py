"""A planned job made again, over small fakes of the ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.build import build_execution_plan
from autoexp_tui.planning.ports import CannotCompose, SpecRefused
from autoexp_tui.planning.replan_job import build_job_again, join_plan
from tests.model import builders
from tests.sweep.fakes import FakeComposer, FakeParser, use_resolvers

CONFIG: Mapping[str, Any] = {
    "project": {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/out"},
    "backend": {"lr": 1e-3, "iters": 100},
    "slurm": {"log_dir": "/logs"},
    "monitoring": {"extracts": ["loss"], "total": "backend.iters"},
}
SWEEP = {"groups": [{"params": {"backend.lr": [1e-4, 5e-4]}}, {"configs": [
    {"stage": "a", "monitoring.extracts": ["path"]}, {"stage": "b"},
]}]}  # fmt: skip


class Bench:
    """A plan and what made it."""

    def __init__(self, **changes: Any) -> None:
        use_resolvers()
        composer = FakeComposer({**CONFIG, **changes}, SWEEP)
        self._made_by: Any = {"composer": composer, "parser": FakeParser()}
        self.plan: Plan = build_execution_plan(**self._made_by)

    def again(self, job: JobSpec, *further: str, **more: Any) -> JobSpec:
        return build_job_again(job, further, plan=self.plan, **self._made_by, **more)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_job_takes_further_overrides(bench: Bench) -> None:
    assert [bench.again(job) for job in bench.plan.jobs] == list(bench.plan.jobs)
    job = bench.plan.jobs[1]
    made = bench.again(job, "backend.lr=1")
    assert "--lr=1" in made.command
    assert made.name == job.name
    assert made.overrides[-1] == "backend.lr=1"
    assert made.fingerprint != job.fingerprint
    assert made.parameters["backend.lr"] == 1
    assert made.own_values == {"backend.lr": 1}
    assert made.planned is not None
    assert made.planned["backend.lr"] == job.parameters["backend.lr"]
    same = bench.again(job, f"backend.lr={job.parameters['backend.lr']}")
    assert same.planned is None
    assert same.parameters == job.parameters
    assert same.fingerprint == job.fingerprint


def test_a_value_that_was_not_swept_is_told_with_the_plan_s(bench: Bench) -> None:
    job = bench.plan.jobs[0]
    made = bench.again(job, "backend.iters=300")
    assert (job.progress_total, made.progress_total) == (100, 300)
    assert made.own_values == {"backend.iters": 300}
    assert made.planned is not None
    assert made.planned["backend.iters"] == 100
    assert made.rules == job.rules != ""
    assert made.own_rules is None
    both = job, bench.again(job, "monitoring.extracts=[gone]")
    extracted = [bench.plan.rules_of(one).log_events[0].extract_groups for one in both]
    assert extracted == [{"path": "1"}, {"gone": "1"}]


def test_overrides_may_not_fit(bench: Bench) -> None:
    job = bench.plan.jobs[0]
    with pytest.raises(CannotCompose):
        bench.again(job, "backend.nothing=1")
    for further in ("++backend.broken=1", "++slurm.bad=1"):
        with pytest.raises(SpecRefused):
            bench.again(job, further)
    other = Bench(backend={"lr": 1e-3, "iters": 100, "new": 1})
    with pytest.raises(UsageError, match="the config has changed"):
        other.again(bench.plan.jobs[0], "backend.lr=1")


def test_the_config_is_recorded_where_it_differs_from_the_plan_s(bench: Bench) -> None:
    kept = list[Any]()
    for further in ((), ("backend.lr=1",)):
        record = lambda resolved, written: kept.append(resolved)  # noqa: E731
        bench.again(bench.plan.jobs[1], *further, record=record)
    assert [config["backend"]["lr"] for config in kept] == [1]


@pytest.mark.parametrize(("own", "named"), [("f0", ["f3", "f3"]), ("f1", ["f7", "f8"])])
def test_families_that_join_are_numbered_anew(own: str, named: list[str]) -> None:
    jobs = builders.job("x", family="f0"), builders.job("y", 1, family=own)
    made = join_plan(builders.plan(*jobs), family="f3", families=7)
    assert [one.family for one in made.jobs] == named
    jobs = builders.job("x"), builders.job("y", 1, stage="own")
    made = join_plan(builders.plan(*jobs), family="", families=1, stage="train")
    assert [one.stage for one in made.jobs] == ["train", "own"]
