"""Which keys a plan sweeps, and the sum that its number of jobs comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.grid import SweepSummary
from tests.planning.plans import job, plan, ten_jobs


def points(*parameters: Mapping[str, object], stage: str = "") -> list[JobSpec]:
    """A job for each point, each a family of its own."""
    return [
        job(f"{stage}{at}", at, stage=stage, family=f"f{at}", parameters=own)
        for at, own in enumerate(parameters)
    ]


def keys(jobs: Sequence[JobSpec]) -> dict[str, tuple[str, ...]]:
    """Each swept key and its values."""
    return {one.key: one.values for one in SweepSummary(plan(jobs)).axes}


def total(jobs: Sequence[JobSpec] | Plan) -> str:
    """The counting line."""
    made = jobs if isinstance(jobs, Plan) else plan(jobs)
    return SweepSummary(made).count_jobs()


# --------------------------------------------------------------------------- keys
def test_values_come_in_the_order_of_the_sweep_and_in_the_short_spelling() -> None:
    found = keys(points({"lr": 0.001}, {"lr": 2.5e-4}, {"lr": 50.0}))
    assert found == {"lr": ("1e-3", "2.5e-4", "50")}


def test_a_key_with_one_value_is_not_swept() -> None:
    assert keys(points({"lr": 1, "bsz": 4}, {"lr": 2, "bsz": 4})) == {"lr": ("1", "2")}


def test_a_key_that_differs_only_between_stages_is_not_swept() -> None:
    jobs = [*points({"steps": 8}, stage="a"), *points({"steps": 2}, stage="b")]
    assert keys(jobs) == {}


def test_a_key_that_only_some_jobs_of_a_stage_set_is_swept() -> None:
    assert keys(points({"lr": 1}, {})) == {"lr": ("1", "unset")}


def test_a_stage_that_never_sets_a_key_does_not_leave_it_unset() -> None:
    jobs = [*points({"lr": 1}, {"lr": 2}, stage="a"), *points({}, stage="b")]
    assert keys(jobs) == {"lr": ("1", "2")}


@pytest.mark.parametrize("key", ["stage", "_stage", "aux", "project.name", "_meta"])
def test_what_names_or_notes_a_job_is_not_swept(key: str) -> None:
    assert keys(points({key: "a"}, {key: "b"})) == {}


def test_plus_signs_are_no_part_of_a_key() -> None:
    assert keys(points({"++lr": 1}, {"++lr": 2})) == {"lr": ("1", "2")}


def test_yes_no_and_nothing_are_spelled_as_in_yaml() -> None:
    found = keys(points({"x": True}, {"x": False}, {"x": None}, {"x": ""}))
    assert found == {"x": ("true", "false", "null", '""')}


def test_labels_are_short_where_that_tells_them_apart() -> None:
    made = plan(
        points({"a.lr": 1, "b.lr": 1, "c.bsz": 1}, {"a.lr": 2, "b.lr": 2, "c.bsz": 2})
    )
    assert [one.label for one in SweepSummary(made).axes] == ["a.lr", "b.lr", "bsz"]


def test_a_job_is_described_by_the_keys_that_it_sets() -> None:
    made = plan(
        points({"optim.lr": 0.1, "bsz": 4, "seed": 1}, {"optim.lr": 1, "bsz": 8})
    )
    shown = [SweepSummary(made).describe_job(one) for one in made.jobs]
    assert shown == ["lr=0.1 bsz=4 seed=1", "lr=1 bsz=8"]


# -------------------------------------------------------------------------- counts
def test_the_shipped_experiment_counts_its_report_apart() -> None:
    assert total(ten_jobs()) == "3 lr × 3 stages + 1 = 10 jobs"


def test_a_full_grid_is_the_product_of_its_keys() -> None:
    grid = [{"lr": lr, "bsz": bsz} for lr in (1, 2, 3) for bsz in (4, 8)]
    assert total(points(*grid)) == "3 lr × 2 bsz = 6 jobs"


def test_values_that_go_together_are_combinations() -> None:
    zipped = points({"lr": 1, "bsz": 4}, {"lr": 2, "bsz": 8}, {"lr": 3, "bsz": 16})
    assert total(zipped) == "3 combinations = 3 jobs"


def test_a_grid_with_a_hole_is_combinations() -> None:
    grid = [{"lr": lr, "bsz": bsz} for lr in (1, 2) for bsz in (4, 8)]
    assert total(points(*grid[:3])) == "3 combinations = 3 jobs"


def test_one_job_is_one_job() -> None:
    assert total([job("a")]) == "1 job"


def test_stages_without_a_sweep_are_counted_alone() -> None:
    jobs = [job(stage, stage=stage, family="f0") for stage in ("a", "b", "c")]
    assert total(jobs) == "3 stages = 3 jobs"


def test_families_with_other_stages_are_added() -> None:
    jobs = [
        *(
            job(f"a{at}", stage="a", family=f"f{at}", parameters={"x": at})
            for at in range(4)
        ),
        *(
            job(f"b{at}", stage="b", family=f"f{at}", parameters={"x": at})
            for at in range(2)
        ),
    ]
    assert total(jobs) == "2 x × 2 stages + 2 x = 6 jobs"


def test_families_of_very_many_shapes_are_only_counted() -> None:
    jobs = [
        job(f"{family}-{at}", stage=f"s{at}", family=f"f{family}")
        for family in range(6)
        for at in range(family + 1)
    ]
    assert total(jobs) == "21 jobs in 6 families"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2))))
def test_the_sum_is_the_number_of_jobs(places: list[tuple[int, int, int]]) -> None:
    jobs = [
        job(
            f"run{at}",
            at,
            stage=f"s{stage}",
            family=f"f{lr}-{bsz}",
            parameters={"lr": lr, "bsz": bsz},
        )
        for at, (lr, bsz, stage) in enumerate(places)
    ]
    text = total(jobs)
    terms, _, told = text.rpartition(" = ")
    assert (told or text).split(" in ")[0] == f"{len(jobs)} job{'s' * (len(jobs) != 1)}"
    if terms:
        assert sum(_product(term) for term in terms.split(" + ")) == len(jobs)


def _product(term: str) -> int:
    return math.prod(int(number) for number in re.findall(r"(?:^|× )(\d+)", term))


def test_one_family_of_several_jobs_a_stage_is_only_counted() -> None:
    jobs = [job(f"b{at}", stage="b", family="f0") for at in range(3)]
    assert total([job("a", stage="a", family="f0"), *jobs]) == "4 jobs"
