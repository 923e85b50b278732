from __future__ import annotations

from autoexp_tui.planning.further import join_plan
from tests.model.builders import job, plan


def test_one_family_joins_that_of_the_job_it_is_made_for() -> None:
    made = join_plan(
        plan(job("x", family="f0"), job("y", 1, family="f0")), family="f3", families=7
    )
    assert [one.family for one in made.jobs] == ["f3", "f3"]


def test_several_families_get_numbers_of_their_own() -> None:
    made = join_plan(
        plan(job("x", family="f0"), job("y", 1, family="f1")), family="f3", families=7
    )
    assert [one.family for one in made.jobs] == ["f7", "f8"]


def test_only_jobs_without_a_stage_are_given_one() -> None:
    made = join_plan(
        plan(job("x"), job("y", 1, stage="own")), family="", families=1, stage="train"
    )
    assert [one.stage for one in made.jobs] == ["train", "own"]
