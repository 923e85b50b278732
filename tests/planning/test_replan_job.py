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
        self.composer = FakeComposer({**CONFIG, **changes}, SWEEP)
        self.parser = FakeParser()
        self.plan: Plan = build_execution_plan(
            composer=self.composer, parser=self.parser
        )

    def again(self, job: JobSpec, *further: str) -> JobSpec:
        return build_job_again(
            job, further, plan=self.plan, composer=self.composer, parser=self.parser
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_job_is_composed_again_from_its_overrides(bench: Bench) -> None:
    for job in bench.plan.jobs:
        assert bench.again(job) == job


def test_a_job_takes_further_overrides(bench: Bench) -> None:
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


def test_a_value_that_was_not_swept_is_told_with_the_plan_s(bench: Bench) -> None:
    job = bench.plan.jobs[0]
    made = bench.again(job, "backend.iters=300")
    assert (job.progress_total, made.progress_total) == (100, 300)
    assert made.own_values == {"backend.iters": 300}
    assert made.planned is not None
    assert made.planned["backend.iters"] == 100
    assert made.rules == job.rules != ""
    assert made.own_rules is None


def test_further_overrides_may_set_rules(bench: Bench) -> None:
    job = bench.plan.jobs[0]
    made = bench.again(job, "monitoring.extracts=[gone]")
    event = bench.plan.rules_of(made).log_events[0]
    assert event.extract_groups == {"gone": "1"}
    assert bench.plan.rules_of(job).log_events[0].extract_groups == {"path": "1"}


def test_overrides_may_not_fit(bench: Bench) -> None:
    job = bench.plan.jobs[0]
    with pytest.raises(CannotCompose):
        bench.again(job, "backend.nothing=1")
    for further in ("++backend.broken=1", "++slurm.bad=1"):
        with pytest.raises(SpecRefused):
            bench.again(job, further)


def test_a_config_that_has_changed_is_refused(bench: Bench) -> None:
    backend = {"lr": 1e-3, "iters": 100, "new": 1}
    other = Bench(backend=backend)
    job = bench.plan.jobs[0]
    with pytest.raises(UsageError, match="the config has changed"):
        other.again(job, "backend.lr=1")


# ---------------------------------------------------------- the values it runs with


def test_the_plan_s_own_value_given_again_changes_nothing(bench: Bench) -> None:
    job = bench.plan.jobs[1]
    lr = job.parameters["backend.lr"]
    made = bench.again(job, f"backend.lr={lr}")
    assert made.planned is None
    assert made.parameters == job.parameters
    assert made.fingerprint == job.fingerprint


def test_the_config_is_recorded_where_it_differs_from_the_plan_s() -> None:
    bench, kept = Bench(), list[Any]()
    job = bench.plan.jobs[1]
    for further in ((), ("backend.lr=1",)):
        build_job_again(
            job,
            further,
            plan=bench.plan,
            composer=bench.composer,
            parser=bench.parser,
            record=lambda resolved, written: kept.append(resolved),
        )
    assert [config["backend"]["lr"] for config in kept] == [1]


# ---------------------------------------------------------------- joining
@pytest.mark.parametrize(("own", "named"), [("f0", ["f3", "f3"]), ("f1", ["f7", "f8"])])
def test_one_family_joins_that_of_its_job_and_several_are_numbered_anew(
    own: str, named: list[str]
) -> None:
    jobs = builders.job("x", family="f0"), builders.job("y", 1, family=own)
    made = join_plan(builders.plan(*jobs), family="f3", families=7)
    assert [one.family for one in made.jobs] == named


def test_only_jobs_without_a_stage_are_given_one() -> None:
    jobs = builders.job("x"), builders.job("y", 1, stage="own")
    made = join_plan(builders.plan(*jobs), family="", families=1, stage="train")
    assert [one.stage for one in made.jobs] == ["train", "own"]
